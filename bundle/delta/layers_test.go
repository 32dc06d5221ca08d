package delta_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/internal/sha256hex"
)

// packed is a layer in a form that is not unpacked to make a patch.
type packed struct {
	v1.Layer
	diff v1.Hash
}

// DiffID implements v1.Layer.
func (p packed) DiffID() (v1.Hash, error) { return p.diff, nil }

func TestLayersThatCannotBeUnpackedAreCarried(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	noise := func(version uint64) []byte {
		data := make([]byte, 1<<20+1<<16) // more than the smallest file that is compared with others
		_, _ = rand.NewChaCha8([32]byte{byte(version)}).Read(data)
		return data
	}
	encrypted := func(version uint64) v1.Layer {
		return packed{static.NewLayer(noise(version), types.OCILayer+"+encrypted"), v1.Hash{Algorithm: "sha256", Hex: sha256hex.Of("the key decides")}}
	}
	wide := func(version uint64) v1.Layer {
		var buf bytes.Buffer
		z, err := zstd.NewWriter(&buf, zstd.WithWindowSize(2*bundle.MaxLayerWindow))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(noise(version)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return packed{static.NewLayer(buf.Bytes(), types.OCILayerZStd), v1.Hash{Algorithm: "sha256", Hex: sha256hex.Of(noise(version))}}
	}
	for name, layer := range map[string]func(uint64) v1.Layer{"encrypted": encrypted, "with a large window": wide} {
		t.Run(name, func(t *testing.T) {
			programs := map[string][]byte{"program": program(1, 0, 100_000)}
			first, second := packageWith(t, 0, layer(0), programs), packageWith(t, 1, layer(1), programs)
			old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
			equalsWhole(t, withBase(t, update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}}), old), second)
			equalsWhole(t, opened(t, within(t, delta.NewSpool(t.TempDir()), bundle.Bundle{Packages: []*bundle.Archive{second}})), second)
		})
	}
}
