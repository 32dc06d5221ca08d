package cache

import (
	"io"
	"io/fs"

	"github.com/sealift/sealift/bundle"
)

// FileMode is the mode of every packed file that does not come from the add-on's directory.
const FileMode fs.FileMode = 0o644

// File returns a file to pack whose content the cache has.
func (c *Cache) File(path string, content bundle.Blob) bundle.File {
	return bundle.File{
		Path: path, Mode: FileMode, Size: content.Size, SHA256: content.SHA256, Checked: c.Fresh(content.SHA256),
		Open: func() (io.ReadCloser, error) { return c.Open(content.SHA256) },
	}
}
