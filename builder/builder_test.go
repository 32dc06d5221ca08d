package builder_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
)

// everything is a Manifest with one directive of each kind; placed returns an add-on with it and creates what it names.
const everything = `# what the test carries
image one registry.example.io/group/one:1
image two registry.example.io/two:1 no_remote_load
asset tool https://files.example.com/v1/tool%2Bx.bin
asset notes.txt ./notes.txt
apt socat
apt24 socat
yum socat
dockerout rhel-9 Dockerfile 1.0
`

func placed(t *testing.T, w *world) (dir, digestOfOne string) {
	t.Helper()
	shared := layer(1, 50_000)
	digestOfOne = w.push(t, "group/one:1", shared, layer(2, 20_000))
	w.push(t, "two:1", shared, layer(3, 30_000))
	w.publish(t, "v1/tool+x.bin", strings.Repeat("binary", 10_000))
	dir = addOn(t, "demo", everything)
	writeFile(t, filepath.Join(dir, "notes.txt"), "notes")
	writeFile(t, filepath.Join(dir, "yaml/deployment.yaml"), "kind: Deployment\n")
	writeFile(t, filepath.Join(dir, ".hidden"), "hidden")
	writeFile(t, filepath.Join(dir, "Manifest.lock"), "format: sealift.dev/lock/v1\n")
	return dir, digestOfOne
}

func TestBuild(t *testing.T) {
	w := newWorld(t)
	dir, digestOfOne := placed(t, w)
	r := build(t, w.builder(t, openCache(t), 4), dir)

	archive, err := bundle.Open(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	info, ok := archive.Package("demo", "1.0")
	if !ok || info.Version != "1.0" || filepath.Base(r.Path) != "demo-1.0.tar.gz" {
		t.Fatalf("%s holds %+v", r.Path, info)
	}
	t.Run("names the images with their digests", func(t *testing.T) {
		if len(info.Images) != 2 {
			t.Fatalf("images are %+v", info.Images)
		}
		one, two := info.Images[0], info.Images[1]
		if one.ID != "one" || one.Ref != "registry.example.io/group/one:1" || one.Digest != digestOfOne || one.NoRemoteLoad || !two.NoRemoteLoad {
			t.Errorf("images are %+v", info.Images)
		}
	})
	t.Run("names the assets", func(t *testing.T) {
		var got []string
		for _, asset := range info.Assets {
			got = append(got, fmt.Sprintf("%s %d %s", asset.Path, asset.Size, asset.Source))
		}
		want := "addons/demo/1.0/assets/tool 60000 https://files.example.com/v1/tool%2Bx.bin\naddons/demo/1.0/assets/notes.txt 5 ./notes.txt"
		if strings.Join(got, "\n") != want {
			t.Errorf("assets are\n%s\nwant\n%s", strings.Join(got, "\n"), want)
		}
	})
	t.Run("carries host packages for every target", func(t *testing.T) {
		carried := make(map[string]bool)
		for _, p := range info.HostPackages {
			if _, ok := archive.Entry(p.Path); !ok {
				t.Errorf("%s is not in the package", p.Path)
			}
			carried[p.Target+" "+p.Name] = true
		}
		if !carried["debian-12 socat"] || !carried["debian-13 socat"] || strings.Join(info.Targets, " ") != "debian-12 debian-13" {
			t.Errorf("targets %v, host packages %+v", info.Targets, info.HostPackages)
		}
	})
	t.Run("carries the add-on's own files but hidden ones and the lock", func(t *testing.T) {
		for name, want := range map[string]bool{"Manifest": true, "install.sh": true, "yaml/deployment.yaml": true, ".hidden": false, "Manifest.lock": false} {
			if _, ok := archive.Entry("addons/demo/1.0/" + name); ok != want {
				t.Errorf("%s is in the package: %v, want %v", name, ok, want)
			}
		}
	})
	t.Run("has a bill of materials with layers and licenses", func(t *testing.T) {
		text, err := archive.ReadFile("addons/demo/1.0/"+sbom.FileName, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"spdxVersion": "SPDX-2.3"`, `"name": "registry.example.io/group/one:1"`, `"name": "layer sha256:`,
			`"downloadLocation": "https://files.example.com/v1/tool%2Bx.bin"`, `pkg:deb/debian/socat@`, "LGPL-2.1-or-later"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("it lacks %s", want)
			}
		}
	})
	t.Run("has each byte once", func(t *testing.T) {
		var layouts []string
		for _, e := range archive.Below("addons/demo/1.0/images/blobs/sha256") {
			if e.Size == 50_000 {
				layouts = append(layouts, e.Path)
			}
		}
		if len(layouts) != 1 {
			t.Errorf("the shared layer is there as %v", layouts)
		}
	})
	t.Run("warns of what is left out", func(t *testing.T) {
		var lines []string
		for _, warning := range r.Warnings {
			lines = append(lines, fmt.Sprintf("%d %s %s", warning.Pos.Line, warning.Severity, warning.Message))
		}
		got := strings.Join(lines, "\n")
		for _, want := range []string{"7 warning apt24 socat is left out", "8 warning yum socat is left out", "9 warning dockerout rhel-9 is left out"} {
			if !strings.Contains(got, want) {
				t.Errorf("warnings are\n%s\nwant %s", got, want)
			}
		}
	})
	t.Run("is read by tar, and its images by skopeo", func(t *testing.T) {
		root := t.TempDir()
		if out, err := exec.Command("tar", "-xzf", r.Path, "-C", root).CombinedOutput(); err != nil {
			t.Fatalf("tar: %v: %s", err, out)
		}
		layout := "oci:" + filepath.Join(root, "addons/demo/1.0/images") + ":registry.example.io/group/one:1"
		out, err := exec.Command("skopeo", "inspect", "--override-os=linux", "--override-arch=amd64", "--format={{.Digest}}", layout).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != digestOfOne {
			t.Errorf("skopeo: %v: %s, want %s", err, out, digestOfOne)
		}
	})
}

