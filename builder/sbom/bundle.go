package sbom

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
)

// Whole is a bundle or a package to describe, down to what its inventory lists.
type Whole struct {
	Digest    string // of the index, in hex
	Packages  []bundle.PackageInfo
	Documents [][]byte // the documents of the packages, in their order; nil for a package without one
	Inventory *inventory.Inventory
}

// Materials is the bill of materials of a bundle, in any format.
type Materials struct{ document *v2_3.Document }

// Collect makes the bill of materials of a bundle: what the documents of its packages list, the operating system packages and Go programs in
// its images, archives and host packages, and the modules of those programs. An image says in its comment what is unknown about it.
func Collect(whole Whole) (*Materials, error) {
	w := newWriter()
	root := w.add(&v2_3.Package{
		PackageName: "bundle", PackageVersion: "sha256:" + whole.Digest, PackageSPDXIdentifier: id("Bundle", whole.Digest), PrimaryPackagePurpose: "ARCHIVE",
		PackageComment: "The version is the sha256 of the index of the bundle, which has the digest of each of its files.",
	})
	licenses := licensesOf(whole.Inventory)
	for n, p := range whole.Packages {
		data := whole.Documents[n]
		if data == nil {
			var err error
			if data, err = Document(subjectOf(p, licenses)); err != nil {
				return nil, err
			}
		}
		if err := w.merge(data); err != nil {
			return nil, fmt.Errorf("bill of materials of %s %s: %w", p.Name, p.Version, err)
		}
	}
	for key, r := range w.relationships {
		if r.Relationship == describes {
			delete(w.relationships, key)
			w.relate(root, contains, r.RefB.ElementRefID)
		}
	}
	w.relate("DOCUMENT", describes, root)
	for _, i := range whole.Inventory.Images {
		w.content(root, i)
	}
	w.files(root, whole.Inventory.Files)
	document, err := w.build("bundle-" + whole.Digest)
	if err != nil {
		return nil, err
	}
	return &Materials{document}, nil
}

// SPDX returns the document in SPDX 2.3, JSON.
func (m *Materials) SPDX() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(m.document); err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// licensesOf maps the path of each host package to its license statements.
func licensesOf(i *inventory.Inventory) map[string][]string {
	all := make(map[string][]string)
	for _, f := range i.Files {
		if f.Package != nil {
			all[f.Path] = f.Package.Licenses
		}
	}
	return all
}

// subjectOf describes a package that has no document of its own, such as one that kURL made.
func subjectOf(p bundle.PackageInfo, licenses map[string][]string) Subject {
	s := Subject{Name: p.Name, Version: p.Version, Assets: p.Assets}
	for _, h := range p.HostPackages {
		s.HostPackages = append(s.HostPackages, HostPackage{HostPackage: h, Licenses: licenses[h.Path]})
	}
	return s
}

// content adds an image with all that its inventory lists.
func (w *writer) content(root common.ElementID, i inventory.Image) {
	r := image.Resolved{Ref: i.Ref, Root: image.Descriptor{Digest: i.Digest}, Manifests: []image.Manifest{{Platform: i.Platform, Descriptor: image.Descriptor{Digest: i.Manifest}}}}
	for _, layer := range i.Layers {
		r.Manifests[0].Layers = append(r.Manifests[0].Layers, image.Descriptor{Digest: layer})
	}
	w.image(root, r)
	owner := id("Image", i.Ref+"@"+i.Digest)
	if i.Manifest != i.Digest {
		owner = id("Manifest", i.Ref+"@"+i.Manifest)
	}
	comment := fmt.Sprintf("Content: %s, %d packages, %d Go programs.", cmp.Or(i.System, "no distribution"), len(i.Packages), len(i.Programs))
	if len(i.Unknown) > 0 {
		comment = fmt.Sprintf("Content unknown: %s. Listed: %d packages, %d Go programs.", strings.Join(i.Unknown, "; "), len(i.Packages), len(i.Programs))
	}
	w.packages[owner].PackageComment = comment
	declared, refs := license.Expression(i.Licenses)
	maps.Copy(w.licenses, refs)
	w.packages[owner].PackageLicenseDeclared = declared
	for _, p := range i.Packages {
		w.relateAt(owner, w.component(p.Component), "listed in "+p.Path+" of layer "+p.Layer)
	}
	for _, p := range i.Programs {
		program := w.program(owner, p)
		w.relateAt(owner, program, "file "+p.Path+" of layer "+p.Layer)
		w.relate(id("Layer", p.Layer), contains, program)
	}
}

