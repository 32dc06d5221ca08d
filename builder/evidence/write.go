package evidence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sealift/sealift/internal/atomicfile"
)

// documents lists the files that a statement may name.
func documents() []string {
	return []string{SPDXName, CycloneDXName, LicensesName, DifferenceName, DifferencePageName}
}

// names lists all files of evidence. A statement comes after what it names.
func names() []string { return append(documents(), StatementName, SignatureName) }

// file returns the path of one file of evidence.
func file(prefix, name string) string { return prefix + "." + name }

// Write writes the files of evidence and returns their paths. It removes files of earlier evidence with the same prefix that this one does
// not have, such as a signature.
func (e *Evidence) Write(prefix string) ([]string, error) {
	var written []string
	for _, name := range names() {
		target := file(prefix, name)
		if name == LicensesName {
			if err := atomicfile.Fill(target, 0o644, func(w *os.File) error { return e.WriteLicenses(w) }); err != nil {
				return nil, fmt.Errorf("write evidence: %w", err)
			}
			written = append(written, target)
			continue
		}
		data, ok := e.Files[name]
		if !ok {
			if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if err := atomicfile.Write(target, data); err != nil {
			return nil, fmt.Errorf("write evidence: %w", err)
		}
		written = append(written, target)
	}
	return written, nil
}

// Reader returns a function for Verify that reads the files with a prefix.
func Reader(prefix string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		f, err := os.Open(file(prefix, name))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
		if err == nil && len(data) > MaxSize {
			err = fmt.Errorf("%s has more than %d MiB", f.Name(), MaxSize>>20)
		}
		return data, err
	}
}