func TestJobCountDoesNotChangeBytes(t *testing.T) {
	w := newWorld(t, "debian-12")
	dir, _ := placed(t, w)
	c := openCache(t)
	one, eight := build(t, w.builder(t, openCache(t), 1), dir), build(t, w.builder(t, c, 8), dir)
	if one.SHA256 != eight.SHA256 || one.Size != eight.Size {
		t.Errorf("with one job %s, with eight %s", one.SHA256, eight.SHA256)
	}
	w.targets = []string{"debian-12", "debian-12"}
	if twice := build(t, w.builder(t, c, 8), dir); twice.SHA256 != one.SHA256 {
		t.Error("a target named twice changed the package")
	}
	// Modes that a umask left and times are not part of the package.
	if err := os.Chmod(filepath.Join(dir, "notes.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := build(t, w.builder(t, c, 8), dir); other.SHA256 != one.SHA256 {
		t.Error("the mode of a file changed the package")
	}
}

func TestPackageCarriesWhatMinimalHostLacks(t *testing.T) {
	w := newWorld(t)
	archive, err := bundle.Open(build(t, w.builder(t, openCache(t), 4), addOn(t, "demo", "apt perl\napt iproute2\napt dpkg\n")).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	info, _ := archive.Package("demo", "1.0")
	carried := make(map[string]bool)
	for _, p := range info.HostPackages {
		carried[p.Target+" "+p.Name] = true
	}
	for _, target := range []string{"debian-12", "debian-13"} {
		// perl-base is installed, but it has the source of perl, which depends on it in exactly its version
		for name, want := range map[string]bool{"perl": true, "iproute2": true, "libelf1": true, "perl-base": true, "dpkg": false, "libc6": false, "systemd": false} {
			if name == "libelf1" && target == "debian-13" {
				name = "libelf1t64"
			}
			if carried[target+" "+name] != want {
				t.Errorf("%s carries %s: %v, want %v", target, name, !want, want)
			}
		}
	}
}

func TestPlatformsShareOneRepository(t *testing.T) {
	w := newWorld(t, "debian-12")
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets, Platforms: []string{"linux/arm64", "linux/amd64"}})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := bundle.Open(build(t, b, addOn(t, "demo", "apt socat\n")).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	info, _ := archive.Package("demo", "1.0")
	count := make(map[string]int)
	for _, p := range info.HostPackages {
		count[p.Arch]++
		if p.Name == "socat" {
			count["socat"]++
		}
	}
	if count["socat"] != 2 || count["amd64"] != count["arm64"] || count["all"] == 0 {
		t.Errorf("packages by architecture: %v", count)
	}
}

func TestRebuildTransfersNothing(t *testing.T) {
	w, c := newWorld(t, "debian-12"), openCache(t)
	dir, _ := placed(t, w)
	first := build(t, w.builder(t, c, 4), dir)
	second := build(t, w.builder(t, c, 4), dir)
	if first.Fetched == 0 || second.Fetched != 0 || first.SHA256 != second.SHA256 {
		t.Errorf("transferred %d bytes, then %d; packages %s and %s", first.Fetched, second.Fetched, first.SHA256, second.SHA256)
	}
}

func TestAllUnavailableSourcesAreReportedTogether(t *testing.T) {
	w := newWorld(t)
	dir := addOn(t, "demo", `image one registry.example.io/none:1
image two registry.example.io/nothing:2
asset tool https://files.example.com/none
asset file ./none
apt socat
apt no-such-package
`)
	out := t.TempDir()
	_, err := w.builder(t, openCache(t), 4).Build(t.Context(), dir, out)
	var found diag.Errors
	if !errors.As(err, &found) {
		t.Fatalf("got %v, want findings", err)
	}
	text := err.Error()
	for _, want := range []string{
		"Manifest:1:1: error: image registry.example.io/none:1 does not exist (mirror " + w.registry + "/mirrored/none:1)",
		"Manifest:2:1: error: image registry.example.io/nothing:2 does not exist",
		"Manifest:3:1: error: asset https://files.example.com/none (mirror ",
		"Manifest:4:1: error: asset ./none: ",
		"Manifest:6:1: error: package no-such-package for debian-12: Unable to locate package no-such-package",
		"Manifest:6:1: error: package no-such-package for debian-13: ",
		"check the spelling and the tag",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant in it\n%s", text, want)
		}
	}
	if len(found) != 6 {
		t.Errorf("%d findings, want 6:\n%s", len(found), text)
	}
	assertEmpty(t, out)
}

