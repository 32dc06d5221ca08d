package inventory_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/fixture"
)

type files = [][2]string

func read(t testing.TB, name string) *inventory.Inventory {
	t.Helper()
	a, err := bundle.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got, err := inventory.Read(t.Context(), a, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// text returns a line for each package, program and reason of an image.
func text(i inventory.Image) string {
	number := make(map[string]int)
	for n, layer := range i.Layers {
		number[layer] = n
	}
	var out strings.Builder
	for _, p := range i.Packages {
		fmt.Fprintf(&out, "%s %s %s %v in %s of layer %d\n", p.System, p.Name, p.Version, p.Licenses, p.Path, number[p.Layer])
	}
	for _, p := range i.Programs {
		fmt.Fprintf(&out, "%s of layer %d:", p.Path, number[p.Layer])
		for _, m := range p.Modules {
			fmt.Fprintf(&out, " %s@%s", m.Name, m.Version)
		}
		out.WriteString("\n")
	}
	for _, why := range i.Unknown {
		fmt.Fprintf(&out, "unknown: %s\n", why)
	}
	return out.String()
}

const (
	status    = "Package: libssl3\nStatus: install ok installed\nArchitecture: amd64\nSource: openssl\nVersion: 3.0.1-1\n"
	newer     = "Package: libssl3\nStatus: install ok installed\nArchitecture: amd64\nSource: openssl\nVersion: 3.0.2-1\n"
	release   = "ID=debian\nVERSION_ID=\"12\"\n"
	copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Apache-2.0\n"
)

func TestVisibleContentOfImagesIsListed(t *testing.T) {
	program := string(fixture.GoProgram("go1.26.1", "path example.org/tool/cmd", "mod example.org/tool (devel)", "dep golang.org/x/net v0.30.0 h1:a", "dep k8s.io/api v0.0.0", "=> ./staging/api (devel) ", "dep a.org/b v1.0.0", "=> c.org/d v1.2.0 h1:b"))
	listed := " c.org/d@v1.2.0 example.org/tool@ golang.org/x/net@v0.30.0 k8s.io/api@ stdlib@go1.26.1\n"
	debian := files{{"etc/os-release", "-> ../usr/lib/os-release"}, {"usr/lib/os-release", release}, {"var/lib/dpkg/status", status},
		{"usr/share/doc/libssl3", "-> openssl"}, {"usr/share/doc/openssl/copyright", copyright}}
	library := "debian-12 libssl3 3.0.1-1 [Apache-2.0] in /var/lib/dpkg/status of layer 0\n"
	const neither = "unknown: it has neither a package database nor a Go program\n"
	for name, row := range map[string]struct {
		layers []files
		want   string
	}{
		"packages with their licenses":                   {[]files{debian}, library},
		"a program of a higher layer":                    {[]files{debian, {{"usr/bin/tool", program}}}, library + "/usr/bin/tool of layer 1:" + listed},
		"an updated database replaces the older":         {[]files{debian, {{"var/lib/dpkg/status", newer}}}, "debian-12 libssl3 3.0.2-1 [Apache-2.0] in /var/lib/dpkg/status of layer 1\n"},
		"a deleted program does not count":               {[]files{{{"bin/tool", program}, {"bin/other", program}}, {{"bin/.wh.tool", ""}}}, "/bin/other of layer 0:" + listed},
		"a deleted folder neither":                       {[]files{{{"opt/a/tool", program}, {"bin/other", program}}, {{".wh.opt", ""}}}, "/bin/other of layer 0:" + listed},
		"nor one that is opaque":                         {[]files{{{"opt/a/tool", program}}, {{"opt/a/new", program}, {"opt/.wh..wh..opq", ""}}}, "/opt/a/new of layer 1:" + listed},
		"a file may come back":                           {[]files{{{"bin/tool", program}}, {{"bin/.wh.tool", ""}}, {{"bin/tool", program}}}, "/bin/tool of layer 2:" + listed},
		"a whiteout leaves its own layer alone":          {[]files{{{"bin/tool", "x"}}, {{"bin/tool", program}, {"bin/.wh.tool", ""}}}, "/bin/tool of layer 1:" + listed},
		"a program that is replaced by a script":         {[]files{{{"bin/tool", program}}, {{"bin/tool", "#!/bin/sh\n"}}}, neither},
		"a folder that a file replaces":                  {[]files{{{"opt/a/tool", program}}, {{"opt", "file"}}}, neither},
		"a folder that is named again stays":             {[]files{{{"opt/a/tool", program}}, {{"opt/", ""}, {"opt/a/", ""}}}, "/opt/a/tool of layer 0:" + listed},
		"a path through a link is the real one":          {[]files{{{"usr/bin/tool", program}, {"bin", "-> usr/bin"}}, {{"bin/.wh.tool", ""}, {"bin/new", program}}}, "/usr/bin/new of layer 1:" + listed},
		"a link out of the root stays in it":             {[]files{{{"x", "-> ../../../../usr"}, {"x/bin/tool", program}}}, "/usr/bin/tool of layer 0:" + listed},
		"a path out of the root stays in it":             {[]files{{{"../../usr/bin/tool", program}}}, "/usr/bin/tool of layer 0:" + listed},
		"a hard link is a second name":                   {[]files{{{"bin/tool", program}}, {{"bin/two", "=> bin/tool"}, {"bin/.wh.tool", ""}}}, "/bin/two of layer 1:" + listed},
		"an empty image is unknown":                      {[]files{{{"etc/passwd", "root"}}}, neither},
		"a program of another language beside one of Go": {[]files{{{"bin/tool", program}, {"bin/c", "\x7fELF and more"}}}, "/bin/tool of layer 0:" + listed + "unknown: it has programs or libraries that are not of Go (1), and no package database\n"},
		"a program of another language alone":            {[]files{{{"pause", "\x7fELF and more"}}}, neither},
		"a damaged database is not an empty one":         {[]files{{{"var/lib/rpm/rpmdb.sqlite", "damaged, but long enough"}}}, "unknown: /var/lib/rpm/rpmdb.sqlite: read rpm's database: it is in no format that is known\n" + neither},
		"links that lead to themselves":                  {[]files{{{"bin/tool", program}}, {{"a", "-> b"}, {"b", "-> a"}, {"a/x", "y"}}}, "/bin/tool of layer 0:" + listed + "unknown: layer LAYER: it has a path that no file system takes\n"},
		"distroless images have a file for each package": {[]files{{{"etc/os-release", release}, {"var/lib/dpkg/status.d/tzdata", "Package: tzdata\nVersion: 2024a\nArchitecture: all\n"}, {"var/lib/dpkg/status.d/tzdata.md5sums", "0 Package: x\n"}}}, "debian-12 tzdata 2024a [] in /var/lib/dpkg/status.d/tzdata of layer 0\n"},
		"the RHEL family has rpm's":                      {[]files{{{"etc/os-release", "ID=rocky\nVERSION_ID=9.4\n"}, {"var/lib/rpm", "-> ../../usr/lib/sysimage/rpm"}, {"var/lib/rpm/Packages.db", string(fixture.RPMDatabase("bash", "5.1.8", "9.el9", "x86_64", "GPLv3+"))}}}, "rocky-9.4 bash 5.1.8-9.el9 [GPLv3+] in /usr/lib/sysimage/rpm/Packages.db of layer 0\n"},
		"and Alpine its own database":                    {[]files{{{"etc/os-release", "ID=alpine\nVERSION_ID=3.20.1\n"}, {"lib/apk/db/installed", "P:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\n"}}}, "alpine-3.20.1 musl 1.2.5-r0 [MIT] in /lib/apk/db/installed of layer 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range row.layers {
				layers = append(layers, fixture.Layer(t, l...))
			}
			got := read(t, fixture.ImagePackage(t, map[string][][]byte{"example.org/app:1": layers}, nil, bundle.WriteOptions{})).Images[0]
			want := row.want
			if len(got.Layers) > 1 {
				want = strings.ReplaceAll(want, "LAYER", got.Layers[1])
			}
			if text(got) != want {
				t.Errorf("got\n%swant\n%s", text(got), want)
			}
		})
	}
}

