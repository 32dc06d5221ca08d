package snapshot

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
)

// Content is a snapshot that was verified to its last byte. The host's files are in memory, and etcd's database is in a file
// without a name, which is gone when the process ends.
type Content struct {
	Index
	Etcd *os.File

	files map[string]*bytes.Buffer
}

// Load verifies a whole snapshot and returns its content. Close it.
func Load(r io.Reader, keys ...age.Identity) (_ *Content, err error) {
	archive, rest, err := unpack(r, keys)
	if err != nil {
		return nil, err
	}
	c := &Content{files: map[string]*bytes.Buffer{}}
	if c.Etcd, err = nameless(); err != nil {
		return nil, err
	}
	c.Index, err = verifyAll(archive, rest, func(name string, _ fs.FileMode) (io.WriteCloser, error) {
		if name == etcdName {
			w, err := spare(c.Etcd, "")
			return nowhere{w}, err
		}
		c.files[name] = &bytes.Buffer{}
		return nowhere{c.files[name]}, nil
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// File returns the content of a file by its name in the index.
func (c *Content) File(name string) (content []byte, ok bool) {
	b, ok := c.files[name]
	if !ok {
		return nil, false
	}
	return b.Bytes(), true
}

// Encryption returns the file with the keys with which the API server of the snapshot encrypted Secrets, and its name in the index.
// ok says whether there is one.
func (c *Content) Encryption() (name string, content []byte, ok bool) {
	manifest, _ := c.File(strings.TrimPrefix(cluster.APIServerManifest, "/"))
	if name = EncryptionFile(manifest); name == "" {
		return "", nil, false
	}
	content, ok = c.File(name)
	return name, content, ok
}

// EncryptionFile returns the name, as in an index, of the file with keys that the manifest of an API server names; "" if it names none.
func EncryptionFile(manifest []byte) string {
	found := encryptionFlag.FindSubmatch(manifest)
	if found == nil {
		return ""
	}
	return strings.TrimPrefix(string(found[1]), "/")
}

// Close gives up the database.
func (c *Content) Close() error { return c.Etcd.Close() }

// nameless creates a file on a disk that is gone when this process ends, however that comes.
func nameless() (*os.File, error) { return files.Nameless(stagingDir) }
