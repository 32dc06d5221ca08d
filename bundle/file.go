package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// BytesFile returns a file to pack with its content in memory.
func BytesFile(path string, mode fs.FileMode, data []byte) File {
	return File{Path: path, Mode: mode, Size: int64(len(data)), SHA256: sha256Hex(data),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// DiskFile returns a file to pack from the disk. It reads the file once for its digest.
func DiskFile(path string, mode fs.FileMode, name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return File{Path: path, Mode: mode, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)),
		Open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}
