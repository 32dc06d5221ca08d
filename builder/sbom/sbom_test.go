package sbom_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
)

func digest(fill string) string { return "sha256:" + strings.Repeat(fill, 64) }

func subject(name string) sbom.Subject {
	layer := func(fill string) image.Descriptor { return image.Descriptor{Digest: digest(fill), Size: 1} }
	return sbom.Subject{
		Name: name, Version: "1.0",
		Images: []image.Resolved{
			{ID: "app", Ref: "registry.k8s.io/group/app:v1", Root: image.Descriptor{Digest: digest("a")}, Manifests: []image.Manifest{
				{Platform: "linux/amd64", Descriptor: image.Descriptor{Digest: digest("b")}, Layers: []image.Descriptor{layer("1"), layer("2")}},
				{Platform: "linux/arm64", Descriptor: image.Descriptor{Digest: digest("c")}, Layers: []image.Descriptor{layer("1")}},
			}},
			{ID: "single", Ref: "docker.io/library/single:1", Root: image.Descriptor{Digest: digest("d")}, Manifests: []image.Manifest{
				{Platform: "linux/amd64", Descriptor: image.Descriptor{Digest: digest("d")}, Layers: []image.Descriptor{layer("2")}},
			}},
		},
		Assets: []bundle.Asset{
			{Name: "tool", Path: "addons/" + name + "/1.0/assets/tool", Source: "https://example.org/tool", Blob: bundle.Blob{SHA256: strings.Repeat("e", 64)}},
			{Name: "notes", Path: "addons/" + name + "/1.0/assets/notes", Source: "./notes", Blob: bundle.Blob{SHA256: strings.Repeat("f", 64)}},
		},
		HostPackages: []sbom.HostPackage{
			{HostPackage: bundle.HostPackage{Target: "debian-12", HostPackageID: bundle.HostPackageID{Name: "socat", Version: "1:1.7+b1", Arch: "amd64"}, Path: "addons/x/socat_1.7+b1_amd64.deb", Blob: bundle.Blob{SHA256: strings.Repeat("7", 64)}},
				Licenses: []string{"GPL-2+", "public domain"}},
			{HostPackage: bundle.HostPackage{Target: "rhel-9", HostPackageID: bundle.HostPackageID{Name: "socat", Version: "1.7-1.el9", Arch: "x86_64"}, Path: "addons/x/socat.rpm", Blob: bundle.Blob{SHA256: strings.Repeat("8", 64)}}},
		},
		Files: []bundle.File{bundle.BytesFile("addons/"+name+"/1.0/packages/rhel-9/made.rpm", 0o644, []byte("made"))},
	}
}

