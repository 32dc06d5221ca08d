package evidence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/sealift/sealift/builder/evidence"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// archive is a package with an image of Debian that has a Go program, an image of nothing that is known, and a program beside them.
func archive(t testing.TB) *bundle.Archive {
	t.Helper()
	program := fixture.GoProgram("go1.26.1", "path example.org/tool", "mod example.org/tool v1.0.0 h1:a", "dep golang.org/x/net v0.30.0 h1:a")
	base := fixture.Layer(t,
		[2]string{"etc/os-release", "ID=debian\nVERSION_ID=12\n"},
		[2]string{"var/lib/dpkg/status", "Package: libssl3\nStatus: install ok installed\nArchitecture: amd64\nSource: openssl\nVersion: 3.0.1-1\n"},
		[2]string{"usr/share/doc/libssl3/copyright", "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Apache-2.0 and public-domain\n"})
	a, err := bundle.Open(fixture.ImagePackage(t, map[string][][]byte{
		"example.org/app:1":   {base, fixture.Layer(t, [2]string{"usr/bin/tool", string(program)})},
		"example.org/empty:1": {fixture.Layer(t, [2]string{"pause", "\x7fELF and more"})},
	}, map[string][]byte{"assets/tool": program}, bundle.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func collect(t testing.TB, a *bundle.Archive, key *signature.Key) *evidence.Evidence {
	t.Helper()
	e, err := evidence.Collect(t.Context(), a, evidence.Options{CycloneDX: true, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	var texts bytes.Buffer
	if err := e.WriteLicenses(&texts); err != nil {
		t.Fatal(err)
	}
	e.Files[evidence.LicensesName] = texts.Bytes()
	return e
}

// TestSPDXProjectAcceptsDocument lets the reader and the validator of the SPDX project judge the document.
func TestSPDXProjectAcceptsDocument(t *testing.T) {
	e := collect(t, archive(t), nil)
	read, err := spdxjson.Read(bytes.NewReader(e.Files[evidence.SPDXName]))
	if err != nil {
		t.Fatal(err)
	}
	var d v2_3.Document
	if err := json.Unmarshal(e.Files[evidence.SPDXName], &d); err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(read); err != nil {
		t.Error(err)
	}
	found := make(map[string]string)
	comments := make(map[string]string)
	for _, p := range d.Packages {
		for _, r := range p.PackageExternalReferences {
			found[r.Locator] = p.PackageLicenseDeclared
		}
		comments[p.PackageName] = p.PackageComment
	}
	for locator, license := range map[string]string{
		"pkg:deb/debian/libssl3@3.0.1-1?arch=amd64&distro=debian-12": "Apache-2.0 AND LicenseRef-public-domain",
		"pkg:golang/golang.org/x/net@v0.30.0":                        "NOASSERTION",
		"pkg:golang/stdlib@go1.26.1":                                 "NOASSERTION",
	} {
		if got, ok := found[locator]; !ok || got != license {
			t.Errorf("%s has the license %q, want %q", locator, got, license)
		}
	}
	if got := comments["example.org/empty:1"]; !strings.HasPrefix(got, "Content unknown: it has neither") {
		t.Errorf("the empty image has the comment %q", got)
	}
	if got := comments["example.org/app:1"]; got != "Content: debian-12, 1 packages, 1 Go programs." {
		t.Errorf("the image has the comment %q", got)
	}
	wheres := make(map[string]bool)
	for _, r := range d.Relationships {
		wheres[strings.SplitN(r.RelationshipComment, " of layer", 2)[0]] = true
	}
	for _, where := range []string{"listed in /var/lib/dpkg/status", "file /usr/bin/tool", "file tool"} {
		if !wheres[where] {
			t.Errorf("no relationship says %q: %v", where, wheres)
		}
	}
}

func TestCycloneDXReaderFindsTheSameComponents(t *testing.T) {
	e := collect(t, archive(t), nil)
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(e.Files[evidence.CycloneDXName]), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{bom.Metadata.Component.BOMRef: true}
	urls := make(map[string]bool)
	for _, c := range *bom.Components {
		if refs[c.BOMRef] {
			t.Errorf("%s is listed twice", c.BOMRef)
		}
		refs[c.BOMRef], urls[c.PackageURL] = true, true
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range append(*d.Dependencies, d.Ref) {
			if !refs[ref] {
				t.Errorf("dependency on %s, which is not listed", ref)
			}
		}
	}
	if !urls["pkg:golang/golang.org/x/net@v0.30.0"] || !urls["pkg:deb/debian/libssl3@3.0.1-1?arch=amd64&distro=debian-12"] {
		t.Errorf("got %v", slices.Sorted(maps.Keys(urls)))
	}
}

func TestSameBundleGivesSameEvidence(t *testing.T) {
	a := archive(t)
	key, _ := fixture.SigningKey(t)
	if first, again := collect(t, a, key), collect(t, a, key); !maps.EqualFunc(first.Files, again.Files, bytes.Equal) {
		t.Error("the second evidence is another")
	}
}

func TestEvidenceIsBoundToBundleAndKey(t *testing.T) {
	a := archive(t)
	key, public := fixture.SigningKey(t)
	_, other := fixture.SigningKey(t)
	files := collect(t, a, key).Files
	s, err := evidence.Verify(a.Digest, []signature.PublicKey{other, public}, from(files))
	if err != nil || s.Known != 1 || s.Unknown != 1 || len(s.Documents) != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := evidence.Verify(strings.Repeat("0", 64), []signature.PublicKey{public}, from(files)); err == nil || !strings.Contains(err.Error(), "is for the bundle") {
		t.Errorf("another bundle: %v", err)
	}
	if _, err := evidence.Verify(a.Digest, []signature.PublicKey{other}, from(files)); err == nil {
		t.Error("another key passes")
	}
	for name := range files {
		changed := maps.Clone(files)
		changed[name] = append([]byte(" "), files[name][:len(files[name])-3]...)
		if _, err := evidence.Verify(a.Digest, []signature.PublicKey{public}, from(changed)); err == nil {
			t.Errorf("a changed %s passes", name)
		}
		delete(changed, name)
		if _, err := evidence.Verify(a.Digest, []signature.PublicKey{public}, from(changed)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing %s: %v", name, err)
		}
	}
}

func from(files map[string][]byte) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if data, ok := files[name]; ok {
			return data, nil
		}
		return nil, fs.ErrNotExist
	}
}
