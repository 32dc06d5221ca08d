// Package sbom writes the bill of materials of a package: an SPDX 2.3 document in JSON. It lists the images with their
// layer digests, the operating system packages with their licenses, and the assets.
//
// For a bundle, Collect adds what package inventory lists inside of images, archives and host packages, in SPDX or CycloneDX.
//
// The same package yields the same document, because it has no creation time and no random name. The package records known
// digests and names; it does not inspect content.
package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
)

// FileName is the name of the document in an add-on's folder.
const FileName = "sbom.spdx.json"

const (
	noAssertion = license.NoAssertion
	// created is the creation time that SPDX requires: the time of every file in an archive.
	created = "1980-01-01T00:00:00Z"
	// namespace is the prefix of document names. The digest of the content makes a name unique (SPDX 2.3 §6.5).
	namespace = "https://sealift.dev/spdx/"
)

// The relationships that are used (SPDX 2.3 §11.1).
const (
	describes = "DESCRIBES"
	contains  = "CONTAINS"
)

// Subject is the package to describe.
type Subject struct {
	Name, Version string
	Images        []image.Resolved
	Assets        []bundle.Asset
	HostPackages  []HostPackage
	Files         []bundle.File // files of unknown origin, such as the output of a Dockerfile
}

// HostPackage is an operating system package with its license statements.
type HostPackage struct {
	bundle.HostPackage
	Licenses []string
}

// Document returns the document of a package.
func Document(s Subject) ([]byte, error) {
	w := newWriter()
	root := w.add(&v2_3.Package{
		PackageName: s.Name, PackageVersion: s.Version, PackageSPDXIdentifier: id("AddOn", s.Name+"-"+s.Version),
		PrimaryPackagePurpose: "INSTALL",
	})
	w.relate("DOCUMENT", describes, root)
	for _, r := range s.Images {
		w.image(root, r)
	}
	for _, a := range s.Assets {
		w.asset(root, s, a)
	}
	for _, p := range s.HostPackages {
		w.hostPackage(root, p)
	}
	for _, f := range s.Files {
		w.relate(root, contains, w.add(&v2_3.Package{
			PackageName: path.Base(f.Path), PackageVersion: s.Version, PackageFileName: path.Base(f.Path),
			PackageSPDXIdentifier: id("File", f.Path), PackageChecksums: checksum("sha256:" + f.SHA256), PrimaryPackagePurpose: "FILE",
		}))
	}
	return w.document(s.Name + "-" + s.Version)
}

// writer collects the parts of a document without repetitions.
type writer struct {
	packages      map[common.ElementID]*v2_3.Package
	relationships map[[3]string]*v2_3.Relationship
	licenses      map[string]string // identifier to name
}

func newWriter() *writer {
	return &writer{packages: make(map[common.ElementID]*v2_3.Package), relationships: make(map[[3]string]*v2_3.Relationship),
		licenses: make(map[string]string)}
}

// add adds a package with SPDX's values for unknown fields.
func (w *writer) add(p *v2_3.Package) common.ElementID {
	if p.PackageDownloadLocation == "" {
		p.PackageDownloadLocation = noAssertion
	}
	p.PackageLicenseConcluded, p.PackageCopyrightText = noAssertion, noAssertion
	if p.PackageLicenseDeclared == "" {
		p.PackageLicenseDeclared = noAssertion
	}
	w.packages[p.PackageSPDXIdentifier] = p
	return p.PackageSPDXIdentifier
}

func (w *writer) relate(from common.ElementID, how string, to common.ElementID) {
	w.relationships[[3]string{string(from), how, string(to)}] = &v2_3.Relationship{
		RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: how,
	}
}

// image adds an image, its manifest for each platform, and their layers.
func (w *writer) image(root common.ElementID, r image.Resolved) {
	top := w.add(&v2_3.Package{
		PackageName: r.Ref, PackageVersion: r.Root.Digest, PackageSPDXIdentifier: id("Image", r.Ref+"@"+r.Root.Digest),
		PackageChecksums: checksum(r.Root.Digest), PackageExternalReferences: purl(component.ImageURL(r.Ref, r.Root.Digest)), PrimaryPackagePurpose: "CONTAINER",
	})
	w.relate(root, contains, top)
	for _, m := range r.Manifests {
		owner := top
		if m.Digest != r.Root.Digest {
			owner = w.add(&v2_3.Package{
				PackageName: r.Ref + " " + m.Platform, PackageVersion: m.Digest, PackageSPDXIdentifier: id("Manifest", r.Ref+"@"+m.Digest),
				PackageChecksums: checksum(m.Digest), PackageExternalReferences: purl(component.ImageURL(r.Ref, m.Digest)), PrimaryPackagePurpose: "CONTAINER",
			})
			w.relate(top, contains, owner)
		}
		for _, l := range m.Layers {
			layer := w.add(&v2_3.Package{
				PackageName: "layer " + l.Digest, PackageVersion: l.Digest, PackageSPDXIdentifier: id("Layer", l.Digest),
				PackageChecksums: checksum(l.Digest), PrimaryPackagePurpose: "ARCHIVE",
			})
			w.relate(owner, contains, layer)
		}
	}
}

