package image_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/bundle"
)

// archive makes the docker-archive of an image and writes it to disk.
func (b bench) archive(t *testing.T, r image.Resolved) (string, bundle.File) {
	t.Helper()
	r.ID = "app"
	f, err := image.DockerArchive(t.Context(), "images", r, b.cache)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeFile(filepath.Join(dir, f.Path), f); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "images/app.tar.gz"), f
}

func TestOtherToolsReadDockerArchive(t *testing.T) {
	for _, mediaType := range []types.MediaType{types.DockerManifestSchema2, types.OCIManifestSchema1} {
		t.Run(string(mediaType), func(t *testing.T) {
			r := newRegistry(t)
			want := mutate.MediaType(newImage(t, "linux", "amd64", 3), mediaType)
			r.pushImage(t, "mirrored/group/app:1", want)
			b := newBench(t, r)
			name, _ := b.archive(t, b.pull(t, "group/app:1"))

			plain := strings.TrimSuffix(name, ".gz")
			gunzip(t, name, plain)
			got, err := tarball.ImageFromPath(plain, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(got); err != nil {
				t.Error(err)
			}
			wantConfig, _ := want.ConfigName()
			if config, err := got.ConfigName(); err != nil || config != wantConfig {
				t.Errorf("its configuration is %s, %v; want %s", config, err, wantConfig)
			}
			// Debian 12's skopeo fails on any docker-archive that is compressed.
			out, err := exec.CommandContext(t.Context(), "skopeo", "--insecure-policy", "copy", "--quiet",
				"docker-archive:"+plain+":"+upstream+"/group/app:1", "dir:"+t.TempDir()).CombinedOutput()
			if err != nil {
				t.Errorf("skopeo copy: %v: %s", err, out)
			}
		})
	}
}

func gunzip(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "gunzip", "-c", from).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDockerArchiveIsReproducible(t *testing.T) {
	r := newRegistry(t)
	r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 3)))
	one, two := newBench(t, r), newBench(t, r)
	_, first := one.archive(t, one.pull(t, "app:1"))
	_, second := two.archive(t, two.pull(t, "app:1"))
	if first.SHA256 != second.SHA256 || first.Size != second.Size {
		t.Error("two caches give two archives")
	}
	// With the parts gone, only the finished archive is left to take.
	resolved := one.pull(t, "app:1")
	for _, d := range resolved.Blobs() {
		if err := os.Remove(one.cache.Path(strings.TrimPrefix(d.Digest, "sha256:"))); err != nil {
			t.Fatal(err)
		}
	}
	if _, third := one.archive(t, resolved); third.SHA256 != first.SHA256 {
		t.Error("the archive was made another time, and is another")
	}
}

func TestDockerArchiveUnpacksZstdAndPlainLayers(t *testing.T) {
	r := newRegistry(t)
	content := bytes.Repeat([]byte("layer "), 1000)
	sum := sha256.Sum256(content)
	diffID := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := zstd.NewWriter(nil, zstd.WithWindowSize(128<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	var long bytes.Buffer
	wide.Reset(&long)
	for part := content; len(part) > 0; part = part[min(len(part), 1000):] { // a frame that does not know its size
		if _, err := wide.Write(part[:min(len(part), 1000)]); err != nil {
			t.Fatal(err)
		}
		if err := wide.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := wide.Close(); err != nil {
		t.Fatal(err)
	}
	for name, layer := range map[string]v1.Layer{
		"zstd-with-a-wide-window": static.NewLayer(long.Bytes(), "application/vnd.oci.image.layer.v1.tar+zstd"),
		"zstd":                    static.NewLayer(encoder.EncodeAll(content, nil), "application/vnd.oci.image.layer.v1.tar+zstd"),
		"plain":                   static.NewLayer(content, types.OCIUncompressedLayer),
	} {
		t.Run(name, func(t *testing.T) {
			img, err := mutate.Append(withPlatform(t, newImage(t, "linux", "amd64", 0), "linux", "amd64"), mutate.Addendum{Layer: layer})
			if err != nil {
				t.Fatal(err)
			}
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			config.RootFS.DiffIDs = []v1.Hash{diffID}
			if img, err = mutate.ConfigFile(img, config); err != nil {
				t.Fatal(err)
			}
			r.pushImage(t, "mirrored/"+name+":1", img)
			b := newBench(t, r)
			archive, _ := b.archive(t, b.pull(t, name+":1"))
			out, err := exec.CommandContext(t.Context(), "tar", "-xzOf", archive, diffID.Hex+"/layer.tar").Output()
			if err != nil || !bytes.Equal(out, content) {
				t.Errorf("the layer unpacks to %d bytes, %v; want %d", len(out), err, len(content))
			}
		})
	}
}

func TestUnsupportedDockerArchiveContentIsRefused(t *testing.T) {
	r := newRegistry(t)
	digest := r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1)))
	lying := newImage(t, "linux", "amd64", 1)
	config, err := lying.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.RootFS.DiffIDs = []v1.Hash{{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}
	if lying, err = mutate.ConfigFile(lying, config); err != nil {
		t.Fatal(err)
	}
	r.pushImage(t, "mirrored/lying:1", lying)
	b := newBench(t, r)
	for name, row := range map[string]struct {
		image image.Resolved
		want  string
	}{
		"two platforms":                      {b.pull(t, "app:1", "linux/amd64", "linux/arm64"), "holds one platform, not 2"},
		"a name without a tag":               {b.pull(t, "app@"+digest), "cannot store a digest"},
		"a layer that the config has not so": {b.pull(t, "lying:1"), "the configuration says sha256:0000"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := image.DockerArchive(t.Context(), "images", row.image, b.cache); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	t.Run("a cancelled build", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := image.DockerArchive(ctx, "images", b.pull(t, "app:1"), b.cache); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
