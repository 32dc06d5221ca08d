package server_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/server"
)

// TestLeanBundleIsServed asks for the bundle of a package with an image, plain and lean.
func TestLeanBundleIsServed(t *testing.T) {
	noise := make([]byte, 400_000)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(noise)
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(bytes.Repeat(noise, 4), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "app-1.0.tar.gz")
	imagepackage.WriteImage(t, name, "example.org/app:1", image, bundle.BytesFile("addons/app/1.0/Manifest", 0o644, nil), bundle.BytesFile("addons/app/1.0/install.sh", 0o755, nil))
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s := filled(t)
	put(t, s, "app-1.0.tar.gz", packed)
	spool := t.TempDir()
	front := serve(t, s, func(o *server.Options) { o.Lean = lean.NewSpool(spool) })
	url := front.URL + "/bundle/" + post(t, front.URL, installer("  app: {version: '1.0'}\n")) + ".tar.gz"
	get := func(url string) *bundle.Archive {
		t.Helper()
		got := ask(t, "GET", url, "")
		a, err := bundle.NewArchive(bytes.NewReader(got.body), int64(len(got.body)))
		if err != nil {
			t.Fatalf("%s: %s: %s", url, got.Status, got.body)
		}
		if got.Header.Get("Sealift-Index") != a.Digest {
			t.Errorf("%s: another index than the header says", url)
		}
		return a
	}
	plain, small := get(url), get(url+"?lean")
	if plain.Index.Format != bundle.Format || small.Index.Format != bundle.FormatLean {
		t.Errorf("formats %s and %s", plain.Index.Format, small.Index.Format)
	}
	if err := errors.Join(small.Verify(t.Context()), small.VerifyLayers(t.Context())); err != nil {
		t.Error(err)
	}
	if again := get(url + "?lean=true"); again.Digest != small.Digest {
		t.Error("a second request has another bundle")
	}
	if other := get(url + "?lean=false"); other.Digest != plain.Digest {
		t.Error("?lean=false has another bundle than the plain one")
	}
	for _, since := range []*bundle.Archive{plain, small} { // both have the layer, in their forms
		part := get(url + "?lean&since=" + since.Digest)
		if err := part.WithBase(since); err != nil {
			t.Fatal(err)
		}
		if err := part.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		for _, e := range part.Index.Entries {
			if strings.Contains(e.Path, "/blobs/") && e.Encoding != bundle.InBase {
				t.Errorf("since %s: %s is sent again", since.Index.Format, e.Path)
			}
		}
	}
	if got := ask(t, "GET", url+"?lean=maybe", ""); got.StatusCode != http.StatusBadRequest {
		t.Errorf("?lean=maybe: %s", got.Status)
	}
	if made, err := filepath.Glob(filepath.Join(spool, "*.tar.gz")); err != nil || len(made) != 1 {
		t.Errorf("kept %q, %v", made, err)
	}

	without := serve(t, s, nil)
	if got := ask(t, "GET", without.URL+strings.TrimPrefix(url, front.URL)+"?lean", ""); got.StatusCode != http.StatusNotFound || !bytes.Contains(got.body, []byte("without lean")) {
		t.Errorf("a server without a folder for layers: %s: %s", got.Status, got.body)
	}
}

// TestBusyCompressionIsRetried lets clients know when to ask again.
func TestBusyCompressionIsRetried(t *testing.T) {
	if status, after := server.Answer(lean.ErrBusy); status != http.StatusServiceUnavailable || after != "5" {
		t.Errorf("status %d, Retry-After %q", status, after)
	}
}