func TestInvalidManifestIsNotBuilt(t *testing.T) {
	dir := addOn(t, "demo", "imag one two\nasset ../up https://files.example.com/a\n")
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	_, err = b.Build(t.Context(), dir, out)
	if err == nil || !strings.Contains(err.Error(), "Manifest:1:1: error:") {
		t.Errorf("got %v", err)
	}
	assertEmpty(t, out)
}

func TestInvalidMetaIsNotBuilt(t *testing.T) {
	dir := addOn(t, "demo", "")
	writeFile(t, filepath.Join(dir, "addon.yaml"), "description: a demo\nrequres: [x]\n")
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	_, err = b.Build(t.Context(), dir, out)
	if want := filepath.Join(dir, "addon.yaml") + `:2:1: error: unknown key "requres" in addon.yaml (did you mean "requires"?)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	assertEmpty(t, out)
}

func TestNewRefusesUnknownOptions(t *testing.T) {
	_, err := builder.New(openCache(t), builder.Options{Config: config.Default(), Targets: []string{"debian-12", "solaris-11"}, Platforms: []string{"amd64"}})
	for _, want := range []string{"target solaris-11 is not known", `platform "amd64"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestInterruptedBuildLeavesNoPackage(t *testing.T) {
	w := newWorld(t, "debian-12")
	dir, _ := placed(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	if _, err := w.builder(t, openCache(t), 4).Build(ctx, dir, out); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	assertEmpty(t, out)
}

func TestDamagedCacheRecoversInTwoBuilds(t *testing.T) {
	w, c := newWorld(t, "debian-12"), openCache(t)
	dir, _ := placed(t, w)
	good := build(t, w.builder(t, c, 4), dir)
	damage(t, c, 50_000)
	out := t.TempDir()
	_, err := w.builder(t, c, 4).Build(t.Context(), dir, out)
	if err == nil || !strings.Contains(err.Error(), "has been removed: build again") {
		t.Errorf("got %v", err)
	}
	assertEmpty(t, out)
	if again := build(t, w.builder(t, c, 4), dir); again.SHA256 != good.SHA256 {
		t.Error("the healed package differs")
	}
}

// damage flips a byte of every cached blob of a size.
func damage(t *testing.T, c *cache.Cache, size int64) {
	t.Helper()
	blobs, err := filepath.Glob(c.Path("*"))
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, path := range blobs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(data)) != size {
			continue
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		done++
	}
	if done == 0 {
		t.Fatalf("no blob of %d bytes in the cache", size)
	}
}

func TestAddOnFilesAreCollected(t *testing.T) {
	type tree map[string]string // path below the add-on's directory to content, or "-> target"
	tests := map[string]struct {
		files tree
		want  string // entries but Manifest and install.sh
		fault string
	}{
		"a link to a file of another version is that file":   {tree{"../template/a.yaml": "a", "a.yaml": "-> ../template/a.yaml"}, "a.yaml", ""},
		"a link to a directory of another version is a copy": {tree{"../template/d/a.yaml": "a", "../template/d/e/b": "b", "d": "-> ../template/d"}, "d/a.yaml d/e/b", ""},
		"a link that leaves the add-on is refused":           {tree{"../../secret": "s", "a": "-> ../../secret"}, "", "escapes"},
		"a Manifest that is a link out of it is refused":     {tree{"Manifest": "-> ../../../../../../../../proc/self/environ"}, "", "outside the repository"},
		"a lock that is a link out of it is refused":         {tree{"Manifest.lock": "-> ../../../../../../../../proc/self/environ"}, "", "outside the repository"},
		"an asset by an absolute path is refused":            {tree{"Manifest": "asset env /proc/self/environ\n"}, "", "a path of the machine that builds"},
		"an asset outside the repository is refused":         {tree{"Manifest": "asset env ../../../../../../../../proc/self/environ\n"}, "", "outside the repository"},
		"an asset behind a link out of it is refused":        {tree{"../l": "-> /proc/self", "Manifest": "asset env ../l/environ\n"}, "", "outside the repository"},
		"credentials of version control are no asset":        {tree{"../../.git/config": "token", "Manifest": "asset c ../../.git/config\n"}, "", "belongs to version control"},
		"a link to them is not a file of the add-on":         {tree{"../.git/config": "token", "c": "-> ../.git/config"}, "", "belongs to version control"},
		"an asset of the repository is taken":                {tree{"../../files/a": "a", "Manifest": "asset a ../../files/a\n"}, "assets/a", ""},
		"an absolute link is refused":                        {tree{"a": "-> /etc/hostname"}, "", "escapes"},
		"a link that leads nowhere is refused":               {tree{"a": "-> none"}, "", "must lead to a file"},
		"a link to its own directory is refused":             {tree{"a": "-> ."}, "", "link"},
		"a file in the place of an asset is refused":         {tree{"assets/x": "mine", "x": "an asset", "Manifest": "asset x ./x\n"}, "", "rename one of them"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := addOn(t, "demo", "")
			for path, content := range test.files {
				path = filepath.Join(dir, path)
				target, link := strings.CutPrefix(content, "-> ")
				_ = os.Remove(path) // a Manifest that addOn wrote
				if !link {
					writeFile(t, path, content)
				} else if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
			}
			b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
			if err != nil {
				t.Fatal(err)
			}
			out := t.TempDir()
			r, err := b.Build(t.Context(), dir, out)
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("got %v, want %q", err, test.fault)
				}
				assertEmpty(t, out)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, path := range entries(t, r.Path) {
				path = strings.TrimPrefix(path, "addons/demo/1.0/")
				if path != "Manifest" && path != "install.sh" && path != bundle.IndexName && path != sbom.FileName {
					got = append(got, path)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("packed %v, want %s", got, test.want)
			}
		})
	}
}

// entries lists an archive as any tar would.
func entries(t *testing.T, path string) (list []string) {
	t.Helper()
	eachEntry(t, path, func(name string, _ io.Reader) { list = append(list, name) })
	return list
}

// eachEntry reads an archive as any tar would.
func eachEntry(t *testing.T, path string, read func(name string, content io.Reader)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		read(header.Name, r)
	}
}