func (w *writer) asset(root common.ElementID, s Subject, a bundle.Asset) {
	location := ""
	if strings.HasPrefix(a.Source, "https://") || strings.HasPrefix(a.Source, "http://") {
		location = a.Source
	}
	w.relate(root, contains, w.add(&v2_3.Package{
		PackageName: a.Name, PackageVersion: s.Version, PackageFileName: a.Name, PackageSPDXIdentifier: id("Asset", a.Path),
		PackageDownloadLocation: location, PackageChecksums: checksum("sha256:" + a.SHA256), PrimaryPackagePurpose: "FILE",
	}))
}

func (w *writer) hostPackage(root common.ElementID, p HostPackage) {
	declared, refs := license.Expression(p.Licenses)
	maps.Copy(w.licenses, refs)
	w.relate(root, contains, w.add(&v2_3.Package{
		PackageName: p.Name, PackageVersion: p.Version, PackageFileName: path.Base(p.Path),
		PackageSPDXIdentifier: id("HostPackage", p.Target+"/"+p.Name+"/"+p.SHA256), PackageChecksums: checksum("sha256:" + p.SHA256),
		PackageLicenseDeclared: declared, PackageExternalReferences: purl(hostPackageURL(p.HostPackage)), PrimaryPackagePurpose: "INSTALL",
	}))
}

// id returns an SPDX identifier (letters, digits, dots and dashes) that means the same thing in all documents.
func id(kind, name string) common.ElementID {
	if kind == "Layer" || kind == "AddOn" {
		if clean := strings.TrimPrefix(name, "sha256:"); strings.Trim(clean, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == "" {
			return common.ElementID(kind + "-" + clean)
		}
	}
	return common.ElementID(kind + "-" + short(name))
}

// short returns the first half of the sha256 of a text, which is enough to be unique.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func checksum(digest string) []common.Checksum {
	return []common.Checksum{{Algorithm: common.SHA256, Value: strings.TrimPrefix(digest, "sha256:")}}
}

// purl returns a reference to a package URL (https://github.com/package-url/purl-spec).
func purl(locator string) []*v2_3.PackageExternalReference {
	return []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: locator}}
}

func hostPackageURL(p bundle.HostPackage) string {
	c := component.Component{Kind: component.Deb, Name: p.Name, Version: p.Version, Arch: p.Arch, System: p.Target}
	if strings.HasSuffix(p.Path, ".rpm") {
		c.Kind = component.RPM
	}
	return c.URL()
}

// document sorts everything and returns the document.
func (w *writer) document(name string) ([]byte, error) {
	d, err := w.build(name)
	if err != nil {
		return nil, err
	}
	return (&Materials{d}).SPDX()
}

func (w *writer) build(name string) (*v2_3.Document, error) {
	d := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		CreationInfo: &v2_3.CreationInfo{Created: created, Creators: []common.Creator{{CreatorType: "Tool", Creator: "sealift"}}},
	}
	for _, key := range slices.Sorted(maps.Keys(w.packages)) {
		d.Packages = append(d.Packages, w.packages[key])
	}
	for _, key := range slices.SortedFunc(maps.Keys(w.relationships), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		d.Relationships = append(d.Relationships, w.relationships[key])
	}
	for _, key := range slices.Sorted(maps.Keys(w.licenses)) {
		d.OtherLicenses = append(d.OtherLicenses, &v2_3.OtherLicense{
			LicenseIdentifier: key, LicenseName: w.licenses[key], ExtractedText: "As the package names it: " + w.licenses[key],
		})
	}
	unnamed, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	sum := sha256.Sum256(unnamed)
	d.DocumentNamespace = namespace + url.PathEscape(name) + "-" + hex.EncodeToString(sum[:])
	return d, nil
}

// Merge joins the documents of several packages to one document with the given name. Shared elements, such as layers, are
// listed once.
func Merge(name string, documents ...[]byte) ([]byte, error) {
	w := newWriter()
	for i, data := range documents {
		if err := w.merge(data); err != nil {
			return nil, fmt.Errorf("bill of materials %d: %w", i+1, err)
		}
	}
	return w.document(name)
}

// merge adds the content of a document.
func (w *writer) merge(data []byte) error {
	var d v2_3.Document
	if err := json.Unmarshal(data, &d); err != nil {
		return err
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
	return nil
}
