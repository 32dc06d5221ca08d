package rotation

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// TestNodeRunsOnlyRequestedStage: the control plane that asks may have gone on, or have nothing for this node.
func TestNodeRunsOnlyRequestedStage(t *testing.T) {
	s, err := authority.New(strings.TrimSuffix(kubeadm.Copy(t), "/etc/kubernetes"), []string{authority.Cluster}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := operation.Request{ID: s.Request(), Stage: trustStep}
	for _, row := range []struct{ name, text, says string }{
		{"nothing", "", "knows of no rotation"},
		{"no rotation", "{}", "is not a time"},
		{"another stage", string(s.In(authority.Forget).Encode()), "at another stage"},
	} {
		if _, err := asked(row.text, r); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	if got, err := asked(string(s.Encode()), r); err != nil || got.ID != s.ID {
		t.Errorf("the stage that it was asked for: %v", err)
	}
}
