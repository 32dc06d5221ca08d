package files

import (
	"path/filepath"
	"strings"
)

// Host is a host by its files: this one, or one whose files lie below a folder, as in a test or a sandbox.
type Host struct {
	Rootfs string // the folder; "" means /
}

// Path is where a file of the host lies, by the name that it has there.
func (h Host) Path(name string) string { return filepath.Join("/", h.Rootfs, name) }

// Name is the way back: what the host calls the file at a path.
func (h Host) Name(path string) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, h.Path("/")), "/")
}