// relateAt says that one element contains another, and where.
func (w *writer) relateAt(from, to common.ElementID, where string) {
	w.relate(from, contains, to)
	w.relationships[[3]string{string(from), contains, string(to)}].RelationshipComment = where
}

// component adds an operating system package or a module.
func (w *writer) component(c component.Component) common.ElementID {
	declared, refs := license.Expression(c.Licenses)
	maps.Copy(w.licenses, refs)
	if c.Kind == component.Go {
		return w.licensedModule(c, declared)
	}
	added := &v2_3.Package{
		PackageName: c.Name, PackageVersion: c.Version, PackageSPDXIdentifier: id("Package", c.URL()+" "+declared),
		PackageLicenseDeclared: declared, PackageExternalReferences: purl(c.URL()), PrimaryPackagePurpose: "INSTALL",
	}
	if c.Source != "" {
		added.PackageSourceInfo = "built from " + strings.TrimSpace(c.Source+" "+c.SourceVersion)
	}
	return w.add(added)
}

// licensedModule adds a module. Only some of the images with it may have the text of its license: what one of them states holds for all.
func (w *writer) licensedModule(c component.Component, declared string) common.ElementID {
	before := ""
	if known := w.packages[moduleID(Module{c.Name, c.Version})]; known != nil {
		before = known.PackageLicenseDeclared
	}
	added := w.module(Module{c.Name, c.Version})
	if declared == noAssertion && before != "" {
		declared = before
	}
	w.packages[added].PackageLicenseDeclared = declared
	return added
}

// program adds a Go program of an owner, with its modules.
func (w *writer) program(owner common.ElementID, p inventory.Program) common.ElementID {
	added := w.add(&v2_3.Package{
		PackageName: path.Base(p.Path), PackageFileName: p.Path, PackageSPDXIdentifier: id("Program", string(owner)+" "+p.Path), PrimaryPackagePurpose: "APPLICATION",
	})
	if p.Main != "" {
		w.packages[added].PackageSourceInfo = "built from " + p.Main
	}
	for _, m := range p.Modules {
		w.relate(added, contains, w.component(m))
	}
	return added
}

// files adds the programs outside of images to the files that the documents of packages list.
func (w *writer) files(root common.ElementID, files []inventory.File) {
	byDigest := make(map[string][]common.ElementID)
	for _, key := range slices.Sorted(maps.Keys(w.packages)) {
		for _, sum := range w.packages[key].PackageChecksums {
			byDigest[sum.Value] = append(byDigest[sum.Value], key)
		}
	}
	for _, f := range files {
		if f.Package == nil && len(f.Programs) == 0 && len(f.Unknown) == 0 {
			continue // it has texts of licenses alone
		}
		owners := byDigest[f.SHA256]
		if len(owners) == 0 {
			owner := w.add(&v2_3.Package{
				PackageName: path.Base(f.Path), PackageFileName: f.Path, PackageSPDXIdentifier: id("File", f.Path), PackageChecksums: checksum("sha256:" + f.SHA256), PrimaryPackagePurpose: "FILE",
			})
			w.relate(root, contains, owner)
			owners = []common.ElementID{owner}
		}
		for _, owner := range owners {
			if len(f.Unknown) > 0 {
				w.packages[owner].PackageComment = "Content unknown: " + strings.Join(f.Unknown, "; ") + "."
			}
			for _, p := range f.Programs {
				w.relateAt(owner, w.program(owner, p), "file "+p.Path)
			}
		}
	}
}
