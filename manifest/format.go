package manifest

import (
	"bytes"
	"strings"
)

// Format prints the file in its canonical form: every line kept in its place, words parted by one space, comments from
// the first column, nothing at line ends, lines ended by a newline. It is idempotent, and Parse reads back the same
// directives. Lines that Parse refused are missing, so only a File that came without an error should be written back.
func (f *File) Format() []byte {
	var out bytes.Buffer
	for _, l := range f.lines {
		out.WriteString(l.comment)
		out.WriteString(strings.Join(l.words, " "))
		out.WriteByte('\n')
	}
	return out.Bytes()
}
