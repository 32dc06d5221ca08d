package support

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// finish writes the result of the collection.
func (c *collection) finish() {
	if len(c.summary.Errors) > 0 {
		c.put("errors.txt", strings.NewReader(strings.Join(c.summary.Errors, "\n")+"\n"))
	}
	if len(c.summary.Results) > 0 {
		c.putJSON("analysis.json", c.summary.Results)
	}
}

// pack writes the collected files as a compressed tar below one folder, and counts them. It redacts each file on the way,
// including those of Troubleshoot by our rules. It leaves out the links that Troubleshoot makes to its own files.
func (c *collection) pack(w io.Writer, top string) (err error) {
	scratch, err := files.Nameless(c.dir)
	if err != nil {
		return err
	}
	defer scratch.Close()
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	err = filepath.WalkDir(c.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(c.dir, name)
		if err != nil {
			return err
		}
		c.summary.Files++
		return c.packFile(archive, scratch, name, path.Join(top, filepath.ToSlash(below)))
	})
	return errors.Join(err, archive.Close(), packed.Close())
}

func (c *collection) packFile(archive *tar.Writer, scratch *os.File, name, as string) error {
	in, err := regularfile.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := scratch.Truncate(0); err != nil {
		return err
	}
	if _, err := scratch.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := c.redactor.Copy(scratch, in); err != nil {
		return err
	}
	size, err := scratch.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: as, Mode: 0o600, Size: size, ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(archive, io.NewSectionReader(scratch, 0, size))
	return err
}
