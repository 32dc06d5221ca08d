package manifest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/internal/atomicfile"
)

// Format prints the file in its canonical form: every line in its place, words separated by one space, comments from the first
// column, nothing at line ends, lines ended by a newline. It is idempotent, and Parse reads back the same directives. Lines
// that Parse refused are missing, so only a File without an error should be written back.
func (f *File) Format() []byte {
	var out bytes.Buffer
	for _, l := range f.lines {
		out.WriteString(l.comment)
		out.WriteString(strings.Join(l.words, " "))
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// Save replaces the file at path with the canonical form of f, atomically and with its permissions.
func (f *File) Save(path string) error {
	if err := f.save(path); err != nil {
		return fmt.Errorf("rewrite manifest %s: %w", path, err)
	}
	return nil
}

func (f *File) save(path string) error {
	path, err := filepath.EvalSymlinks(path) // so that a link stays one
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, f.Format())
}