func TestSharedLayersAreListedForEachImage(t *testing.T) {
	base := fixture.Layer(t, [2]string{"var/lib/dpkg/status", status})
	without := fixture.Layer(t, [2]string{"var/lib/dpkg/.wh.status"}, [2]string{"tool", string(fixture.GoProgram("go1.26.1"))})
	images := map[string][][]byte{"a:1": {base}, "b:1": {base, without}, "c:1": {base}, "d:1": {without, base}}
	name := fixture.ImagePackage(t, images, nil, bundle.WriteOptions{})
	got := read(t, name)
	for _, i := range got.Images {
		packages, programs := 1, 0
		switch i.Ref {
		case "b:1":
			packages, programs = 0, 1
		case "d:1":
			programs = 1
		}
		if len(i.Packages) != packages || len(i.Programs) != programs {
			t.Errorf("%s:\n%s", i.Ref, text(i))
		}
	}
	first, _ := json.Marshal(got)
	again, _ := json.Marshal(read(t, name))
	if !bytes.Equal(first, again) {
		t.Error("a second reading gives something else")
	}
}

func TestProgramsOutsideOfImagesAreListed(t *testing.T) {
	program := fixture.GoProgram("go1.26.1", "path example.org/p", "dep example.org/m v1.0.0 h1:a")
	archive := fixture.Layer(t, [2]string{"bin/inner", string(program)}, [2]string{"README", "x"})
	got := read(t, fixture.ImagePackage(t, nil, map[string][]byte{"assets/tool": program, "assets/tool.tar.gz": archive, "assets/notes": []byte("text"), "assets/bad.tgz": []byte("\x1f\x8bbad")}, bundle.WriteOptions{}))
	var lines []string
	for _, f := range got.Files {
		line := f.Path
		for _, p := range f.Programs {
			line += fmt.Sprintf(" %s:%d", p.Path, len(p.Modules))
		}
		lines = append(lines, line+" "+strings.Join(f.Unknown, ""))
	}
	want := "addons/app/1.0/assets/bad.tgz unexpected EOF\naddons/app/1.0/assets/tool tool:2 \naddons/app/1.0/assets/tool.tar.gz /bin/inner:2 "
	if strings.Join(lines, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), want)
	}
}

