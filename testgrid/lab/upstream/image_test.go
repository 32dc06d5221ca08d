package upstream

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/internal/releases"
)

var (
	pauseImage   = "registry.k8s.io/pause:" + releases.Current("kubernetes").With["pause"]
	busyboxImage = "docker.io/library/busybox:" + releases.Current("local-path-provisioner").With["busybox"]
)

func image(t *testing.T, ref string) Image {
	t.Helper()
	for _, i := range Images() {
		if i.Ref == ref {
			return i
		}
	}
	t.Fatalf("the lab has no image %s", ref)
	return Image{}
}

func TestImagesAreCompleteAndReproducible(t *testing.T) {
	w := workshop(t)
	for _, ref := range []string{pauseImage, busyboxImage, "ghcr.io/flannel-io/flannel:v" + releases.Current("flannel").Version} {
		t.Run(ref, func(t *testing.T) {
			var digests []v1.Hash
			for range 2 {
				index, err := w.Image(t.Context(), image(t, ref))
				if err != nil {
					t.Fatal(err)
				}
				if err := validate.Index(index); err != nil {
					t.Error(err)
				}
				digest, err := index.Digest()
				if err != nil {
					t.Fatal(err)
				}
				digests = append(digests, digest)
			}
			if digests[0] != digests[1] {
				t.Errorf("digests differ: %v", digests)
			}
		})
	}
}

func TestTagIndexHasUpstreamMediaType(t *testing.T) {
	w := workshop(t)
	for ref, want := range map[string]types.MediaType{
		pauseImage:   types.DockerManifestList,
		busyboxImage: types.OCIImageIndex,
	} {
		index, err := w.Image(t.Context(), image(t, ref))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if manifest.MediaType != want || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.String() != "linux/amd64" {
			t.Errorf("%s is %+v", ref, manifest)
		}
	}
}

func TestImagesShareBaseLayer(t *testing.T) {
	w := workshop(t)
	lowest := map[string]bool{}
	for _, ref := range []string{"ghcr.io/flannel-io/flannel-cni-plugin:" + releases.Current("flannel").With["cni-plugin"], busyboxImage} {
		index, err := w.Image(t.Context(), image(t, ref))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		img, err := index.Image(manifest.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		lowest[digest.String()] = true
	}
	if len(lowest) != 1 {
		t.Errorf("lowest layers are %v", lowest)
	}
}

func TestTarballIsReproducibleWithExecutables(t *testing.T) {
	w := workshop(t)
	recipe := Tarball{File: "a.tar.gz", Files: filesOf("pause-"+releases.Current("kubernetes").With["pause"], "opt/bin", "pause")}
	var packed [2][]byte
	for i := range packed {
		dir := t.TempDir()
		if err := recipe.Make(t.Context(), w, dir); err != nil {
			t.Fatal(err)
		}
		var err error
		if packed[i], err = os.ReadFile(filepath.Join(dir, "a.tar.gz")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("two runs differ")
	}
	if diff := cmp.Diff([]string{"drwxr-xr-x opt/", "drwxr-xr-x opt/bin/", "-rwxr-xr-x opt/bin/pause"}, entries(t, packed[0])); diff != "" {
		t.Error(diff)
	}
}

// entries lists an archive as mode and name.
func entries(t *testing.T, packed []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, header.FileInfo().Mode().String()+" "+header.Name)
	}
}

func TestTreeIsPackedWithoutTimesAndOwnerNames(t *testing.T) {
	tree := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(tree, "etc/b"), 0o755),
		os.WriteFile(filepath.Join(tree, "etc/b/file"), []byte("x"), 0o640),
		os.Symlink("b/file", filepath.Join(tree, "etc/a")),
	); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	if err := errors.Join(writeTree(archive, tree), archive.Close()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&packed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(epoch) || header.Uname != "" || header.Gname != "" {
			t.Errorf("%s has time %v and owner %s:%s", header.Name, header.ModTime, header.Uname, header.Gname)
		}
		got = append(got, strings.TrimSuffix(header.Name+" -> "+header.Linkname, " -> "))
	}
	if diff := cmp.Diff([]string{"etc/", "etc/a -> b/file", "etc/b/", "etc/b/file"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownComponentsAreNamed(t *testing.T) {
	_, err := workshop(t).Path(t.Context(), "kubernetes-v9.9.9")
	if err == nil || err.Error() != `the lab knows no component "kubernetes-v9.9.9"` {
		t.Errorf("error is %v", err)
	}
}
