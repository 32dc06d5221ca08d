package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sealift/sealift/fleet/ocm"
)

// unsupported returns an error for what a work asks of its manifest and this agent cannot do. To apply it all the same would give it more
// rights than it is to have, or never report what somebody waits for.
func unsupported(spec ocm.AgentSpec, config ocm.ManifestConfig) error {
	if !absent(spec.Executor) {
		return errors.New("executor: not supported, as this agent applies all works with its own rights; remove spec.executor")
	}
	if absent(config.ConditionRules) {
		return nil
	}
	var rules []struct{ Type, Condition string }
	if err := json.Unmarshal(config.ConditionRules, &rules); err != nil {
		return fmt.Errorf("conditionRules: %w", err)
	}
	for _, r := range rules {
		if r.Type == "CEL" {
			return fmt.Errorf("conditionRules: the rule for condition %q has type CEL, which is not supported; use feedbackRules", r.Condition)
		}
	}
	return nil
}

func absent(field json.RawMessage) bool { return len(field) == 0 || string(field) == "null" }
