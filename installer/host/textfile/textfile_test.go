package textfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/installer/host/textfile"
)

func TestFileMovesAndIsRemovedWithItsFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := textfile.Place{Memory: filepath.Join(dir, "textfile.json")}
	there := func(name string, want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := place.Remove(); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
	for _, text := range []string{"a 1\n", "a 2\n"} {
		if err := place.Write(filepath.Join(dir, "lib/node/text"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "lib/node/text", textfile.Name))
		if err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "lib/node/text", textfile.Name))
	if err != nil || info.Mode() != 0o644 { // node_exporter is not root
		t.Errorf("%v, %v", info, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "lib/node/text"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "given"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := place.Write(filepath.Join(dir, "given"), nil); err != nil {
		t.Fatal(err)
	}
	there("lib", false)
	there("given/"+textfile.Name, true)
	if err := place.Remove(); err != nil {
		t.Fatal(err)
	}
	there("given", true)
	there("given/"+textfile.Name, false)
	there("textfile.json", false)
}

func TestFolderOfOthersStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := textfile.Place{Memory: filepath.Join(dir, "textfile.json")}
	folder := filepath.Join(dir, "lib/text")
	if err := place.Write(folder, nil); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(folder, "other.prom")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := place.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
