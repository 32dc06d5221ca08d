package manifest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sealift/sealift/internal/diag"
)

// Bounds of the input, in bytes. The largest of kURL's 1,061 Manifests has under 3 KB and its longest line under 200 bytes;
// presigned URLs reach 2 KB.
const (
	MaxFileSize = 1 << 20
	MaxLineSize = 8 << 10
)

// Parse reads a Manifest; name stands for it in positions. Invalid lines are reported as one diag.Errors, and the File returned
// with it has the other lines. Any other error is a read error and comes without a File. What the words mean is looked at by
// Check.
func Parse(name string, r io.Reader) (*File, error) {
	return parse(name, r, false)
}

// ParseKURL reads the Manifest of a package that kURL's builder made, as that builder did: it takes no notice of superfluous words (kURL §1.3).
func ParseKURL(name string, r io.Reader) (*File, error) {
	return parse(name, r, true)
}

func parse(name string, r io.Reader, byKURL bool) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	}
	var problems diag.List
	file := &File{Name: name}
	if len(text) > MaxFileSize {
		problems.Errorf(diag.Pos{File: name}, "a Manifest lists what to fetch; is this the right file?",
			"larger than %d bytes", MaxFileSize)
		return file, problems.Err()
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, as some editors leave
	for number := 1; len(text) > 0; number++ {
		var raw []byte
		raw, text, _ = bytes.Cut(text, []byte("\n"))
		raw = bytes.TrimSuffix(raw, []byte("\r"))
		if l, ok := parseLine(diag.Pos{File: name, Line: number, Col: 1}, string(raw), byKURL, &problems); ok {
			file.lines = append(file.lines, l)
		}
	}
	return file, problems.Err()
}

func parseLine(pos diag.Pos, raw string, byKURL bool, problems *diag.List) (line, bool) {
	if len(raw) > MaxLineSize {
		problems.Errorf(pos, "", "line longer than %d bytes", MaxLineSize)
		return line{}, false
	}
	trimmed := strings.Trim(raw, " \t")
	if at := strings.IndexFunc(trimmed, isNotText); at >= 0 {
		pos.Col = strings.Index(raw, trimmed) + at + 1
		bad, _ := utf8.DecodeRuneInString(trimmed[at:])
		problems.Errorf(pos, "write plain UTF-8 text", "unreadable character %U", bad)
		return line{}, false
	}
	if trimmed == "" {
		return line{}, true
	}
	if strings.HasPrefix(trimmed, "#") {
		return line{comment: trimmed}, true
	}
	words, columns := split(raw)
	pos.Col = columns[0]
	d := directive(words, byKURL, Origin{Pos: pos, columns: columns[1:]}, problems)
	return line{words: words, directive: d}, d != nil
}

// isNotText finds control characters other than tab and bytes that are not UTF-8: they would end up in file names.
func isNotText(r rune) bool {
	return r == utf8.RuneError || r != '\t' && unicode.IsControl(r)
}

// split parts a line at blanks and tabs and says at which column, from 1, each word starts.
func split(raw string) (words []string, columns []int) {
	start := -1
	for i := 0; i <= len(raw); i++ {
		blank := i == len(raw) || raw[i] == ' ' || raw[i] == '\t'
		switch {
		case blank && start >= 0:
			words, columns = append(words, raw[start:i]), append(columns, start+1)
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return words, columns
}

// unexpected reports a superfluous word of a directive.
func unexpected(pos diag.Pos, word, meant, form string, problems *diag.List) {
	hint := form
	switch {
	case strings.HasPrefix(word, "#"):
		hint = "put the comment on a line of its own"
	case meant != "":
		hint = fmt.Sprintf("did you mean %q?", meant)
	}
	problems.Errorf(pos, hint, "unexpected %q", word)
}
