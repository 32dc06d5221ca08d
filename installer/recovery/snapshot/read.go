package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
)

// ErrWrongKey means that a snapshot was encrypted to another key or passphrase.
var ErrWrongKey = errors.New("wrong key or passphrase")

// Reader reads snapshots of the clusters that it trusts.
type Reader struct {
	Keys  []age.Identity
	Trust Trust
	// Name is the snapshot's name in a store, which the index has to agree with. The zero value is that of a file with any name.
	Name Name

	verified *Index // which the snapshot has to have; nil for any
}

// Index reads the index of an encrypted snapshot and not its content. Use Verify before you rely on the content. If the error is
// ErrUntrusted, the index is the snapshot's claim.
func (r Reader) Index(from io.Reader) (Index, error) {
	archive, _, err := r.unpack(from)
	if err != nil {
		return Index{}, err
	}
	return r.readIndex(newEntries(archive))
}

// Verify reads a whole snapshot: it decrypts every byte, checks its signatures, and compares the files and etcd's database with their
// digests.
func (r Reader) Verify(from io.Reader) (Index, error) { return r.verifyAll(from, discard) }

// createFunc makes the writer of an entry.
type createFunc func(name string, mode fs.FileMode) (io.WriteCloser, error)

// verifyAll reads an archive to its end. Each entry is also copied to a writer that create returns for it.
func (r Reader) verifyAll(from io.Reader, create createFunc) (Index, error) {
	archive, rest, err := r.unpack(from)
	if err != nil {
		return Index{}, err
	}
	index, err := r.verify(archive, create)
	if err != nil {
		return Index{}, err
	}
	if _, err := io.Copy(io.Discard, rest); err != nil { // age also authenticates the end
		return Index{}, damaged(err)
	}
	return index, nil
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

func discard(string, fs.FileMode) (io.WriteCloser, error) { return nowhere{io.Discard}, nil }

// Unpack verifies a whole snapshot, and writes its files and etcd's database below a new folder. The folder appears when
// everything in it is verified and on the disk. Only its owner can enter it.
func (r Reader) Unpack(from io.Reader, dir string) (index Index, err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return Index{}, errors.Join(fmt.Errorf("%s exists; name a folder that does not", dir), err)
	}
	dir = filepath.Clean(dir)
	pattern := "." + filepath.Base(dir) + ".*"
	if err := files.Sweep(filepath.Dir(dir), pattern); err != nil {
		return Index{}, err
	}
	folder, err := files.TempFolder(filepath.Dir(dir), pattern)
	if err != nil {
		return Index{}, err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	root, err := files.OpenRoot(folder.Path)
	if err != nil {
		return Index{}, err
	}
	defer root.Close()
	index, err = r.verifyAll(from, func(name string, mode fs.FileMode) (io.WriteCloser, error) {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return nil, err
		}
		return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	})
	if err != nil {
		return Index{}, fmt.Errorf("unpack into %s: %w", dir, err)
	}
	if err := files.SyncAll(folder.Path); err != nil {
		return Index{}, err
	}
	if err := files.Rename(folder.Path, dir); err != nil {
		return Index{}, err
	}
	return index, files.SyncDir(filepath.Dir(dir))
}

// unpack decrypts and decompresses a snapshot. rest has what follows the archive.
func (r Reader) unpack(from io.Reader) (archive *tar.Reader, rest io.Reader, err error) {
	decrypted, err := age.Decrypt(from, r.Keys...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, nil, ErrWrongKey
	}
	if err != nil {
		return nil, nil, damaged(err)
	}
	unpacked, err := gzip.NewReader(decrypted)
	if err != nil {
		return nil, nil, damaged(err)
	}
	return tar.NewReader(unpacked), unpacked, nil
}

func damaged(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the snapshot is damaged or no snapshot at all: %w", err)
}

// readIndex reads the index, and checks its signature and its name.
func (r Reader) readIndex(archive *entries) (index Index, err error) {
	text, err := archive.small(indexName, maxIndex)
	if err != nil {
		return Index{}, err
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return Index{}, damaged(err)
	}
	if err := index.check(); err != nil {
		return Index{}, err
	}
	if is := index.name(); r.Name != (Name{}) && is.String() != r.Name.String() {
		return index, fmt.Errorf("%w: its name is %s, but its index has the name %s", ErrUntrusted, r.Name, is)
	}
	if index.Signed() {
		err = archive.sealed(headSealName, index, r.Trust)
	} else {
		err = r.Trust.unsigned(index)
	}
	index.summary = string(archive.sum.Sum(nil))
	return index, err
}

func (r Reader) verify(from *tar.Reader, create createFunc) (Index, error) {
	archive := newEntries(from)
	index, err := r.readIndex(archive)
	if err != nil {
		return Index{}, err
	}
	if r.verified != nil && r.verified.summary != index.summary {
		return Index{}, errExchanged
	}
	var keys keysCheck
	for _, f := range index.Files {
		sum := sha256.New()
		if err := copyEntry(archive, f.Name, f.Size, f.Mode, io.MultiWriter(sum, keys.of(f.Name)), create); err != nil {
			return Index{}, err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
			return Index{}, damaged(fmt.Errorf("/%s has sha256 %s, but the index says %s", f.Name, got, f.SHA256))
		}
	}
	if err := keys.check(index); err != nil {
		return Index{}, err
	}
	var check cluster.EtcdCheck
	if err := copyEntry(archive, etcdName, index.Etcd.Size, 0o600, &check, create); err != nil {
		return Index{}, err
	}
	if err := check.Err(); err != nil {
		return Index{}, damaged(err)
	}
	for n := range index.Volumes {
		var verified *Volume
		if r.verified != nil {
			verified = &r.verified.Volumes[n]
		}
		if err := readVolume(archive, &index.Volumes[n], verified, create); err != nil {
			return Index{}, err
		}
	}
	if index.Signed() {
		if err := archive.sealed(sealName, index, r.Trust); err != nil {
			return Index{}, err
		}
	}
	if header, err := archive.Next(); !errors.Is(err, io.EOF) {
		return Index{}, damaged(errors.Join(err, fmt.Errorf("unexpected data after its last entry: %v", header)))
	}
	return index, nil
}

// copyEntry copies the next entry, which must be the named one, to a check and to its writer.
func copyEntry(archive *entries, name string, size int64, mode fs.FileMode, check io.Writer, create createFunc) error {
	if err := nextEntry(archive, name, size); err != nil {
		return err
	}
	w, err := create(name, mode)
	if err != nil {
		return err
	}
	from := &source{Reader: archive}
	_, err = io.Copy(io.MultiWriter(check, w), from)
	if from.err != nil {
		return errors.Join(damaged(from.err), w.Close())
	}
	return errors.Join(err, w.Close())
}

// source distinguishes the errors of a reader from those of the writer that its content is copied to.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// nextEntry goes to the next entry, which must be the named one.
func nextEntry(archive *entries, name string, size int64) error {
	header, err := archive.Next()
	if err != nil {
		return damaged(err)
	}
	if header.Name != name || header.Size != size || header.Typeflag != tar.TypeReg {
		return damaged(fmt.Errorf("found %s of %d bytes, but the index has %s of %d", header.Name, header.Size, name, size))
	}
	return nil
}
