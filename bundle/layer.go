package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Zstd is the compression of lean layers: one or more zstd frames (RFC 8878). A layer that a patch makes has none.
const Zstd = "zstd"

const (
	// LayerWindow is the window with which a LayerEncoder compresses, in bytes. 32 MiB would make the layers of Kubernetes 1 % smaller, and
	// takes four times the memory on a node.
	LayerWindow = 8 << 20
	// MaxLayerWindow is the largest window that a reader accepts, in bytes. containerd takes at least twice the window for each layer
	// that it unpacks.
	MaxLayerWindow = 32 << 20
)

// Layer describes the content of an entry that is a lean layer: a layer of an image, unpacked and compressed again. The entry's
// own size and digest are those of the compressed bytes, and its path ends with blobs/sha256/ and that digest.
type Layer struct {
	Blob        string `json:"blob"`        // sha256 of the layer as the image's manifest names it
	DiffID      string `json:"diffID"`      // sha256 of the unpacked layer, a tar; the image's configuration has it too
	Size        int64  `json:"size"`        // bytes of the unpacked layer
	Compression string `json:"compression"` // Zstd, or "" for the plain tar
	Window      int64  `json:"window"`      // most bytes of history that unpacking needs
}

// validateLayer checks the description of a lean layer.
func (e *Entry) validateLayer() error {
	l := e.Layer
	plain := l.Compression == "" && l.Size == e.Size && l.DiffID == e.SHA256 && l.Window == 0
	switch {
	case e.Encoding == Deflate:
		return errors.New("is a lean layer, but deflated")
	case !validDigest(l.Blob) || !validDigest(l.DiffID):
		return errors.New("is a lean layer without the digests of the layer")
	case l.Compression != Zstd && !plain:
		return fmt.Errorf("is a lean layer with the unknown compression %q, or without one and not the plain tar", l.Compression)
	case !plain && (l.Size < 0 || l.Window <= 0 || l.Window > MaxLayerWindow):
		return fmt.Errorf("is a lean layer with an impossible size %d or window %d", l.Size, l.Window)
	case path.Base(e.Path) != e.SHA256 || !strings.HasSuffix(path.Dir(e.Path), "blobs/sha256"):
		return errors.New("is a lean layer, and not named after its digest in a folder blobs/sha256")
	}
	return nil
}

// format returns the format of an archive with these entries: older programs refuse only what they cannot read.
func format(entries []Entry) string {
	needed := Format
	for _, e := range entries {
		switch {
		case e.Within():
			return FormatWithin
		case e.Encoding == Patched || e.Layer != nil && e.Layer.Compression == "":
			needed = FormatPatch
		case e.Layer != nil && needed == Format:
			needed = FormatLean
		}
	}
	return needed
}

// older reports whether a format is older than what an entry is.
func (e *Entry) older(format string) bool {
	if e.Within() {
		return format != FormatWithin
	}
	return (e.Encoding == Patched || e.Layer != nil && e.Layer.Compression == "") && format != FormatPatch && format != FormatWithin
}

// LayerEncoder makes lean layers, one after the other. It takes about 60 MiB.
type LayerEncoder struct{ zstd *zstd.Encoder }

// NewLayerEncoder returns an encoder. It holds no more than memory.
func NewLayerEncoder() (*LayerEncoder, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(LayerWindow), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
	return &LayerEncoder{z}, err
}

// Encode reads an unpacked layer, writes it in its lean form, and describes it. Layer.Blob is left to the caller. The same bytes
// yield the same form.
func (l *LayerEncoder) Encode(w io.Writer, unpacked io.Reader) (Layer, error) {
	l.zstd.Reset(w)
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(l.zstd, sum), unpacked)
	if err = errors.Join(err, l.zstd.Close()); err != nil {
		return Layer{}, err
	}
	return Layer{DiffID: hex.EncodeToString(sum.Sum(nil)), Size: size, Compression: Zstd, Window: LayerWindow}, nil
}

// OpenLayer opens a lean layer unpacked, as a tar. The reader verifies both forms: at the end it returns a DigestError instead of
// io.EOF if the compressed bytes are not those of the index, or unpack to another layer. OpenEntry opens the compressed form.
func (a *Archive) OpenLayer(name string) (io.ReadCloser, error) {
	e, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the archive", name, fs.ErrNotExist)
	}
	if e.Layer == nil {
		return nil, fmt.Errorf("%s: is not a lean layer", name)
	}
	packed, err := a.OpenEntry(name)
	if err != nil || e.Layer.Compression == "" {
		return packed, err
	}
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(e.Layer.Window)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), packed.Close())
	}
	return &layerReader{entry: e, packed: packed, zstd: z, sum: sha256.New()}, nil
}

// layerReader unpacks a lean layer and verifies it.
type layerReader struct {
	entry  Entry
	packed io.ReadCloser
	zstd   *zstd.Decoder
	sum    hash.Hash
	n      int64
	err    error
}

// Read implements io.Reader.
func (l *layerReader) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.zstd.Read(p)
	l.sum.Write(p[:n])
	l.n += int64(n)
	switch {
	case l.n > l.entry.Layer.Size:
		l.err = fmt.Errorf("%s: unpacks to more than %d bytes", l.entry.Path, l.entry.Layer.Size)
	case errors.Is(err, io.EOF):
		l.err = l.verdict()
	case err != nil:
		l.err = fmt.Errorf("%s: %w", l.entry.Path, err)
	}
	return n, l.err
}

func (l *layerReader) verdict() error {
	if _, err := io.Copy(io.Discard, l.packed); err != nil { // its own verdict comes at its end
		return err
	}
	if l.n < l.entry.Layer.Size {
		return fmt.Errorf("%s: unpacks to %d of %d bytes: %w", l.entry.Path, l.n, l.entry.Layer.Size, io.ErrUnexpectedEOF)
	}
	if got := hex.EncodeToString(l.sum.Sum(nil)); got != l.entry.Layer.DiffID {
		return &DigestError{Path: l.entry.Path + ", unpacked", Got: got, Want: l.entry.Layer.DiffID}
	}
	return io.EOF
}

// Close implements io.Closer.
func (l *layerReader) Close() error {
	l.zstd.Close()
	return l.packed.Close()
}

// VerifyLayers unpacks every lean layer and compares it with the index. Verify compares the compressed forms.
func (a *Archive) VerifyLayers(ctx context.Context) error {
	var errs []error
	for _, e := range a.Index.Entries {
		if e.Layer == nil || e.Layer.Compression == "" || e.Encoding == Link || a.leavesOut(e) && a.base == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := a.OpenLayer(e.Path)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// LeanLayers returns the sha256 of the lean layers of a package, by the sha256 of the layers as the manifests name them.
func (x Index) LeanLayers(p PackageInfo) map[string]string {
	layers := make(map[string]string)
	for _, e := range x.Entries {
		if e.Layer != nil && strings.HasPrefix(e.Path, p.Dir()+"/") {
			layers[e.Layer.Blob] = e.SHA256
		}
	}
	return layers
}

// leanLayers returns the lean layers of an archive, by the paths that the layers themselves would have.
func leanLayers(x Index) map[string]Entry {
	layers := make(map[string]Entry)
	for _, e := range x.Entries {
		if e.Layer != nil {
			layers[path.Join(path.Dir(e.Path), e.Layer.Blob)] = e
		}
	}
	return layers
}

// LeanLayer returns the entry that is the lean form of a layer, by the path that the layer itself would have in the archive.
func (a *Archive) LeanLayer(name string) (Entry, bool) {
	e, ok := a.lean[name]
	return e, ok
}
