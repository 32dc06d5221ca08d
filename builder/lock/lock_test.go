package lock_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
)

var (
	one = strings.Repeat("1", 64) // digits only, which YAML would take for a number
	two = strings.Repeat("2e", 32)
)

func sample() lock.Lock {
	return lock.Lock{
		Images: []lock.Image{
			{Ref: "registry.example.io/b:1", Digest: "sha256:" + two, MediaType: "application/vnd.oci.image.index.v1+json", Size: 600,
				Platforms: map[string]string{"linux/arm64": "sha256:" + two, "linux/amd64": "sha256:" + one}},
			{Ref: "registry.example.io/a:1", Digest: "sha256:" + one, MediaType: "application/vnd.oci.image.manifest.v1+json", Size: 500,
				Platforms: map[string]string{"linux/amd64": "sha256:" + one}},
		},
		Assets: []lock.Asset{{URL: "https://files.example.com/tool?x=%20", Blob: bundle.Blob{SHA256: one, Size: 12}}},
		Targets: []lock.Target{{Name: "debian-12", Platform: "linux/amd64", Names: []string{"socat", "kmod"}, Packages: []lock.Package{
			{HostPackageID: bundle.HostPackageID{Name: "socat", Version: "1.10", Arch: "amd64"}, URL: "http://example.com/socat_1.10_amd64.deb", Blob: bundle.Blob{SHA256: two, Size: 3}},
			{HostPackageID: bundle.HostPackageID{Name: "kmod", Version: "1:30", Arch: "amd64"}, URL: "http://example.com/kmod_30_amd64.deb", Blob: bundle.Blob{SHA256: one, Size: 4}, Key: two},
		}}},
	}
}

