package builder_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/builder"
)

func TestSourcesWithAPlaceOutsideAreRefused(t *testing.T) {
	for _, header := range []tar.Header{
		{Name: "../evil", Mode: 0o644, Typeflag: tar.TypeReg}, {Name: "/etc/evil", Mode: 0o644, Typeflag: tar.TypeReg}, {Name: "a/../../evil", Mode: 0o644, Typeflag: tar.TypeReg},
		{Name: "link", Mode: 0o644, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "setuid", Mode: 0o4755, Typeflag: tar.TypeReg}, {Name: "device", Mode: 0o644, Typeflag: tar.TypeChar},
	} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		archive := tar.NewWriter(zip)
		if err := errors.Join(archive.WriteHeader(&header), archive.Close(), zip.Close()); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "sources")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := builder.UnpackSources(&packed, dir); err == nil {
			t.Errorf("%s was unpacked", header.Name)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "..", "evil")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", header.Name, left, err)
		}
	}
}
