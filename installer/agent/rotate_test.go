package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// TestNodeRunsOnlyRequestedStage: the control plane that asks may have gone on, or have nothing for this node.
func TestNodeRunsOnlyRequestedStage(t *testing.T) {
	s, err := authority.New(strings.TrimSuffix(kubeadm.Copy(t), "/etc/kubernetes"), []string{authority.Cluster}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	in := intent.Intent{Upgrade: s.Request(), Operation: intent.Rotate, Attempt: 1, Server: "10.0.0.1:6445"}
	for _, row := range []struct{ name, text, says string }{
		{"nothing", "", "knows of no rotation"},
		{"no rotation", "{}", "is not a time"},
		{"another stage", string(s.In(authority.Forget).Encode()), "at another stage"},
	} {
		if _, err := (&Agent{Root: t.TempDir()}).rotate(t.Context(), in, row.text, func(string) { t.Error(row.name + ": something begins") }); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
