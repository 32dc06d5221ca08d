package delta

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/patch"
	"github.com/sealift/sealift/bundle/spool"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/compression"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/transfer"
)

// content is a file of an archive. A layer is patched unpacked.
type content struct {
	open  func() (io.ReadCloser, error)
	entry bundle.Entry
	plain bundle.Blob // what is patched; the size of a layer may be 0, which means unknown
	layer string      // sha256 of the layer that a manifest names; "" for another file
}

// file returns a file of an archive that is not a layer.
func file(a *bundle.Archive, e bundle.Entry) content {
	return content{open: opener(a, e), entry: e, plain: bundle.Blob{SHA256: e.SHA256, Size: e.Size}}
}

func opener(a *bundle.Archive, e bundle.Entry) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return a.OpenEntry(e.Path) }
}

// spooled is a patch in the spool.
type spooled struct {
	made
	name string // of the file
}

// made describes a patch in the spool.
type made struct {
	bundle.Blob
	From   bundle.Blob `json:"from"`
	Result bundle.Blob `json:"result"`
}

// Digest implements spool.Description.
func (m made) Digest() string { return m.SHA256 }

// between reports whether a patch in the spool is that of two contents. The bundle takes the digest of the result from the patch.
func (m made) between(old, now content) bool {
	is := func(got, want bundle.Blob) bool {
		return got.SHA256 == want.SHA256 && (want.Size == 0 || got.Size == want.Size)
	}
	return is(m.From, old.plain) && is(m.Result, now.plain)
}

// spooled returns a patch. It is made if the spool lacks it.
func (m *maker) spooled(ctx context.Context, old, now content) (spooled, error) {
	name := m.spoolName(old, now)
	if known, err := spool.Read[made](name); err == nil && known.between(old, now) {
		used(name)
		return spooled{known, name}, nil
	}
	if !m.spool.making.TryLock() {
		return spooled{}, ErrBusy
	}
	defer m.spool.making.Unlock()
	from, fromSize, err := m.mapped(ctx, old)
	if err != nil {
		return spooled{}, err
	}
	defer func() { _ = unmap(from) }()
	result, resultSize, err := m.mapped(ctx, now)
	if err != nil {
		return spooled{}, err
	}
	defer func() { _ = unmap(result) }()
	d, err := spool.Write(name, func(w *os.File) (made, error) {
		var sum sha256hex.Sum
		if err := patch.Make(ctx, io.MultiWriter(w, &sum), from, result); err != nil {
			return made{}, err
		}
		d := made{
			Blob: bundle.Blob{SHA256: sum.Digest(), Size: sum.Size()},
			From: bundle.Blob{SHA256: old.plain.SHA256, Size: fromSize}, Result: bundle.Blob{SHA256: now.plain.SHA256, Size: resultSize},
		}
		return d, checkPatch(io.NewSectionReader(w, 0, d.Size), from, d.Result)
	})
	return spooled{d, name}, err
}

// checkPatch applies a new patch once, and compares the result. Assembling a bundle then only copies it.
func checkPatch(made io.Reader, from []byte, result bundle.Blob) error {
	r, err := patch.NewReader(made, bytes.NewReader(from), int64(len(from)), result.Size)
	if err != nil {
		return err
	}
	defer r.Close()
	got, size, err := sha256hex.Read(r)
	if err == nil && (got != result.SHA256 || size != result.Size) {
		err = errors.New("the patch makes another file than it was made of")
	}
	return err
}

// mapped unpacks a content into a file without a name, compares it with its digest, and maps it: so it takes memory only as long as there is
// some.
func (m *maker) mapped(ctx context.Context, c content) (data []byte, size int64, err error) {
	if err := os.MkdirAll(m.spool.dir, 0o755); err != nil {
		return nil, 0, err
	}
	f, err := atomicfile.Nameless(m.spool.dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err = c.unpack(ctx, f); err != nil || size == 0 {
		return nil, 0, err
	}
	data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	return data, size, err
}

func unmap(data []byte) error {
	if data == nil {
		return nil
	}
	return unix.Munmap(data)
}

// unpack writes the unpacked content, to which the patch applies.
func (c content) unpack(ctx context.Context, w io.Writer) (n int64, err error) {
	file, err := c.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	plain := io.NopCloser(transfer.ContextReader(ctx, file))
	if c.layer != "" {
		if plain, err = compression.NewReader(plain, bundle.MaxLayerWindow); err != nil {
			return 0, err
		}
		defer plain.Close()
	}
	var sum sha256hex.Sum
	n, err = io.Copy(io.MultiWriter(w, &sum), io.LimitReader(plain, largest+1))
	if n > largest || errors.Is(err, compression.ErrWindow) {
		return n, errTooLarge
	}
	if err != nil {
		return n, err
	}
	if got := sum.Digest(); got != c.plain.SHA256 {
		return n, fmt.Errorf("it unpacks to sha256 %s, and its image's configuration has %s; the image cannot be loaded", got, c.plain.SHA256)
	}
	return n, nil
}

// errTooLarge reports a layer that is larger than its compressed form shows, or takes too much memory to unpack.
var errTooLarge = fmt.Errorf("unpacks to more than %d bytes, or with a window of more than %d", int64(largest), int64(bundle.MaxLayerWindow))
