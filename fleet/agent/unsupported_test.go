package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealift/sealift/fleet/ocm"
)

func TestWhatTheAgentCannotDoIsRefused(t *testing.T) {
	for executor, want := range map[string]string{"": "", "null": "", `{"subject": {"type": "ServiceAccount"}}`: "remove spec.executor"} {
		err := unsupported(ocm.AgentSpec{Executor: json.RawMessage(executor)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("executor %s: %v", executor, err)
		}
	}
}
