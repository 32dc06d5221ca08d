package archive_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/cli/archive"
)

// forTwoPlatforms returns a package with an image that never changes, a text for all nodes, and a program for each platform. A version changes a
// few bytes of each program.
func forTwoPlatforms(t *testing.T, version byte) *bundle.Archive {
	t.Helper()
	p := bundle.Package{Name: "demo", Version: fmt.Sprintf("1.%d.0", version), Platforms: []string{"linux/amd64", "linux/arm64"}}
	dir := bundle.AddOnDir(p.Name, p.Version)
	image := bundle.Image{ID: "app", Ref: "example.org/app:1", Platforms: map[string]string{}}
	for n, arch := range []string{"amd64", "arm64"} {
		config := fmt.Sprintf(`{"architecture":%q}`, arch)
		manifest := fmt.Sprintf(`{"config":{"digest":%q,"size":%d},"layers":[]}`, digest.FromString(config), len(config))
		image.Platforms["linux/"+arch] = digest.FromString(manifest).String()
		for _, document := range []string{config, manifest} {
			p.Files = append(p.Files, bundle.BytesFile(dir+"/images/blobs/sha256/"+digest.FromString(document).Encoded(), 0o644, []byte(document)))
		}
		program := make([]byte, 200_000)
		_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(program)
		program[50_000*(n+1)] = version
		for i := range program {
			program[i] &= 0x3f // so that it is compressed
		}
		asset := bundle.Asset{Name: "tool-" + arch, Path: dir + "/assets/tool-" + arch}
		p.Contents.Assets = append(p.Contents.Assets, asset)
		p.Files = append(p.Files, bundle.BytesFile(asset.Path, 0o755, program))
	}
	p.Contents.Images = []bundle.Image{image}
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return opened(t, buf.Bytes())
}

func opened(t *testing.T, data []byte) *bundle.Archive {
	t.Helper()
	a, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestUpdateForTwoPlatformsIsMeasured measures a bundle without its base: the manifests of the image are there, and patches make the programs.
func TestUpdateForTwoPlatformsIsMeasured(t *testing.T) {
	write := func(b bundle.Bundle) *bundle.Archive {
		t.Helper()
		var buf bytes.Buffer
		if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
			t.Fatal(err)
		}
		return opened(t, buf.Bytes())
	}
	old := write(bundle.Bundle{Packages: []*bundle.Archive{forTwoPlatforms(t, 0)}})
	since, err := old.Since()
	if err != nil {
		t.Fatal(err)
	}
	next := []*bundle.Archive{forTwoPlatforms(t, 1)}
	set, err := delta.Earlier{Archives: []*bundle.Archive{old}, Since: since, Spool: delta.NewSpool(t.TempDir())}.Make(t.Context(), next, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if len(set.Members) != 2 {
		t.Fatalf("%d patches", len(set.Members))
	}
	update := write(bundle.Bundle{Packages: next, Since: since, Members: set.Members, Patched: set.Entries})
	summary, err := archive.Summarize(update, "update.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if len(summary.PlatformSizes) != 2 {
		t.Fatalf("sizes are %+v", summary.PlatformSizes)
	}
	for n, s := range summary.PlatformSizes {
		patch, ok := update.Entry(set.Entries["addons/demo/1.1.0/assets/tool-"+[]string{"amd64", "arm64"}[n]].Patch.Path)
		if !ok || s.Alone != patch.Length || s.Size <= s.Alone {
			t.Errorf("%+v, and the patch has %d bytes", s, patch.Length)
		}
	}
}
