package runtime_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/distribution/reference"

	"github.com/sealift/sealift/installer/cluster/runtime"
)

// FuzzForeign opens hostile archives. The names that it finds are whole.
func FuzzForeign(f *testing.F) {
	seed := func(files ...string) {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for n := 0; n < len(files); n += 2 {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[n], Size: int64(len(files[n+1]))}); err != nil {
				f.Fatal(err)
			}
			if _, err := w.Write([]byte(files[n+1])); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes(), "")
		f.Add(out.Bytes(), "busybox")
	}
	seed("oci-layout", `{"imageLayoutVersion":"1.0.0"}`, "index.json", `{"manifests":[{"annotations":{"org.opencontainers.image.ref.name":"a:1"}},{}]}`, "blobs/sha256/00", "x")
	seed("manifest.json", `[{"RepoTags":["a:1","b"]},{"RepoTags":null}]`, "layer.tar", "")
	f.Add([]byte("\x1f\x8b\x08"), "")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		file := filepath.Join(t.TempDir(), "archive")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := runtime.OpenForeign(file, name)
		if err != nil {
			return
		}
		for _, one := range found.Names {
			if named, err := reference.ParseNamed(one); err != nil || named.String() != one || reference.IsNameOnly(named) {
				t.Fatalf("%q is not a whole name: %v", one, err)
			}
		}
	})
}
