package snapshot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

// Content is a snapshot that was verified to its last byte. Its files and etcd's database are in files of the host without names, which
// are gone when the process ends.
type Content struct {
	Index
	Etcd *os.File

	content *os.File // of all files
	at      map[string]*io.SectionReader
}

// Load verifies a whole snapshot and returns its content. Close it.
func (r Reader) Load(from io.Reader) (_ *Content, err error) {
	c := &Content{at: map[string]*io.SectionReader{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.Etcd, err = nameless(); err != nil {
		return nil, err
	}
	if c.content, err = nameless(); err != nil {
		return nil, err
	}
	c.Index, err = r.verifyAll(from, func(name string, mode fs.FileMode) (io.WriteCloser, error) {
		switch {
		case name == etcdName:
			w, err := spare(c.Etcd, "")
			return nowhere{w}, err
		case strings.HasPrefix(name, volumesFolder):
			return discard(name, mode)
		}
		return nowhere{c.content}, nil
	})
	if err != nil {
		return nil, err
	}
	offset := int64(0)
	for _, f := range c.Files {
		c.at[f.Name] = io.NewSectionReader(c.content, offset, f.Size)
		offset += f.Size
	}
	return c, nil
}

// File returns the content of a file by its name in the index. It has at most 1 MiB. ok is false if the snapshot does not have it.
func (c *Content) File(name string) (content []byte, ok bool) {
	at, ok := c.at[name]
	if !ok {
		return nil, false
	}
	content = make([]byte, at.Size())
	n, _ := at.ReadAt(content, 0)
	return content, n == len(content)
}

// Encryption returns the file with the keys with which the API server of the snapshot encrypted Secrets, and its name in the index.
// ok reports whether there is one.
func (c *Content) Encryption() (name string, content []byte, ok bool) {
	manifest, _ := c.File(strings.TrimPrefix(kubeadm.APIServerManifest, "/"))
	if name = EncryptionFile(manifest); name == "" {
		return "", nil, false
	}
	content, ok = c.File(name)
	return name, content, ok
}

// encryptionFlag names the file with the keys for Secrets to an API server.
const encryptionFlag = "encryption-provider-config"

// EncryptionFile returns the name, as in an index, of the file with keys that the manifest of an API server names; "" if it names none.
func EncryptionFile(manifest []byte) string {
	pod, err := kubeadm.ParsePod(manifest)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(pod.Args().Value(encryptionFlag), "/")
}

// Close discards the content.
func (c *Content) Close() (err error) {
	for _, f := range []*os.File{c.Etcd, c.content} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// nameless creates a file on disk that disappears when this process ends, however that happens.
func nameless() (*os.File, error) { return files.Nameless(stagingDir) }