func document(t *testing.T, s sbom.Subject) []byte {
	t.Helper()
	data, err := sbom.Document(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// read lets the SPDX project's own reader judge a document.
func read(t *testing.T, data []byte) *spdx.Document {
	t.Helper()
	d, err := spdxjson.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// lines returns one line about each package of a document.
func lines(d *spdx.Document) string {
	var all []string
	for _, p := range d.Packages {
		line := fmt.Sprintf("%s | %s | %s | %s | %s", p.PackageName, p.PackageVersion, p.PackageDownloadLocation, p.PackageLicenseDeclared, p.PrimaryPackagePurpose)
		for _, c := range p.PackageChecksums {
			line += " | " + string(c.Algorithm) + " " + c.Value[:2]
		}
		for _, r := range p.PackageExternalReferences {
			line += " | " + r.Locator
		}
		all = append(all, strings.ReplaceAll(line, "NOASSERTION", "?"))
	}
	slices.Sort(all)
	return strings.NewReplacer(strings.Repeat("a", 64), "aa", strings.Repeat("b", 64), "bb", strings.Repeat("c", 64), "cc",
		strings.Repeat("d", 64), "dd", strings.Repeat("1", 64), "11", strings.Repeat("2", 64), "22").Replace(strings.Join(all, "\n"))
}

func TestDocumentNamesEverything(t *testing.T) {
	const want = `demo | 1.0 | ? | ? | INSTALL
docker.io/library/single:1 | sha256:dd | ? | ? | CONTAINER | SHA256 dd | pkg:oci/single@sha256%3Add?repository_url=docker.io%2Flibrary%2Fsingle&tag=1
layer sha256:11 | sha256:11 | ? | ? | ARCHIVE | SHA256 11
layer sha256:22 | sha256:22 | ? | ? | ARCHIVE | SHA256 22
made.rpm | 1.0 | ? | ? | FILE | SHA256 ea
notes | 1.0 | ? | ? | FILE | SHA256 ff
registry.k8s.io/group/app:v1 linux/amd64 | sha256:bb | ? | ? | CONTAINER | SHA256 bb | pkg:oci/app@sha256%3Abb?repository_url=registry.k8s.io%2Fgroup%2Fapp&tag=v1
registry.k8s.io/group/app:v1 linux/arm64 | sha256:cc | ? | ? | CONTAINER | SHA256 cc | pkg:oci/app@sha256%3Acc?repository_url=registry.k8s.io%2Fgroup%2Fapp&tag=v1
registry.k8s.io/group/app:v1 | sha256:aa | ? | ? | CONTAINER | SHA256 aa | pkg:oci/app@sha256%3Aaa?repository_url=registry.k8s.io%2Fgroup%2Fapp&tag=v1
socat | 1.7-1.el9 | ? | ? | INSTALL | SHA256 88 | pkg:rpm/rhel/socat@1.7-1.el9?arch=x86_64&distro=rhel-9
socat | 1:1.7+b1 | ? | GPL-2.0-or-later AND LicenseRef-public-domain-f4266674 | INSTALL | SHA256 77 | pkg:deb/debian/socat@1%3A1.7%2Bb1?arch=amd64&distro=debian-12
tool | 1.0 | https://example.org/tool | ? | FILE | SHA256 ee`
	d := read(t, document(t, subject("demo")))
	if got := lines(d); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(d.OtherLicenses) != 1 || d.OtherLicenses[0].LicenseName != "public domain" {
		t.Errorf("licenses that SPDX does not know: %+v", d.OtherLicenses)
	}
}

func TestDocumentReachesEveryPackage(t *testing.T) {
	d := read(t, document(t, subject("demo")))
	known, reached := map[string]bool{"DOCUMENT": true}, map[string]bool{"DOCUMENT": true}
	for _, p := range d.Packages {
		if known[string(p.PackageSPDXIdentifier)] {
			t.Errorf("%s is there twice", p.PackageSPDXIdentifier)
		}
		if strings.Trim(string(p.PackageSPDXIdentifier), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") != "" {
			t.Errorf("%q is no SPDX identifier", p.PackageSPDXIdentifier)
		}
		known[string(p.PackageSPDXIdentifier)] = true
	}
	for range d.Relationships {
		for _, r := range d.Relationships {
			from, to := string(r.RefA.ElementRefID), string(r.RefB.ElementRefID)
			if !known[from] || !known[to] {
				t.Fatalf("%s %s %s: not in the document", from, r.Relationship, to)
			}
			if reached[from] {
				reached[to] = true
			}
		}
	}
	for name := range known {
		if !reached[name] {
			t.Errorf("nothing contains %s", name)
		}
	}
}

func TestDocumentIsReproducible(t *testing.T) {
	first := document(t, subject("demo"))
	reordered := subject("demo")
	slices.Reverse(reordered.Images)
	slices.Reverse(reordered.HostPackages)
	if !bytes.Equal(first, document(t, subject("demo"))) || !bytes.Equal(first, document(t, reordered)) {
		t.Error("other bytes")
	}
	changed := subject("demo")
	changed.Assets[0].SHA256 = strings.Repeat("0", 64)
	if read(t, document(t, changed)).DocumentNamespace == read(t, first).DocumentNamespace {
		t.Error("two documents have the same namespace")
	}
}

func TestMergeListsSharedPackagesOnce(t *testing.T) {
	one, two := document(t, subject("one")), document(t, subject("two"))
	merged, err := sbom.Merge("cluster", one, two)
	if err != nil {
		t.Fatal(err)
	}
	d := read(t, merged)
	// All but the add-ons, their two assets and their file are the same.
	if want := len(read(t, one).Packages) + 4; len(d.Packages) != want || d.DocumentName != "cluster" {
		t.Errorf("%s has %d packages, want %d", d.DocumentName, len(d.Packages), want)
	}
	described := 0
	for _, r := range d.Relationships {
		if r.Relationship == "DESCRIBES" {
			described++
		}
	}
	if described != 2 || len(d.OtherLicenses) != 1 {
		t.Errorf("describes %d add-ons, with %d licenses", described, len(d.OtherLicenses))
	}
	if _, err := sbom.Merge("x", []byte("{")); err == nil {
		t.Error("merged what is not JSON")
	}
}

// TestRequiredFieldsAreThere reads the raw JSON, since a reader may fill in missing fields.
func TestRequiredFieldsAreThere(t *testing.T) {
	var raw struct {
		SpdxVersion, DataLicense, SPDXID, Name, DocumentNamespace string
		CreationInfo                                              struct {
			Created  string
			Creators []string
		}
		Packages []map[string]any
	}
	if err := json.Unmarshal(document(t, subject("demo")), &raw); err != nil {
		t.Fatal(err)
	}
	if raw.SpdxVersion != "SPDX-2.3" || raw.DataLicense != "CC0-1.0" || raw.SPDXID != "SPDXRef-DOCUMENT" || raw.Name != "demo-1.0" ||
		!strings.HasPrefix(raw.DocumentNamespace, "https://") || raw.CreationInfo.Created != "1980-01-01T00:00:00Z" ||
		strings.Join(raw.CreationInfo.Creators, " ") != "Tool: sealift" {
		t.Errorf("%+v", raw)
	}
	for _, p := range raw.Packages {
		for _, field := range []string{"SPDXID", "name", "downloadLocation", "filesAnalyzed", "licenseDeclared"} {
			if p[field] == nil {
				t.Errorf("%v lacks %s", p["name"], field)
			}
		}
	}
}
