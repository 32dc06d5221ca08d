package platform_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/internal/platform"
)

// documents are the JSON documents of images, by digest.
type documents map[digest.Digest][]byte

func (d documents) add(t *testing.T, mediaType string, document any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	d[desc.Digest] = data
	return desc
}

// image adds an image. Its configuration is for a platform, such as linux/arm/v7.
func (d documents) image(t *testing.T, config string) ocispec.Descriptor {
	t.Helper()
	c := d.add(t, ocispec.MediaTypeImageConfig, at(config))
	return d.add(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{Config: c, Layers: []ocispec.Descriptor{}, Annotations: map[string]string{"n": strconv.Itoa(len(d))}})
}

func (d documents) index(t *testing.T, entries ...ocispec.Descriptor) ocispec.Descriptor {
	t.Helper()
	return d.add(t, ocispec.MediaTypeImageIndex, ocispec.Index{Manifests: entries})
}

func (d documents) read(_ context.Context, desc ocispec.Descriptor) ([]byte, error) {
	data, ok := d[desc.Digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

// ReaderAt implements content.Provider.
func (d documents) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	data, err := d.read(ctx, desc)
	return reader{strings.NewReader(string(data))}, err
}

type reader struct{ *strings.Reader }

func (reader) Close() error { return nil }

func at(name string) ocispec.Platform {
	parts := append(strings.Split(name, "/"), "", "")
	return ocispec.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}
}

// TestImageForNodeIsChosen compares every choice with that of containerd's own package. An entry is the platform in the index,
// "-" for none; after a colon, the platform of its configuration if it differs. AlmaLinux/container-images#71,
// containers/image#911, apptainer/apptainer#2908.
func TestImageForNodeIsChosen(t *testing.T) {
	for _, row := range []struct {
		name, entries, platform string
		want                    int // the entry, or -1
	}{
		{"the plain image is taken before a later variant", "linux/amd64/v2 linux/amd64", "linux/amd64", 1},
		{"the plain image is taken before a much later variant", "linux/amd64/v3 linux/amd64/v2 linux/amd64", "linux/amd64", 2},
		{"v1 is the plain image", "linux/amd64/v2 linux/amd64/v1", "linux/amd64", 1},
		{"a variant alone is for no node", "linux/amd64/v2", "linux/amd64", -1},
		{"another spelling is the same architecture", "linux/x86_64", "linux/amd64", 0},
		{"32 bits run on 64", "linux/386", "linux/amd64", 0},
		{"64 bits are taken before 32", "linux/386 linux/amd64", "linux/amd64", 1},
		{"arm without a variant is v7", "linux/arm/v6 linux/arm", "linux/arm", 1},
		{"v7 takes the newest that it runs", "linux/arm/v5 linux/arm/v6", "linux/arm/v7", 1},
		{"v6 runs no v7", "linux/arm/v7 linux/arm/v6", "linux/arm/v6", 1},
		{"v6 has nothing where there is only v7", "linux/arm/v7 linux/arm", "linux/arm/v6", -1},
		{"arm64 is arm64/v8", "linux/arm64/v8", "linux/arm64", 0},
		{"arm64/v8 is arm64", "linux/arm/v7 linux/arm64", "linux/arm64/v8", 1},
		{"arm64 takes no v9", "linux/arm64/v9 linux/arm64/v8", "linux/arm64", 1},
		{"arm64 runs arm", "linux/arm/v7", "linux/arm64", 0},
		{"attestations are no images", "unknown/unknown linux/amd64", "linux/amd64", 1},
		{"attestations alone are nothing", "unknown/unknown", "linux/amd64", -1},
		{"another system is none of ours", "windows/amd64 linux/amd64", "linux/amd64", 1},
		{"of equals the first counts", "linux/amd64 linux/amd64", "linux/amd64", 0},
		{"the configuration decides without a platform", "-:linux/amd64", "linux/amd64", 0},
		{"the configuration may be for another platform", "-:linux/arm64", "linux/amd64", -1},
		{"of entries without a platform the first counts", "-:linux/arm64 -:linux/amd64", "linux/amd64", -1},
		{"entries without a platform come last", "-:linux/arm64 linux/amd64", "linux/amd64", 1},
		{"a configuration for a variant is another platform", "-:linux/amd64/v2", "linux/amd64", -1},
		{"nothing is for nobody", "", "linux/amd64", -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := make(documents)
			var entries []ocispec.Descriptor
			for entry := range strings.FieldsSeq(row.entries) {
				named, config, other := strings.Cut(entry, ":")
				if !other {
					config = named
				}
				desc := d.image(t, config)
				if named != "-" {
					p := at(named)
					desc.Platform = &p
				}
				entries = append(entries, desc)
			}
			index := d.index(t, entries...)
			for name, root := range map[string]ocispec.Descriptor{"index": index, "index in an index": d.index(t, index)} {
				check(t, d, name, root, row.platform, entries, row.want)
			}
		})
	}
}

