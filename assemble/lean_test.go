package assemble_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/store"
)

// imageFiles are the files of a package with an image of one layer.
func imageFiles(t *testing.T) map[string]string {
	t.Helper()
	noise := make([]byte, 400_000)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(noise)
	unpacked := bytes.Repeat(noise, 4)
	var layer bytes.Buffer
	z := gzip.NewWriter(&layer)
	if _, err := z.Write(unpacked); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [thing]\n", "images/oci-layout": `{"imageLayoutVersion":"1.0.0"}`}
	add := func(mediaType, content string) string {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		files["images/blobs/sha256/"+sum] = content
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d}`, mediaType, sum, len(content))
	}
	config := add("config.v1+json", fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256(unpacked)))
	manifest := add("manifest.v1+json", fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[%s]}`, config, add("layer.v1.tar+gzip", layer.String())))
	named := strings.TrimSuffix(manifest, "}") + `,"annotations":{"org.opencontainers.image.ref.name":"example.org/app:1"}}`
	files["images/index.json"] = fmt.Sprintf(`{"schemaVersion":2,"manifests":[%s]}`, named)
	return files
}

func TestLeanBundleIsSmallerAndTheSameAgain(t *testing.T) {
	r := request(t, both)
	dir := t.TempDir()
	publish(t, dir, "base", "1.0", platform, imageFiles(t))
	publish(t, dir, "user", "2.0", platform, map[string]string{"Manifest": "", "install.sh": ""})
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Packages = packages.Source{Store: s}
	plain := assembled(t, r)
	spool := t.TempDir()
	r.Lean = lean.NewSpool(spool)
	made := assembled(t, r)
	if len(made) >= len(plain)/2 {
		t.Errorf("lean bundle has %d bytes, the plain one %d", len(made), len(plain))
	}
	if !bytes.Equal(made, assembled(t, r)) {
		t.Error("the same request gave other bytes")
	}
	forms, err := filepath.Glob(filepath.Join(spool, "*.tar.gz"))
	if err != nil || len(forms) != 2 {
		t.Fatalf("kept %v, %v", forms, err)
	}
	for _, form := range forms { // a damaged one is made again
		if err := os.Truncate(form, 100); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(made, assembled(t, r)) {
		t.Error("a damaged spool gave other bytes")
	}
	a, err := bundle.NewArchive(bytes.NewReader(made), int64(len(made)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Verify(t.Context()), a.VerifyLayers(t.Context())); err != nil || a.Index.Format != bundle.FormatLean || !strings.HasSuffix(a.Index.Format, "v2") {
		t.Errorf("%s, %v", a.Index.Format, err)
	}
}

// TestReaderOutlivesItsPlan reads a lean bundle whose plan was evicted from a cache.
func TestReaderOutlivesItsPlan(t *testing.T) {
	r := request(t, both)
	dir := t.TempDir()
	publish(t, dir, "base", "1.0", platform, imageFiles(t))
	publish(t, dir, "user", "2.0", platform, map[string]string{"Manifest": "", "install.sh": ""})
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Packages, r.Lean = packages.Source{Store: s}, lean.NewSpool(t.TempDir())
	plan, err := assemble.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := plan.Open(t.Context())
	if err := errors.Join(err, plan.Close()); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(reader, plan.Size())
	if err != nil || a.Index.Format != bundle.FormatLean {
		t.Fatal(err)
	}
	if err := errors.Join(a.Verify(t.Context()), reader.Close()); err != nil {
		t.Error(err)
	}
	if a.Verify(t.Context()) == nil {
		t.Error("the closed reader still has its lean layers open")
	}
	if _, err := plan.Open(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a reader of a closed plan: %v", err)
	}
}
