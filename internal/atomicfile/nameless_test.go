package atomicfile_test

import (
	"os"
	"testing"

	"github.com/sealift/sealift/internal/atomicfile"
)

func TestNamelessFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.Nameless(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if f, err := atomicfile.Nameless(dir + "/missing"); err == nil {
		t.Error("made in a folder that does not exist", f.Close())
	}
}
