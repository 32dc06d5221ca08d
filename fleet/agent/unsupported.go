package agent

import (
	"encoding/json"
	"errors"

	"github.com/sealift/sealift/fleet/ocm"
)

// unsupported returns an error for what a work asks and this agent cannot do. To apply it all the same would give it more rights than
// it is to have.
func unsupported(spec ocm.AgentSpec) error {
	if absent(spec.Executor) {
		return nil
	}
	return errors.New("executor: not supported, as this agent applies all works with its own rights; remove spec.executor")
}

func absent(field json.RawMessage) bool { return len(field) == 0 || string(field) == "null" }
