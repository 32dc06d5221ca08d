package bundle_test

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/sealift/sealift/bundle"
)

func TestArchiveFSListsFolders(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	p := bundle.Package{Name: "web", Version: "1", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile("addons/web/1/hooks/sub/a.sh", 0o755, []byte("#!/bin/sh\n")), bundle.BytesFile("addons/web/1/Manifest", 0o644, nil),
	}}
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"addons/web/1/hooks": fs.ModeDir | 0o755, "addons/web/1/hooks/sub": fs.ModeDir | 0o755, "addons/web/1/hooks/sub/a.sh": 0o755} {
		info, err := fs.Stat(a.FS(), name)
		if err != nil || info.Mode() != want || info.IsDir() != want.IsDir() {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"addons/web/1/hook", "addons/web/1/hooks/", "addons/web/1/templates", "../addons"} {
		if _, err := fs.Stat(a.FS(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
