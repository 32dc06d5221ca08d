package delta_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/patchdoc"
)

// unpack reads an archive as tar does. What follows reads patches by docs/format.md alone.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for in := tar.NewReader(z); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeLink {
			files[header.Name] = files[header.Linkname]
		}
	}
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestPatchesAreAsDocumented(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	oldData := bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}})
	newData := update(t, earlier(t, opened(t, oldData)), bundle.Bundle{Packages: []*bundle.Archive{second}})
	had, files := unpack(t, oldData), unpack(t, newData)
	if made := documentedPatches(t, files, had, "sealift.dev/archive/v3"); made != 2 {
		t.Errorf("%d files are patched", made)
	}
}

// documentedPatches makes the patched files of an archive, and returns how many there are. had has the files of the earlier one.
func documentedPatches(t *testing.T, files, had map[string][]byte, format string) (made int) {
	t.Helper()
	type blob struct {
		SHA256 string
		Size   int
	}
	var index struct {
		Format, Base string
		Entries      []struct {
			Path, Encoding, Link, SHA256 string
			Size                         int
			Patch                        struct {
				Path       string
				Within     bool
				Base, From blob
				Memory     int
			}
			Layer *struct{ DiffID, Compression string }
		}
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if index.Format != format || had != nil && index.Base != sumOf(had["index.json"]) {
		t.Fatalf("format %s, base %s", index.Format, index.Base)
	}
	for _, e := range index.Entries {
		if e.Encoding != "patch" {
			continue
		}
		base := had[e.Link]
		if e.Patch.Within {
			base = files[e.Link]
		}
		if sumOf(base) != e.Patch.Base.SHA256 || len(base) != e.Patch.Base.Size {
			t.Fatalf("%s: %s is another base", e.Path, e.Link)
		}
		if e.Patch.From != e.Patch.Base {
			z, err := gzip.NewReader(bytes.NewReader(base))
			if err != nil {
				t.Fatal(err)
			}
			if base, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if sumOf(base) != e.Patch.From.SHA256 || len(base) != e.Patch.From.Size {
			t.Fatalf("%s: %s unpacks to another base", e.Path, e.Link)
		}
		result, err := patchdoc.Apply(files[e.Patch.Path], base)
		if err != nil {
			t.Fatalf("%s: %v", e.Path, err)
		}
		if sumOf(result) != e.SHA256 || len(result) != e.Size {
			t.Errorf("%s: the patch makes %d of %d bytes", e.Path, len(result), e.Size)
		}
		if e.Layer != nil && (e.Layer.DiffID != e.SHA256 || e.Layer.Compression != "") {
			t.Errorf("%s: is the layer %+v", e.Path, *e.Layer)
		}
		made++
	}
	return made
}