// handmade writes a package with an image of one layer, whatever its files and names are.
func handmade(t *testing.T, config []byte, layer string, blob bundle.File) string {
	t.Helper()
	const blobs = "addons/app/1.0/images/blobs/sha256/"
	manifest := fmt.Appendf(nil, `{"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:%x"}, "layers": [{"digest": "sha256:%s", "size": 1}]}`, sha256.Sum256(config), layer)
	sum := fmt.Sprintf("%x", sha256.Sum256(manifest))
	blob.Path = blobs + blob.Path
	p := bundle.Package{Name: "app", Version: "1.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(blobs+sum, 0o644, manifest), bundle.BytesFile(fmt.Sprintf("%s%x", blobs, sha256.Sum256(config)), 0o644, config), blob,
	}}
	p.Contents.Images = []bundle.Image{{Ref: "a:1", Digest: "sha256:" + sum, Platforms: map[string]string{"linux/amd64": "sha256:" + sum}}}
	f, err := os.Create(filepath.Join(t.TempDir(), "app.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestMisnamedLayerIsUnknown(t *testing.T) {
	layer := fixture.Layer(t, [2]string{"tool", string(fixture.GoProgram("go1.26.1"))})
	for name, right := range map[string]bool{strings.Repeat("0", 64): false, fmt.Sprintf("%x", sha256.Sum256(layer)): true} {
		i := read(t, handmade(t, []byte("{}"), name, bundle.BytesFile(name, 0o644, layer))).Images[0]
		if (len(i.Unknown) == 0) != right || (len(i.Programs) == 1) != right {
			t.Errorf("%s: %s", name, text(i))
		}
	}
}

// TestLeanLayerIsListed compresses a layer again: it is what the configuration says that it unpacks to, or unknown.
func TestLeanLayerIsListed(t *testing.T) {
	layer := fixture.Layer(t, [2]string{"tool", string(fixture.GoProgram("go1.26.1"))})
	unpacked, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := bundle.NewLayerEncoder()
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	form, err := encoder.Encode(&packed, unpacked)
	if err != nil {
		t.Fatal(err)
	}
	form.Blob = fmt.Sprintf("%x", sha256.Sum256(layer))
	for id, right := range map[string]bool{form.DiffID: true, strings.Repeat("0", 64): false} {
		blob := bundle.BytesFile(fmt.Sprintf("%x", sha256.Sum256(packed.Bytes())), 0o644, packed.Bytes())
		blob.Layer = &form
		i := read(t, handmade(t, fmt.Appendf(nil, `{"rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}`, id), form.Blob, blob)).Images[0]
		if (len(i.Unknown) == 0) != right || (len(i.Programs) == 1) != right || i.Layers[0] != "sha256:"+form.Blob {
			t.Errorf("%s: %s", id, text(i))
		}
	}
}

func TestDamagedBundleIsNotListed(t *testing.T) {
	// Extra bytes at the end of a layer are read as well, so that its digest counts.
	layer := append(fixture.Layer(t, [2]string{"a", "b"}), make([]byte, 100)...)
	got := read(t, fixture.ImagePackage(t, map[string][][]byte{"a:1": {layer}}, nil, bundle.WriteOptions{}))
	if len(got.Images[0].Unknown) == 0 {
		t.Error("not unknown")
	}
}

// TestTextsOfLicensesAreListed has texts that belong to packages, to modules and to nothing, and one that a higher layer hides.
func TestTextsOfLicensesAreListed(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	program := string(fixture.GoProgram("go1.26.1", "path example.org/tool", "dep github.com/a/b v1.0.0 h1:a", "dep github.com/c/d v1.0.0 h1:a"))
	name := fixture.ImagePackage(t, map[string][][]byte{"example.org/app:1": {
		fixture.Layer(t, [2]string{"var/lib/dpkg/status", status}, [2]string{"usr/share/doc/libssl3", "-> openssl"}, [2]string{"usr/share/doc/openssl/copyright", copyright}, [2]string{"COPYING", "hidden"}),
		fixture.Layer(t, [2]string{"usr/bin/tool", program}, [2]string{"licenses/github.com/a/b/LICENSE", string(apache)}, [2]string{"app/NOTICE", "by us"}, [2]string{".wh.COPYING"}, [2]string{"LICENSE", "\x00\x01"}),
	}}, map[string][]byte{"LICENSE": apache}, bundle.WriteOptions{})
	a, err := bundle.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var mu sync.Mutex
	kept := make(map[string]string)
	got, err := inventory.Read(t.Context(), a, inventory.Options{Keep: func(sum string, text []byte) error {
		mu.Lock()
		defer mu.Unlock()
		kept[sum] = string(text)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, text := range got.Images[0].Texts {
		lines = append(lines, fmt.Sprintf("%s %v %q %d", text.Path, text.Licenses, text.Module, len(kept[text.SHA256])))
	}
	want := fmt.Sprintf("/app/NOTICE [] \"\" 5\n/licenses/github.com/a/b/LICENSE [Apache-2.0] \"github.com/a/b\" %d\n/usr/share/doc/openssl/copyright [] \"\" %d", len(apache), len(copyright))
	if strings.Join(lines, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), want)
	}
	if texts := got.Images[0].Packages[0].Texts; len(texts) != 1 || kept[texts[0]] != copyright {
		t.Errorf("the package has the texts %v", texts)
	}
	for _, m := range got.Images[0].Programs[0].Modules {
		if (m.Name == "github.com/a/b") != (len(m.Licenses) == 1) {
			t.Errorf("%s has the licenses %v", m.Name, m.Licenses)
		}
	}
	if len(got.Files) != 1 || len(got.Files[0].Texts) != 1 || got.Files[0].Texts[0].Licenses[0] != "Apache-2.0" {
		t.Errorf("the files are %+v", got.Files)
	}
	full := errors.New("full")
	if _, err := inventory.Read(t.Context(), a, inventory.Options{Keep: func(string, []byte) error { return full }}); !errors.Is(err, full) {
		t.Errorf("a text that cannot be kept: %v", err)
	}
}

func TestLabelOfImageIsItsLicense(t *testing.T) {
	layer := fixture.Layer(t, [2]string{"a", "b"})
	sum := fmt.Sprintf("%x", sha256.Sum256(layer))
	got := read(t, handmade(t, []byte(`{"config": {"Labels": {"org.opencontainers.image.licenses": "MIT OR Apache-2.0"}}}`), sum, bundle.BytesFile(sum, 0o644, layer))).Images[0]
	if len(got.Licenses) != 1 || got.Licenses[0] != "MIT OR Apache-2.0" {
		t.Errorf("got %v", got.Licenses)
	}
}
