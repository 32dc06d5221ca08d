package bundle_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
)

// TestFolderWithListSeparatorHasParts reads and checks parts in a folder whose name has the separator of lists of folders.
func TestFolderWithListSeparatorHasParts(t *testing.T) {
	_, _, data := bundled(t)
	folder := filepath.Join(t.TempDir(), "disk"+string(os.PathListSeparator)+"1")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	o := parts.Options{Archive: open(t, data).Digest, Limit: int64(len(data))}
	if _, err := parts.Write(t.Context(), folder, "x", bytes.NewReader(data), int64(len(data)), o); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	report, err := bundle.CheckParts(t.Context(), folder)
	if err != nil || !report.Repairable || report.Archive != o.Archive {
		t.Errorf("%+v, %v", report, err)
	}
}