func encoded(t *testing.T, l lock.Lock) string {
	t.Helper()
	var b bytes.Buffer
	if err := l.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const golden = `# What the Manifest beside this file stood for when it was locked. Written by sealift lock: keep it with the
# Manifest, do not edit it, and build with --locked to get the same package again.
format: sealift.dev/lock/v1
images:
- ref: registry.example.io/a:1
  digest: sha256:<one>
  mediaType: application/vnd.oci.image.manifest.v1+json
  size: 500
  platforms:
    linux/amd64: sha256:<one>
- ref: registry.example.io/b:1
  digest: sha256:<two>
  mediaType: application/vnd.oci.image.index.v1+json
  size: 600
  platforms:
    linux/amd64: sha256:<one>
    linux/arm64: sha256:<two>
assets:
- url: https://files.example.com/tool?x=%20
  sha256: "<one>"
  size: 12
hostPackages:
- target: debian-12
  platform: linux/amd64
  names:
  - kmod
  - socat
  packages:
  - name: kmod
    version: "1:30"
    arch: amd64
    url: http://example.com/kmod_30_amd64.deb
    sha256: "<one>"
    size: 4
    key: <two>
  - name: socat
    version: "1.10"
    arch: amd64
    url: http://example.com/socat_1.10_amd64.deb
    sha256: <two>
    size: 3
`

func fill(s string) string { return strings.NewReplacer("<one>", one, "<two>", two).Replace(s) }

func TestLockFormatIsCanonical(t *testing.T) {
	got := encoded(t, sample())
	if diff := cmp.Diff(fill(golden), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	parsed, err := lock.Parse("Manifest.lock", strings.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	if again := encoded(t, parsed); again != got {
		t.Errorf("read and written again it is\n%s", again)
	}
	if i, ok := parsed.Image("registry.example.io/b:1"); !ok || i.Platforms["linux/arm64"] != "sha256:"+two {
		t.Errorf("image is %+v", i)
	}
	if a, ok := parsed.Asset("https://files.example.com/tool?x=%20"); !ok || a.SHA256 != one {
		t.Errorf("asset is %+v", a)
	}
	if p, ok := parsed.Target("debian-12", "linux/amd64"); !ok || len(p.Packages) != 2 || p.Packages[1].Version != "1.10" {
		t.Errorf("target is %+v", p)
	}
	if _, ok := parsed.Target("debian-12", "linux/arm64"); ok {
		t.Error("found a target for another platform")
	}
}

func TestMistakesHavePositions(t *testing.T) {
	tests := map[string]struct {
		edit func(string) string // of the golden file
		want string
	}{
		"an unknown key":           {replace("  size: 500\n", "  size: 500\n  siez: 1\n"), `:9:3: error: unknown key "siez" in an image`},
		"a missing key":            {replace("  size: 500\n", ""), ":5:3: error: an image has no size"},
		"another format":           {replace("lock/v1", "lock/v2"), ":3:9: error: format \"sealift.dev/lock/v2\""},
		"no format":                {replace("format: sealift.dev/lock/v1\n", ""), "error: the lock has no format"},
		"a short digest":           {replace("- ref: registry.example.io/a:1\n  digest: sha256:<one>", "- ref: registry.example.io/a:1\n  digest: sha256:1"), ":6:11: error: digest of an image"},
		"a digest of another kind": {replace("    linux/arm64: sha256:", "    linux/arm64: sha512:"), ":17:18: error: the digest for linux/arm64"},
		"a size that is none":      {replace("size: 12", "size: many"), `:21:9: error: size of an asset is "many"`},
		"a negative size":          {replace("size: 12", "size: -12"), `:21:9: error: size of an asset is "-12"`},
		"the same image twice":     {replace("/b:1", "/a:1"), ":11:3: error: an image registry.example.io/a:1 is listed twice"},
		"a list that is none":      {replace("  names:\n  - kmod\n  - socat\n", "  names: kmod\n"), ":25:10: error: names of a target must be a list"},
		"an empty version":         {replace(`"1.10"`, `""`), ":37:14: error: version of a package is empty"},
		"an endless alias":         {replace("size: 12", "size: &a [*a]"), "the value of anchor \"a\" contains itself"},
		"a key twice":              {replace("  size: 12\n", "  size: 12\n  size: 13\n"), "key \"size\" is already on line 21"},
		"nothing":                  {func(string) string { return "" }, "the document is empty"},
		"another language":         {func(string) string { return "{}" }, "error: the lock has no format"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := lock.Parse("Manifest.lock", strings.NewReader(fill(test.edit(golden))))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %q in it", err, test.want)
			}
		})
	}
}

func replace(old, with string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, with, 1) }
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), lock.FileName)
	for _, want := range []bool{true, false} {
		if changed, err := sample().Save(path); err != nil || changed != want {
			t.Errorf("Save = %v, %v, want %v", changed, err, want)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != fill(golden) {
		t.Errorf("saved %s, %v", data, err)
	}
}

func TestDiff(t *testing.T) {
	now := sample()
	now.Images[0].Digest = "sha256:" + one
	now.Images = now.Images[:1]
	now.Images[0].Platforms = map[string]string{"linux/amd64": "sha256:" + two, "linux/arm64": "sha256:" + two}
	now.Assets[0].Size++
	now.Targets[0].Packages = append(now.Targets[0].Packages[:1:1], lock.Package{HostPackageID: bundle.HostPackageID{Name: "libssl3", Version: "3.0", Arch: "amd64"}, Blob: bundle.Blob{SHA256: two}})
	now.Targets[0].Packages[0].Version = "1.11"
	var got []string
	for _, change := range lock.Diff(sample(), now) {
		got = append(got, change.String())
	}
	want := fill(`image registry.example.io/a:1: no longer needed, was sha256:<one>
image registry.example.io/b:1: sha256:<one>, was sha256:<two>
image registry.example.io/b:1 linux/amd64: sha256:<two>, was sha256:<one>
image registry.example.io/b:1 linux/arm64: new, sha256:<two>
asset https://files.example.com/tool?x=%20: sha256:<one> (13 bytes), was sha256:<one> (12 bytes)
debian-12 linux/amd64 kmod: no longer needed, was 1:30 amd64 (sha256:111111111111) signed by keys sha256:2e2e2e2e2e2e
debian-12 linux/amd64 libssl3: new, 3.0 amd64 (sha256:2e2e2e2e2e2e)
debian-12 linux/amd64 socat: 1.11 amd64 (sha256:2e2e2e2e2e2e), was 1.10 amd64 (sha256:2e2e2e2e2e2e)`)
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if same := lock.Diff(sample(), sample()); len(same) != 0 {
		t.Errorf("a lock differs from itself: %v", same)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fill(golden)))
	f.Add([]byte("format: sealift.dev/lock/v1\n"))
	f.Add([]byte("format: sealift.dev/lock/v1\nimages: [{ref: a, platforms: [1]}]\nassets: x\n"))
	f.Add([]byte("format: [&a 1, *a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := lock.Parse("Manifest.lock", bytes.NewReader(data))
		if err != nil {
			return
		}
		first := encoded(t, l)
		again, err := lock.Parse("Manifest.lock", strings.NewReader(first))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if second := encoded(t, again); second != first {
			t.Errorf("written, read and written again:\n%s\nbefore:\n%s", second, first)
		}
		if changes := lock.Diff(l, again); len(changes) != 0 {
			t.Errorf("it changed: %v", changes)
		}
	})
}

func TestAttachmentsAreLocked(t *testing.T) {
	was, now := sample(), sample()
	now.Images[1].Attached = []lock.Attached{
		{Digest: "sha256:" + two, MediaType: "application/vnd.oci.image.manifest.v1+json", Size: 7, Subject: "sha256:" + one},
		{Digest: "sha256:" + one, MediaType: "application/vnd.oci.image.manifest.v1+json", Size: 8, Subject: "sha256:" + two, Tag: "sha256-" + two + ".sig"},
	}
	parsed, err := lock.Parse("Manifest.lock", strings.NewReader(encoded(t, now)))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := parsed.Image("registry.example.io/a:1"); !cmp.Equal(got.Attached, now.Images[1].Attached) {
		t.Errorf("read %+v", got.Attached)
	}
	var changed []string
	for _, c := range lock.Diff(was, now) {
		changed = append(changed, c.What)
	}
	want := []string{"image registry.example.io/a:1 attached sha256-" + two + ".sig", "image registry.example.io/a:1 attached to sha256:" + one + ", sha256:" + two}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for what, wrong := range map[string]string{
		`digest of an attachment of registry.example.io/a:1 is "sha256:1"`: strings.Replace(encoded(t, now), "- digest: sha256:"+two, "- digest: sha256:1", 1),
		"an attachment of registry.example.io/a:1 has no subject":          strings.Replace(encoded(t, now), "    subject: sha256:"+one+"\n", "", 1),
	} {
		if _, err := lock.Parse("Manifest.lock", strings.NewReader(wrong)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}
