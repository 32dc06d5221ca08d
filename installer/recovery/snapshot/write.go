package snapshot

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/internal/regularfile"
)

// write encrypts the snapshot.
func (o *opened) write(ctx context.Context, f *os.File, to []age.Recipient) error {
	w, err := spare(f, o.source.Rootfs)
	if err != nil {
		return err
	}
	encrypted, err := age.Encrypt(w, to...)
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	packed, err := gzip.NewWriterLevel(encrypted, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := o.writeTar(ctx, packed); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return encrypted.Close()
}

func (o *opened) writeTar(ctx context.Context, w io.Writer) error {
	archive := writer{tar.NewWriter(w), o.index.Time, newSummary()}
	err := o.writeIndex(archive)
	for _, f := range o.index.Files {
		if err == nil {
			err = o.writeFile(archive, f)
		}
	}
	if err == nil {
		err = archive.entry(etcdName, 0o600, o.index.Etcd.Size)
	}
	if err == nil {
		_, err = io.Copy(archive, o.etcd)
	}
	if err == nil {
		err = o.writeVolumes(ctx, archive)
	}
	if err == nil {
		_, err = o.writeSeal(archive, sealName)
	}
	if err != nil {
		return err
	}
	return archive.Close()
}

func (o *opened) writeIndex(to writer) error {
	text, err := json.MarshalIndent(o.index, "", "  ")
	if err != nil {
		return err
	}
	if len(text) > maxIndex {
		return fmt.Errorf("its index would have %d bytes, more than %d: %d files and %d volumes were left out", len(text), maxIndex, len(o.index.LeftOut), len(o.index.VolumesLeftOut))
	}
	if err := to.file(indexName, text); err != nil {
		return err
	}
	digest := to.sum.Sum(nil)
	signed, err := o.writeSeal(to, headSealName)
	if err != nil {
		return err
	}
	// a clock that is wrong by years makes an unverifiable signature
	return Trust{Clusters: []string{o.index.Cluster}}.check(o.index, signed, digest)
}

// writeSeal signs all entries so far.
func (o *opened) writeSeal(to writer, name string) (seal, error) {
	signed, err := o.signer.seal(to.sum)
	if err != nil {
		return seal{}, err
	}
	text, err := json.Marshal(signed)
	if err != nil {
		return seal{}, err
	}
	return signed, to.file(name, text)
}

// writeFile copies a file of the host, which must still match the index.
func (o *opened) writeFile(to writer, f File) error {
	from, err := regularfile.Open(o.source.path(f.Name))
	if err != nil {
		return err
	}
	defer from.Close()
	if err := to.entry(f.Name, f.Mode, f.Size); err != nil {
		return err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, f.Size))
	if err != nil {
		return err
	}
	if size != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("/%s changed while it was saved; save again", f.Name)
	}
	return nil
}

// writer writes entries that have the time of the snapshot, and sums them up.
type writer struct {
	archive *tar.Writer
	time    time.Time
	sum     summary
}

func (w writer) entry(name string, mode fs.FileMode, size int64) error {
	w.sum.begin(name, size)
	return w.archive.WriteHeader(&tar.Header{Name: name, Mode: int64(mode), Size: size, ModTime: w.time, Format: tar.FormatPAX})
}

func (w writer) Write(p []byte) (int, error) {
	n, err := w.archive.Write(p)
	w.sum.Write(p[:n])
	return n, err
}

func (w writer) file(name string, content []byte) error {
	if err := w.entry(name, 0o600, int64(len(content))); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func (w writer) Close() error { return w.archive.Close() }
