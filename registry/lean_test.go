package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/registry"
)

// TestLeanLayersAreRefused uses a package with a layer that was compressed again: no registry takes it under its manifest's digest.
func TestLeanLayersAreRefused(t *testing.T) {
	own := layer(t, 1)
	whole := content(t, map[string]v1.ImageIndex{"registry.k8s.io/app:v1": index(platformImage(t, "amd64", own))})
	digest, err := own.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for want, replaced := range map[string]bool{"made without these flags": true, "the archive lacks " + digest.String(): false} {
		p := bundle.Package{Name: "app", Version: "1.0", Platforms: whole.Index.Platforms, Contents: bundle.Contents{Images: whole.Index.Packages[0].Images}}
		for _, e := range whole.Index.Entries {
			if path.Base(e.Path) == digest.Hex {
				continue
			}
			data, err := whole.ReadFile(e.Path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			p.Files = append(p.Files, bundle.BytesFile(e.Path, 0o644, data))
		}
		if replaced {
			data := []byte("zstd")
			sum := sha256.Sum256(data)
			lean := bundle.BytesFile(bundle.AddOnDir("app", "1.0")+"/images/blobs/sha256/"+hex.EncodeToString(sum[:]), 0o644, data)
			lean.Layer = &bundle.Layer{Blob: digest.Hex, DiffID: digest.Hex, Size: 1, Compression: bundle.Zstd, Window: 1 << 20}
			p.Files = append(p.Files, lean)
		}
		var out bytes.Buffer
		if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		a, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := registry.Prepare(t.Context(), a, options(t, "127.0.0.1:1")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
