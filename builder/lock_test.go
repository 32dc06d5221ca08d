package builder_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/lock"
)

// following is a builder that follows locks strictly.
func (w *world) following(t *testing.T, platforms ...string) *builder.Builder {
	t.Helper()
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets, Platforms: platforms, Locked: true, Retry: fetch.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lockAddOn(t *testing.T, b *builder.Builder, dir string, mode builder.LockMode) builder.Locked {
	t.Helper()
	locked, err := b.Lock(t.Context(), dir, mode)
	if err != nil {
		t.Fatal(err)
	}
	return locked
}

func TestLockedBuildIsStableWhenUpstreamChanges(t *testing.T) {
	w := newWorld(t, "debian-12")
	dir, _ := placed(t, w)
	if err := os.Remove(filepath.Join(dir, "Manifest.lock")); err != nil {
		t.Fatal(err)
	}
	c := openCache(t)
	locked := lockAddOn(t, w.builder(t, c, 4), dir, builder.LockMissing)
	if !locked.Written || len(locked.Changes) == 0 {
		t.Fatalf("locked %+v", locked)
	}
	before := build(t, w.following(t), dir)

	w.push(t, "group/one:1", layer(9, 60_000))
	w.push(t, "two:1", layer(8, 60_000))
	if after := build(t, w.following(t), dir); after.SHA256 != before.SHA256 {
		t.Errorf("built %s before the tags moved, %s after", before.SHA256, after.SHA256)
	}
	t.Run("a build that need not follow the lock does", func(t *testing.T) {
		if loose := build(t, w.builder(t, openCache(t), 4), dir); loose.SHA256 != before.SHA256 {
			t.Errorf("built %s, not %s", loose.SHA256, before.SHA256)
		}
	})
	t.Run("locking keeps what is locked", func(t *testing.T) {
		if again := lockAddOn(t, w.builder(t, c, 4), dir, builder.LockMissing); again.Written || len(again.Changes) != 0 {
			t.Errorf("locked again: %+v", again)
		}
	})
	writeFile(t, filepath.Join(w.files, "v1/tool+x.bin"), "another binary")
	t.Run("a URL that has changed fails, and says what to do", func(t *testing.T) {
		_, err := w.following(t).Build(t.Context(), dir, t.TempDir())
		for _, want := range []string{"Manifest:4:1: error: asset https://files.example.com/v1/tool%2Bx.bin", "sealift lock --update"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
	})
	t.Run("a check says what has moved, and changes nothing", func(t *testing.T) {
		file := filepath.Join(dir, "Manifest.lock")
		was := readFile(t, file)
		drift := lockAddOn(t, w.builder(t, c, 4), dir, builder.LockCheck)
		var lines []string
		for _, change := range drift.Changes {
			lines = append(lines, change.What)
			if change.Was == "" || change.Now == "" {
				t.Errorf("change %+v says not what it was and is", change)
			}
		}
		want := `image registry.example.io/group/one:1
image registry.example.io/group/one:1 linux/amd64
image registry.example.io/two:1
image registry.example.io/two:1 linux/amd64
asset https://files.example.com/v1/tool%2Bx.bin`
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("changed\n%s\nwant\n%s", got, want)
		}
		if drift.Written || readFile(t, file) != was {
			t.Error("the lock was written")
		}
	})
	t.Run("an update takes what is new", func(t *testing.T) {
		if updated := lockAddOn(t, w.builder(t, c, 4), dir, builder.LockUpdate); !updated.Written || len(updated.Changes) != 5 {
			t.Errorf("updated %+v", updated)
		}
		if after := build(t, w.following(t), dir); after.SHA256 == before.SHA256 {
			t.Error("the package is the same")
		}
		if clean := lockAddOn(t, w.builder(t, c, 4), dir, builder.LockCheck); len(clean.Changes) != 0 {
			t.Errorf("an updated lock has drifted: %+v", clean.Changes)
		}
	})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStrictBuildNamesUnlockedSources(t *testing.T) {
	w := newWorld(t, "debian-12")
	dir, _ := placed(t, w)
	for name, content := range map[string]string{"no lock": "", "an empty lock": "format: sealift.dev/lock/v1\n"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "Manifest.lock")
			if content == "" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			} else {
				writeFile(t, file, content)
			}
			out := t.TempDir()
			_, err := w.following(t).Build(t.Context(), dir, out)
			for _, want := range []string{
				"Manifest:2:1: error: image registry.example.io/group/one:1 is not in " + file,
				"Manifest:3:1: error: image registry.example.io/two:1 is not in ",
				"Manifest:4:1: error: asset https://files.example.com/v1/tool%2Bx.bin is not in ",
				"Manifest:6:1: error: what debian-12 on linux/amd64 needs for socat is not in ",
				"sealift lock " + dir,
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant %q in it", err, want)
				}
			}
			assertEmpty(t, out)
		})
	}
}

