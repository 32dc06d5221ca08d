package lifecycle

import (
	"slices"
	"testing"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// TestHooksKeepReleasesOfNoModule: a global hook says which releases are not the operator's to remove.
func TestHooksKeepReleasesOfNoModule(t *testing.T) {
	o := &Operator{store: newStore(&module.Found{}), units: []*unit{{Module: &module.Module{Name: "mine"}}}}
	patch, err := values.ParsePatch([]byte(`[{"op":"add","path":"/oldAppEnabled","value":true},{"op":"add","path":"/goneEnabled","value":false}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.store.patch(values.GlobalKey, patch); err != nil {
		t.Fatal(err)
	}
	known := map[string]helm.Record{"mine": {}, "old-app": {}, "gone": {}, "other": {}}
	if got := o.foreignReleases(known); !slices.Equal(got, []string{"other", "gone"}) {
		t.Errorf("to be removed are %v", got)
	}
}
