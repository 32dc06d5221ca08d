package lifecycle

import (
	"testing"

	"github.com/sealift/sealift/kube"
)

// TestOnlyDeletedChartObjectsAreRemembered: hooks that delete Pods for years leave nothing in memory.
func TestOnlyDeletedChartObjectsAreRemembered(t *testing.T) {
	of := kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "of-a-chart"}
	o := &Operator{gone: map[kube.Ref]bool{}, units: []*unit{{refs: []kube.Ref{of}}}}
	o.noteDeleted([]kube.Ref{of, {Version: "v1", Kind: "Pod", Namespace: "n", Name: "of-nobody"}})
	if len(o.gone) != 1 || !o.gone[o.identity(of)] {
		t.Errorf("gone are %v", o.gone)
	}
	of.Version = ""
	if o.noteMade([]kube.Ref{of}); len(o.gone) != 0 {
		t.Errorf("made again, and gone are %v", o.gone)
	}
}
