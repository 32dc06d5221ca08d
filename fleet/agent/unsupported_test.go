package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealift/sealift/fleet/ocm"
)

func TestWhatTheAgentCannotDoIsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ executor, rules, want string }{
		"nothing of it":          {"", "", ""},
		"null":                   {"null", "null", ""},
		"an executor":            {`{"subject": {"type": "ServiceAccount"}}`, "", "remove spec.executor"},
		"a CEL rule":             {"", `[{"type": "WellKnownConditions", "condition": "Complete"}, {"type": "CEL", "condition": "Ready"}]`, `condition "Ready" has type CEL`},
		"well-known rules alone": {"", `[{"type": "WellKnownConditions", "condition": "Complete"}]`, ""},
		"another form":           {"", `{}`, "conditionRules: "},
	} {
		err := unsupported(ocm.AgentSpec{Executor: json.RawMessage(tt.executor)}, ocm.ManifestConfig{ConditionRules: json.RawMessage(tt.rules)})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