func TestLockOfOtherPlatformsIsKept(t *testing.T) {
	w := newWorld(t, "debian-12")
	dir := addOn(t, "demo", "asset tool-{arch} https://files.example.com/{arch}/tool\napt socat\n")
	for _, arch := range []string{"amd64", "arm64"} {
		writeFile(t, filepath.Join(w.files, arch, "tool"), "for "+arch)
	}
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range []string{"linux/arm64", "linux/amd64"} {
		b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets, Platforms: []string{platform}})
		if err != nil {
			t.Fatal(err)
		}
		lockAddOn(t, b, dir, builder.LockUpdate)
	}
	both := []string{"linux/amd64", "linux/arm64"}
	r := build(t, w.following(t, both...), dir)
	var carried []string
	for _, path := range entries(t, r.Path) {
		if name, ok := strings.CutPrefix(path, "addons/demo/1.0/assets/"); ok {
			carried = append(carried, name)
		}
	}
	if got := strings.Join(carried, " "); got != "tool-amd64 tool-arm64" {
		t.Errorf("assets are %s", got)
	}
	t.Run("until the Manifest asks for it no more", func(t *testing.T) {
		writeFile(t, filepath.Join(dir, "Manifest"), "asset tool https://files.example.com/amd64/tool\n")
		b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets})
		if err != nil {
			t.Fatal(err)
		}
		lockAddOn(t, b, dir, builder.LockMissing)
		file := readFile(t, filepath.Join(dir, "Manifest.lock"))
		if strings.Contains(file, "arm64") || strings.Contains(file, "hostPackages") || !strings.Contains(file, "amd64/tool") {
			t.Errorf("the lock is\n%s", file)
		}
	})
}

