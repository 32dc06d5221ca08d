package repodata_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/builder/hostpkg/repodata"
)

const spec = `Name: alpha
Version: 1.0
Release: 1%%{?dist}
Epoch: 3
Summary: The <first> & "best"
License: MIT and BSD
URL: https://example.com/?a&b
Vendor: Example
Requires: beta >= 2:1.0-3, gamma, /usr/bin/env, (delta or epsilon)
Requires(post): coreutils
Requires: beta >= 2:1.0-3
Conflicts: old < 1
Obsoletes: older = 1.0
Provides: feature(x) = 5~rc1
ModularityLabel: %s
%%description
Two lines,
with umlauts: äöü.
%%package -n beta
Summary: b
BuildArch: noarch
%%description -n beta
b
%%install
mkdir -p %%{buildroot}/etc %%{buildroot}/usr/bin %%{buildroot}/usr/share/alpha
echo 1 > %%{buildroot}/etc/alpha.conf; echo 2 > %%{buildroot}/usr/bin/alpha; echo 3 > "%%{buildroot}/usr/share/alpha/a & b"
ln -s alpha %%{buildroot}/usr/bin/beta
%%files
/etc/alpha.conf
/usr/bin/alpha
%%dir /usr/share/alpha
"/usr/share/alpha/a & b"
%%ghost /var/log/alpha.log
%%files -n beta
/usr/bin/beta
`

// build builds the packages of the spec; module may be empty.
func build(t testing.TB, module string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text := fmt.Sprintf(spec, module)
	if module == "" {
		text = strings.Replace(text, "ModularityLabel: \n", "", 1)
	}
	file := filepath.Join(dir, "alpha.spec")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// A ghost need not exist when the package is built, but its folder must.
	cmd := exec.Command("rpmbuild", "-bb", "--quiet", "--target", "x86_64", "--define", "_topdir "+filepath.Join(dir, "top"),
		"--define", "_rpmdir "+dir, "--define", "_rpmfilename %%{NAME}.rpm", "--define", "_missing_build_ids_terminate_build 0", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rpmbuild: %v: %s; apt-get install rpm", err, out)
	}
	return dir
}

func read(t testing.TB, path string) *repodata.Package {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := repodata.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// element is any XML element, so that documents are compared without knowing their form.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

// normalized removes permitted differences: prefixes of names, blanks between elements, the time at which a file was fetched,
// who built the package, and how empty elements are written.
func normalized(t *testing.T, data []byte) element {
	t.Helper()
	data = regexp.MustCompile(`(</?)rpm:`).ReplaceAll(data, []byte("$1"))
	var root element
	if err := xml.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var clean func(e *element)
	clean = func(e *element) {
		e.XMLName.Space, e.Text = "", strings.TrimSpace(e.Text)
		var children []element
		for _, c := range e.Children {
			clean(&c)
			if name := c.XMLName.Local; name != "time" && name != "buildhost" && (c.Text != "" || len(c.Attrs)+len(c.Children) > 0) {
				children = append(children, c)
			}
		}
		e.Children = children
	}
	clean(&root)
	root.Attrs = nil
	return root
}

func TestListsMatchCreaterepo(t *testing.T) {
	dir := build(t, "")
	if out, err := exec.Command("createrepo_c", "--quiet", "--no-database", "--simple-md-filenames", dir).CombinedOutput(); err != nil {
		t.Fatalf("createrepo_c: %v: %s; apt-get install createrepo-c", err, out)
	}
	var w repodata.Writer
	for _, name := range []string{"alpha", "beta"} {
		path := filepath.Join(dir, name+".rpm")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := exec.Command("sha256sum", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(read(t, path), name+".rpm", string(sum[:64]), info.Size()); err != nil {
			t.Fatal(err)
		}
	}
	documents := w.Documents()
	for _, d := range documents[:2] {
		f, err := os.Open(filepath.Join(dir, d.Path+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(normalized(t, want), normalized(t, d.Data)); diff != "" {
			t.Errorf("%s (-createrepo_c +ours):\n%s", d.Path, diff)
		}
	}
	if last := documents[len(documents)-1]; last.Path != "repodata/repomd.xml" || len(documents) != 3 {
		t.Errorf("the last of %d documents is %s", len(documents), last.Path)
	}
}

func TestModulesAreDescribedFromHeaders(t *testing.T) {
	dir := build(t, "web:1:1001:aaaa")
	var w repodata.Writer
	for _, name := range []string{"alpha", "beta"} {
		if err := w.Add(read(t, filepath.Join(dir, name+".rpm")), name+".rpm", "00", 1); err != nil {
			t.Fatal(err)
		}
	}
	documents := w.Documents()
	if len(documents) != 4 || documents[2].Path != "repodata/modules.yaml" {
		t.Fatalf("got %d documents", len(documents))
	}
	const want = `---
document: modulemd
version: 2
data:
  name: "web"
  stream: "1"
  version: 1001
  context: "aaaa"
  arch: "x86_64"
  summary: "Packages that a Sealift package carries"
  description: "Packages that a Sealift package carries"
  license:
    module:
    - various
  artifacts:
    rpms:
    - "alpha-3:1.0-1.x86_64"
    - "beta-3:1.0-1.noarch"
...
---
document: modulemd-defaults
version: 1
data:
  module: "web"
  stream: "1"
...
`
	if diff := cmp.Diff(want, string(documents[2].Data)); diff != "" {
		t.Error(diff)
	}
}

func TestNonRPMIsRefused(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(build(t, ""), "alpha.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	headerEnd := read(t, filepath.Join(build(t, ""), "alpha.rpm")).HeaderEnd
	for name, data := range map[string][]byte{
		"nothing":              nil,
		"text":                 []byte(strings.Repeat("not an rpm ", 100)),
		"a cut header":         whole[:headerEnd-100],
		"a cut lead":           whole[:50],
		"a header that is not": append(bytes.Clone(whole[:96]), make([]byte, 1000)...),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := repodata.Read(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), "not an rpm") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	dir := build(f, "web:1:1001:aaaa")
	for _, name := range []string{"alpha.rpm", "beta.rpm"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := repodata.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var w repodata.Writer
		if err := w.Add(p, "a.rpm", "00", int64(len(data))); err != nil {
			return
		}
		for _, d := range w.Documents() {
			if strings.HasSuffix(d.Path, ".xml") {
				var e element
				if err := xml.Unmarshal(d.Data, &e); err != nil {
					t.Errorf("%s: %v", d.Path, err)
				}
			}
		}
	})
}
