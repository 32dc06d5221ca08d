package runtime

import (
	"fmt"
	"io"

	"github.com/sealift/sealift/bundle"
)

// resumable reads a file of an archive for containerd, which seeks to where it was cut off. From its start the file is verified
// by the archive; from elsewhere by containerd, which has the preceding bytes.
type resumable struct {
	archive *bundle.Archive
	name    string
	from    int64
	file    io.ReadCloser // nil before the first Read
}

func (r *resumable) resumed() bool { return r.from > 0 }

// Read implements io.Reader.
func (r *resumable) Read(p []byte) (int, error) {
	if r.file == nil {
		var err error
		if r.from == 0 {
			r.file, err = r.archive.OpenEntry(r.name)
		} else {
			r.file, err = r.archive.OpenRest(r.name, r.from)
		}
		if err != nil {
			return 0, err
		}
	}
	return r.file.Read(p)
}

// Seek implements io.Seeker.
func (r *resumable) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekStart {
		return 0, fmt.Errorf("%s: seek to %d, not from the start", r.name, off)
	}
	err := r.Close()
	r.from = off
	return off, err
}

// Close closes the file.
func (r *resumable) Close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}
