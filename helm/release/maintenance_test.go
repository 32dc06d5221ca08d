package release

import (
	"testing"

	"github.com/sealift/sealift/helm"
)

// TestLabelSaysWhetherReleaseIsManaged: addon-operator writes it to every release, with true or false.
func TestLabelSaysWhetherReleaseIsManaged(t *testing.T) {
	for label, unmanaged := range map[string]bool{"true": true, "false": false, "": false} {
		record := helm.Record{Revision: 1, Status: Deployed, Labels: map[string]string{checksumLabel: "same", unmanagedLabel: label}}
		for _, wanted := range []bool{true, false} {
			why, err := (&Modules{}).reason(t.Context(), helm.Wanted{Name: "web", Unmanaged: wanted}, record, rendering{checksum: "same"})
			if changed := why != ""; err != nil || changed != (wanted != unmanaged) {
				t.Errorf("with the label %q, and wanted %v: %q, %v", label, wanted, why, err)
			}
		}
	}
}
