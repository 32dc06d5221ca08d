// Package packfile makes files to pack out of the places where a build has its bytes.
package packfile

import (
	"io"
	"io/fs"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/bundle"
)

// Mode is the mode of every file that comes from outside.
const Mode fs.FileMode = 0o644

// Bytes is a file whose content the build made itself.
func Bytes(path string, data []byte) bundle.File {
	return bundle.BytesFile(path, Mode, data)
}

// Cached is a file whose content the cache has.
func Cached(path string, c *cache.Cache, digest string, size int64) bundle.File {
	return bundle.File{
		Path: path, Mode: Mode, Size: size, SHA256: digest, Checked: c.Fresh(digest),
		Open: func() (io.ReadCloser, error) { return c.Open(digest) },
	}
}
