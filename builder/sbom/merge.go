package sbom

import (
	"encoding/json"
	"fmt"

	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Merge joins the documents of several packages to one document with the given name. Shared elements, such as layers, are
// listed once.
func Merge(name string, documents ...[]byte) ([]byte, error) {
	w := newWriter()
	for i, data := range documents {
		var d v2_3.Document
		if err := json.Unmarshal(data, &d); err != nil {
			return nil, fmt.Errorf("bill of materials %d: %w", i+1, err)
		}
		for _, l := range d.OtherLicenses {
			w.licenses[l.LicenseIdentifier] = l.LicenseName
		}
		for _, p := range d.Packages {
			w.packages[p.PackageSPDXIdentifier] = p
		}
		for _, r := range d.Relationships {
			w.relate(r.RefA.ElementRefID, r.Relationship, r.RefB.ElementRefID)
		}
	}
	return w.document(name)
}