func check(t *testing.T, d documents, name string, root ocispec.Descriptor, wanted string, entries []ocispec.Descriptor, want int) {
	t.Helper()
	m, err := platform.Matcher(wanted)
	if err != nil {
		t.Fatal(err)
	}
	theirs, theirErr := images.Manifest(t.Context(), d, root, m)
	path, err := platform.Choose(t.Context(), d.read, root, m)
	if want < 0 {
		var none *platform.NoMatchError
		if !errors.As(err, &none) || theirErr == nil {
			t.Errorf("%s: chose %v, %v; containerd: %v", name, path, err, theirErr)
		}
		return
	}
	if err != nil || theirErr != nil {
		t.Fatalf("%s: %v; containerd: %v", name, err, theirErr)
	}
	last := path[len(path)-1]
	if last.Digest != entries[want].Digest {
		t.Errorf("%s: chose %v, want %v", name, last.Platform, entries[want].Platform)
	}
	var ours ocispec.Manifest
	if err := json.Unmarshal(d[last.Digest], &ours); err != nil || ours.Annotations["n"] != theirs.Annotations["n"] {
		t.Errorf("%s: chose image %s, containerd %s, %v", name, ours.Annotations["n"], theirs.Annotations["n"], err)
	}
}

func TestUnreadableImageIsRefused(t *testing.T) {
	d := make(documents)
	image := d.image(t, "linux/amd64")
	typed := func(desc ocispec.Descriptor, mediaType string) ocispec.Descriptor {
		desc.MediaType = mediaType
		return desc
	}
	deep := image
	for range 20 {
		deep = d.index(t, deep)
	}
	for name, row := range map[string]struct {
		root ocispec.Descriptor
		want string
	}{
		"an entry of another type":    {d.index(t, typed(image, "application/vnd.example")), "does not load as an image"},
		"an entry without a type":     {d.index(t, typed(image, "")), "does not load as an image"},
		"an index under a wrong type": {typed(d.index(t, image), ocispec.MediaTypeImageManifest), "expected manifest but found index"},
		"a manifest that is missing":  {d.index(t, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("x")}), "does not exist"},
		"indexes without an end":      {deep, "nested indexes"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := platform.Matcher("linux/amd64")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := platform.Choose(t.Context(), d.read, row.root, m); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestPlatformNames(t *testing.T) {
	for in, want := range map[string]string{
		"linux/amd64": "linux/amd64", "linux/amd64/v1": "linux/amd64", "linux/arm64/v8": "linux/arm64",
		"linux/arm": "linux/arm/v7", "linux/arm/v6": "linux/arm/v6", "linux/s390x": "linux/s390x",
	} {
		if p, err := platform.Parse(in); err != nil || platform.Name(p) != want {
			t.Errorf("%s is %s, %v; want %s", in, platform.Name(p), err, want)
		}
		if !platform.Contains([]string{"linux/riscv64", in}, want) {
			t.Errorf("%s and %s are not the same", in, want)
		}
	}
	for _, bad := range []string{"", "linux", "linux/", "linux/amd64/v2/x", "Linux/amd64", "linux/amd64/v2", "linux/arm64/v9"} {
		if p, err := platform.Parse(bad); err == nil {
			t.Errorf("%q is %s", bad, platform.Name(p))
		}
	}
	if platform.Same("linux/amd64", "linux/386") || platform.Same("linux/arm/v6", "linux/arm") {
		t.Error("platforms that run each other's images are the same")
	}
}

func TestPlatformRunsImageConfiguration(t *testing.T) {
	for _, row := range []struct {
		wanted, config string
		want           bool
	}{
		{"linux/amd64", "linux/amd64", true},
		{"linux/amd64", "linux/amd64/v2", true}, // named by its manifest, containerd loads it
		{"linux/amd64", "/", true},
		{"linux/amd64", "linux/386", true},
		{"linux/amd64", "linux/arm64", false},
		{"linux/amd64", "windows/amd64", false},
		{"linux/arm/v6", "linux/arm", true},
		{"linux/arm/v6", "linux/arm/v7", false},
		{"linux/arm/v7", "linux/arm/v6", true},
		{"linux/arm64", "linux/arm64/v8", true},
	} {
		wanted, err := platform.Parse(row.wanted)
		if err != nil {
			t.Fatal(err)
		}
		if got := platform.Runs(wanted, at(row.config)); got != row.want {
			t.Errorf("%s runs %q: %v", row.wanted, row.config, got)
		}
	}
}
