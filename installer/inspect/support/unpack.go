package support

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/compression"
	"github.com/sealift/sealift/internal/regularfile"
)

const (
	maxUnpacked = 256 << 20 // bytes of a compressed file's text
	maxWindow   = 8 << 20   // bytes of memory of a zstd frame
)

// textOf returns what is in an open file, its size, and whether the file is compressed. Then it is unpacked: nothing in it could be
// masked otherwise. A compressed file that cannot be unpacked to its end is an error.
func textOf(f *os.File) (in io.ReadCloser, size int64, packed bool, err error) {
	head := make([]byte, 10)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, false, err
	}
	head = head[:n]
	isBzip2 := n == cap(head) && bytes.HasPrefix(head, []byte("BZh")) && string(head[4:]) == "1AY&SY"
	if isBzip2 || bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")) {
		return nil, 0, true, errors.New("it is left out, because it is neither text nor compressed with gzip or zstd")
	}
	if compression.Of(head) == compression.None {
		info, err := f.Stat()
		if err != nil {
			return nil, 0, false, err
		}
		return f, info.Size(), false, nil
	}
	unpack := func() (io.ReadCloser, error) {
		return compression.NewReader(io.NewSectionReader(f, 0, 1<<62), maxWindow)
	}
	if in, err = unpack(); err == nil {
		size, err = io.Copy(io.Discard, io.LimitReader(in, maxUnpacked+1))
		_ = in.Close()
	}
	if err == nil && size > maxUnpacked {
		err = fmt.Errorf("it unpacks to more than %d bytes", maxUnpacked)
	}
	if err == nil {
		in, err = unpack()
	}
	if err != nil {
		return nil, 0, true, fmt.Errorf("it is compressed, and left out: %w", err)
	}
	return in, size, true, nil
}

// unpackedName is the name of a compressed file's text.
func unpackedName(name string) string {
	for _, end := range []string{".gz", ".zst"} {
		if whole, ok := strings.CutSuffix(name, end); ok {
			return whole
		}
	}
	return name + ".unpacked"
}

// unpack puts the text of the compressed files that Troubleshoot's collectors have left in their places.
func (c *collection) unpack() error {
	return filepath.WalkDir(c.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(c.dir, name)
		if err != nil {
			return err
		}
		f, err := regularfile.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in, size, packed, err := textOf(f)
		if err == nil && !packed {
			return nil
		}
		if err == nil {
			c.put(unpackedName(below), io.LimitReader(in, size))
			_ = in.Close()
		}
		c.failed(below, err)
		return files.Remove(name)
	})
}
