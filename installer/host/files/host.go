package files

import (
	"path/filepath"
	"strings"
)

// Host is a host by its files: this one, or one whose files are below a folder, as in a test or a sandbox.
type Host struct {
	Rootfs string // the folder; "" means /
}

// Path is the path of a file of the host, by its name on the host.
func (h Host) Path(name string) string { return filepath.Join("/", h.Rootfs, name) }

// Name is the inverse: the host's name of the file at a path.
func (h Host) Name(path string) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, h.Path("/")), "/")
}
