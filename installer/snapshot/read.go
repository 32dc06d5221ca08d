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

// ErrWrongKey says that a snapshot was encrypted to another key or passphrase.
var ErrWrongKey = errors.New("wrong key or passphrase")

// ReadIndex reads the index of an encrypted snapshot and not its content. Use Verify before you rely on the content.
func ReadIndex(r io.Reader, keys ...age.Identity) (Index, error) {
	archive, _, err := unpack(r, keys)
	if err != nil {
		return Index{}, err
	}
	return readIndex(archive)
}

// Verify reads a whole snapshot: it decrypts every byte, and compares the files and etcd's database with their digests.
func Verify(r io.Reader, keys ...age.Identity) (Index, error) {
	archive, rest, err := unpack(r, keys)
	if err != nil {
		return Index{}, err
	}
	return verifyAll(archive, rest, discard)
}

// verifyAll reads an archive to its end. Each entry goes to a writer that create makes for it, too.
func verifyAll(archive *tar.Reader, rest io.Reader, create func(name string, mode fs.FileMode) (io.WriteCloser, error)) (Index, error) {
	index, err := verify(archive, create)
	if err != nil {
		return Index{}, err
	}
	if _, err := io.Copy(io.Discard, rest); err != nil { // age authenticates the end, too
		return Index{}, damaged(err)
	}
	return index, nil
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

func discard(string, fs.FileMode) (io.WriteCloser, error) { return nowhere{io.Discard}, nil }

// Unpack verifies a whole snapshot, and writes its files and etcd's database below a folder that does not exist yet. The folder
// appears when everything in it is verified and on the disk. Only its owner can enter it.
func Unpack(r io.Reader, dir string, keys ...age.Identity) (index Index, err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return Index{}, errors.Join(fmt.Errorf("%s exists; name a folder that does not", dir), err)
	}
	archive, rest, err := unpack(r, keys)
	if err != nil {
		return Index{}, err
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
	index, err = verifyAll(archive, rest, func(name string, mode fs.FileMode) (io.WriteCloser, error) {
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
func unpack(r io.Reader, keys []age.Identity) (archive *tar.Reader, rest io.Reader, err error) {
	decrypted, err := age.Decrypt(r, keys...)
	var noMatch *age.NoIdentityMatchError
	if errors.As(err, &noMatch) {
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

func readIndex(archive *tar.Reader) (index Index, err error) {
	header, err := archive.Next()
	if err != nil {
		return Index{}, damaged(err)
	}
	if header.Name != indexName || header.Size > maxIndex {
		return Index{}, damaged(fmt.Errorf("it begins with %q", header.Name))
	}
	if err := json.NewDecoder(archive).Decode(&index); err != nil {
		return Index{}, damaged(err)
	}
	return index, index.check()
}

func verify(archive *tar.Reader, create func(name string, mode fs.FileMode) (io.WriteCloser, error)) (Index, error) {
	index, err := readIndex(archive)
	if err != nil {
		return Index{}, err
	}
	for _, f := range index.Files {
		sum := sha256.New()
		if err := copyEntry(archive, f.Name, f.Size, f.Mode, sum, create); err != nil {
			return Index{}, err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
			return Index{}, damaged(fmt.Errorf("/%s has sha256 %s, and the index says %s", f.Name, got, f.SHA256))
		}
	}
	var check cluster.EtcdCheck
	if err := copyEntry(archive, etcdName, index.Etcd.Size, 0o600, &check, create); err != nil {
		return Index{}, err
	}
	if err := check.Err(); err != nil {
		return Index{}, damaged(err)
	}
	for n := range index.Volumes {
		if err := readVolume(archive, &index.Volumes[n], create); err != nil {
			return Index{}, err
		}
	}
	if header, err := archive.Next(); !errors.Is(err, io.EOF) {
		return Index{}, damaged(errors.Join(err, fmt.Errorf("something follows its last entry: %v", header)))
	}
	return index, nil
}

// copyEntry copies the next entry, which must be the named one, to a check and to a writer of its own.
func copyEntry(archive *tar.Reader, name string, size int64, mode fs.FileMode, check io.Writer, create func(string, fs.FileMode) (io.WriteCloser, error)) error {
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

// source tells the errors of a reader from those of the writer that its content is copied to.
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
func nextEntry(archive *tar.Reader, name string, size int64) error {
	header, err := archive.Next()
	if err != nil {
		return damaged(err)
	}
	if header.Name != name || header.Size != size || header.Typeflag != tar.TypeReg {
		return damaged(fmt.Errorf("%s of %d bytes stands where the index has %s of %d", header.Name, header.Size, name, size))
	}
	return nil
}
