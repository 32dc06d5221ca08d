package node

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestMissingPartsArePromptedFor has parts on two disks, and a person who names the second one.
func TestMissingPartsArePromptedFor(t *testing.T) {
	layer := make([]byte, 300<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(layer)
	dir := bundle.AddOnDir("app", "1.0") + "/"
	var out bytes.Buffer
	x, err := bundle.WritePackage(t.Context(), &out, bundle.Package{Name: "app", Version: "1.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(dir+"Manifest", 0o644, nil), bundle.BytesFile(dir+"layer.tgz", 0o644, layer),
	}}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(x.Entries) != 2 {
		t.Fatal(err)
	}
	first, second := t.TempDir(), t.TempDir()
	if _, err := parts.Write(t.Context(), first, "x", bytes.NewReader(out.Bytes()), int64(out.Len()), parts.Options{Archive: archive.Digest, Limit: 200 << 10}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(first, parts.Name("x", 2)), filepath.Join(second, "y")); err != nil {
		t.Fatal(err)
	}

	var said bytes.Buffer
	a := commands{App: &app.App{In: fixture.Terminal(t, second+"\n"), Err: &said}}
	s := bundleSource{bundle: first}
	opened, err := s.open(t.Context(), a, t.TempDir())
	if err != nil {
		t.Fatalf("%v, after %s", err, &said)
	}
	if err := errors.Join(opened.Verify(t.Context()), opened.Close()); err != nil || opened.Digest != archive.Digest {
		t.Error(err)
	}
	if want := "part 2 is missing"; !strings.Contains(said.String(), want) || s.name() != first+":"+second {
		t.Errorf("%q is not in: %s", want, &said)
	}

	a.In = strings.NewReader("") // nobody is there
	alone := bundleSource{bundle: first}
	if _, err := alone.open(t.Context(), a, t.TempDir()); err == nil || !strings.Contains(err.Error(), "name all folders that have parts") {
		t.Error(err)
	}
}
