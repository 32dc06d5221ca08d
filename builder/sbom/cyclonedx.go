package sbom

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/sealift/sealift/builder/license"
)

// purposes maps SPDX's purposes to CycloneDX's types. Others are libraries.
func purposes(purpose string) cdx.ComponentType {
	switch purpose {
	case "CONTAINER":
		return cdx.ComponentTypeContainer
	case "APPLICATION":
		return cdx.ComponentTypeApplication
	case "FILE", "ARCHIVE":
		return cdx.ComponentTypeFile
	}
	return cdx.ComponentTypeLibrary
}

// CycloneDX returns the same facts in CycloneDX 1.6, JSON. A component depends on what it contains.
func (m *Materials) CycloneDX() ([]byte, error) {
	bom := cdx.NewBOM()
	bom.SerialNumber = serial(m.document.DocumentNamespace)
	bom.Metadata = &cdx.Metadata{Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "sealift"}}}}
	root := ""
	contained := make(map[string][]string)
	for _, r := range m.document.Relationships {
		from, to := string(r.RefA.ElementRefID), string(r.RefB.ElementRefID)
		if r.Relationship == describes {
			root = to
		} else {
			contained[from] = append(contained[from], to)
		}
	}
	var components []cdx.Component
	var dependencies []cdx.Dependency
	for _, p := range m.document.Packages {
		c := cycloneComponent(p)
		if c.BOMRef == root {
			bom.Metadata.Component = &c
		} else {
			components = append(components, c)
		}
		if to := contained[c.BOMRef]; to != nil {
			slices.Sort(to)
			to = slices.Compact(to)
			dependencies = append(dependencies, cdx.Dependency{Ref: c.BOMRef, Dependencies: &to})
		}
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// serial returns an RFC 4122 name for a text, version 8: bits of its digest.
func serial(text string) string {
	sum := []byte(short(text))
	sum[12], sum[16] = '8', 'a'
	return fmt.Sprintf("urn:uuid:%s-%s-%s-%s-%s", sum[:8], sum[8:12], sum[12:16], sum[16:20], sum[20:])
}

func cycloneComponent(p *v2_3.Package) cdx.Component {
	c := cdx.Component{
		BOMRef: string(p.PackageSPDXIdentifier), Type: purposes(p.PrimaryPackagePurpose), Name: p.PackageName, Version: p.PackageVersion,
		Description: cmp.Or(p.PackageComment, p.PackageSourceInfo),
	}
	if len(p.PackageExternalReferences) > 0 {
		c.PackageURL = p.PackageExternalReferences[0].Locator
	}
	for _, sum := range p.PackageChecksums {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum.Value}}
	}
	if p.PackageLicenseDeclared != license.NoAssertion {
		c.Licenses = &cdx.Licenses{{Expression: p.PackageLicenseDeclared}}
	}
	return c
}
