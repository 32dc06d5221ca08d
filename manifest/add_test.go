package manifest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/manifest"
)

func TestImagesAreAddedUnderNewIDs(t *testing.T) {
	file := filepath.Join(t.TempDir(), manifest.FileName)
	if err := os.WriteFile(file, []byte("# ours\nimage app example.org/app:1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if added, err := manifest.AddImages(file, nil); err != nil || added != nil {
		t.Errorf("no images: %v, %v", added, err)
	}
	added, err := manifest.AddImages(file, []string{"example.org/app:2", "example.org:5000/db@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "other.example.org/app:1"})
	if err != nil || len(added) != 3 {
		t.Fatalf("%v, %v", added, err)
	}
	data, err := os.ReadFile(file)
	const want = "# ours\nimage app example.org/app:1\nimage app-2 example.org/app:2\n" +
		"image db example.org:5000/db@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nimage app-3 other.example.org/app:1\n"
	if string(data) != want || err != nil {
		t.Errorf("%v\n%s", err, data)
	}
	parsed, err := manifest.Load(file)
	if err != nil || len(parsed.Images()) != 4 {
		t.Errorf("%v", err)
	}
}
