package lean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/spool"
	"github.com/sealift/sealift/internal/compression"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/transfer"
)

// smallest is the size from which a layer is compressed again, in bytes. A sandbox image is smaller: it is also exported from
// packages, in the form that its manifest names.
const smallest = 1 << 20

// compressed describes the lean form of a layer in the spool.
type compressed struct {
	bundle.Blob
	Layer bundle.Layer `json:"layer"`
}

// Digest implements spool.Description.
func (c compressed) Digest() string { return c.SHA256 }

// compressor compresses layers again.
type compressor struct {
	spool   string
	encoder *bundle.LayerEncoder // nil before the first layer that the spool lacks
}

// lean returns the lean form of a layer, or nil if it is not smaller than the layer. The spool keeps the form.
func (c *compressor) lean(ctx context.Context, l layer) (*bundle.File, error) {
	if l.file.Size < smallest {
		return nil, nil
	}
	name := filepath.Join(c.spool, l.file.SHA256+form)
	made, err := spool.Read[compressed](name)
	if err != nil {
		if made, err = c.compress(ctx, l, name); err != nil {
			return nil, err
		}
	}
	if made.Layer.DiffID != l.diffID {
		return nil, fmt.Errorf("it unpacks to sha256 %s, and its image's configuration has %s; the image cannot be loaded", made.Layer.DiffID, l.diffID)
	}
	if made.Size >= l.file.Size {
		return nil, nil
	}
	made.Layer.Blob = l.file.SHA256
	return &bundle.File{
		Path: path.Join(path.Dir(l.file.Path), made.SHA256), Mode: l.file.Mode, Size: made.Size, SHA256: made.SHA256, Checked: true, Layer: &made.Layer,
		Open: func() (io.ReadCloser, error) { return os.Open(name) },
	}, nil
}

// compress writes the form of a layer and its description into the spool.
func (c *compressor) compress(ctx context.Context, l layer, name string) (made compressed, err error) {
	if c.encoder == nil {
		if c.encoder, err = bundle.NewLayerEncoder(); err != nil {
			return made, err
		}
	}
	return spool.Write(name, func(w *os.File) (made compressed, err error) {
		err = c.write(ctx, l, w, &made)
		return made, err
	})
}

func (c *compressor) write(ctx context.Context, l layer, w io.Writer, made *compressed) (err error) {
	file, err := l.file.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var original, sum sha256hex.Sum
	unpacked, err := compression.NewReader(io.TeeReader(transfer.ContextReader(ctx, file), &original), bundle.MaxLayerWindow)
	if err != nil {
		return err
	}
	defer unpacked.Close()
	if made.Layer, err = c.encoder.Encode(io.MultiWriter(w, &sum), unpacked); err != nil {
		return err
	}
	if got := original.Digest(); got != l.file.SHA256 {
		return &bundle.DigestError{Path: l.file.Path, Got: got, Want: l.file.SHA256}
	}
	made.Blob = bundle.Blob{SHA256: sum.Digest(), Size: sum.Size()}
	return nil
}