// TestLockKeepsWhatOtherTargetsNeed has locks of targets that the builder does not build for.
func TestLockKeepsWhatOtherTargetsNeed(t *testing.T) {
	w := newWorld(t, "debian-12")
	file, err := os.OpenFile(w.config, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(`targets:
  rocky-9:
    directives: [yum, yum9]
    sources: [{url: "https://rocky.example.com/$basearch/", signedBy: /etc/keys/rocky}]
`)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	w.push(t, "one:1", layer(1, 1000))
	repository := t.TempDir()
	dir := filepath.Join(repository, "addons/demo/1.0")
	writeFile(t, filepath.Join(dir, "Manifest"), "image one registry.example.io/one:1\nyum jq\ndockerout rhel-9 template/Dockerfile 1\n")
	writeFile(t, filepath.Join(dir, "install.sh"), "function demo() { :; }\n")
	var was lock.Lock
	for _, name := range []string{"rocky-9", "rhel-9", "rhel-7", "debian-13"} {
		was.Targets = append(was.Targets, lock.Target{Name: name, Platform: "linux/amd64", Names: []string{"jq"}})
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	for ref, platform := range map[string]string{"base-amd64": "linux/amd64", "base-arm64": "linux/arm64", "former": "linux/amd64"} {
		was.Images = append(was.Images, lock.Image{Ref: "registry.example.io/" + ref + ":1", Digest: digest, MediaType: ocispec.MediaTypeImageManifest, Size: 7, Platforms: map[string]string{platform: digest}})
	}
	locked := func() (names []string) {
		f, err := os.Open(filepath.Join(dir, lock.FileName))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		now, err := lock.Parse(lock.FileName, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range now.Targets {
			names = append(names, one.Name)
		}
		for _, one := range now.Images {
			names = append(names, strings.TrimPrefix(one.Ref, "registry.example.io/"))
		}
		slices.Sort(names)
		return names
	}
	for name, row := range map[string]struct{ dockerfile, want string }{
		"base images of Dockerfiles":               {"FROM registry.example.io/base-$TARGETARCH:1\nCMD x\n", "base-amd64:1 base-arm64:1 one:1 rhel-7 rhel-9 rocky-9"},
		"but not those that they no longer name":   {"FROM scratch\nCMD x\n", "one:1 rhel-7 rhel-9 rocky-9"},
		"and all of a Dockerfile that is not read": {"FROM $unknown\n", "base-amd64:1 base-arm64:1 former:1 one:1 rhel-7 rhel-9 rocky-9"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := was.Save(filepath.Join(dir, lock.FileName)); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(repository, "template/Dockerfile"), row.dockerfile)
			lockAddOn(t, w.builder(t, openCache(t), 4), dir, builder.LockMissing)
			if got := strings.Join(locked(), " "); got != row.want {
				t.Errorf("locked are %s, want %s", got, row.want)
			}
		})
	}
}

func TestAssetPerArchitectureNeedsDistinctNames(t *testing.T) {
	dir := addOn(t, "demo", "asset tool https://files.example.com/{arch}/tool\n")
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default(), Platforms: []string{"linux/amd64", "linux/arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Build(t.Context(), dir, t.TempDir())
	for _, want := range []string{"Manifest:1:1: error: asset tool is another file for each of linux/amd64, linux/arm64", "{arch}", "--per-platform"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestLockDoesNotReplacePinnedDigests has a lock that a pull request changed: references with a digest are not its to lead elsewhere.
func TestLockDoesNotReplacePinnedDigests(t *testing.T) {
	pinned, other := "@sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	repository := t.TempDir()
	dir := filepath.Join(repository, "addons/demo/1.0")
	writeFile(t, filepath.Join(dir, "Manifest"), "image one registry.example.io/one"+pinned+"\ndockerout debian-12 template/Dockerfile 1\n")
	writeFile(t, filepath.Join(dir, "install.sh"), "function demo() { :; }\n")
	writeFile(t, filepath.Join(repository, "template/Dockerfile"), "FROM registry.example.io/base"+pinned+"\nCMD x\n")
	var l lock.Lock
	for _, name := range []string{"one", "base"} {
		l.Images = append(l.Images, lock.Image{
			Ref: "registry.example.io/" + name + pinned, Digest: other, MediaType: ocispec.MediaTypeImageManifest, Size: 7, Platforms: map[string]string{"linux/amd64": other},
		})
	}
	if _, err := l.Save(filepath.Join(dir, lock.FileName)); err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default(), Targets: []string{"debian-12"}, Locked: true, Retry: fetch.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Build(t.Context(), dir, t.TempDir())
	for _, want := range []string{
		"Manifest:1:1: error: image registry.example.io/one" + pinned + ": Manifest.lock locks it to another digest, " + other,
		"Manifest:2:1: error: image registry.example.io/base" + pinned + ": Manifest.lock locks it to another digest, " + other,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %q in it", err, want)
		}
	}
}

func TestUnreadableLockIsAnError(t *testing.T) {
	w := newWorld(t, "debian-12")
	w.push(t, "one:1", layer(1, 1000))
	dir := addOn(t, "demo", "image one registry.example.io/one:1\n")
	writeFile(t, filepath.Join(dir, "Manifest.lock"), "<<<<<<< ours\n")
	b := w.builder(t, openCache(t), 4)
	if _, err := b.Build(t.Context(), dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), "Manifest.lock") || !strings.Contains(err.Error(), "sealift lock --update") {
		t.Errorf("got %v", err)
	}
	if updated := lockAddOn(t, b, dir, builder.LockUpdate); !updated.Written {
		t.Errorf("updated %+v", updated)
	}
	build(t, b, dir)
}
