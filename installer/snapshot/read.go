package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/installer/cluster"
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
	index, err := verify(archive)
	if err != nil {
		return Index{}, err
	}
	if _, err := io.Copy(io.Discard, rest); err != nil { // age authenticates the end, too
		return Index{}, damaged(err)
	}
	return index, nil
}

// unpack decrypts and decompresses. rest has what follows the archive.
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

func verify(archive *tar.Reader) (Index, error) {
	index, err := readIndex(archive)
	if err != nil {
		return Index{}, err
	}
	for _, f := range index.Files {
		if err := nextEntry(archive, f.Name, f.Size); err != nil {
			return Index{}, err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil {
			return Index{}, damaged(err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
			return Index{}, damaged(fmt.Errorf("/%s has sha256 %s, and the index says %s", f.Name, got, f.SHA256))
		}
	}
	if err := nextEntry(archive, etcdName, index.Etcd.Size); err != nil {
		return Index{}, err
	}
	var check cluster.EtcdCheck
	if _, err := io.Copy(&check, archive); err != nil {
		return Index{}, damaged(err)
	}
	if err := check.Err(); err != nil {
		return Index{}, damaged(err)
	}
	if header, err := archive.Next(); !errors.Is(err, io.EOF) {
		return Index{}, damaged(errors.Join(err, fmt.Errorf("something follows the database: %v", header)))
	}
	return index, nil
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
