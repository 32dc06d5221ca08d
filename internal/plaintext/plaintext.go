// Package plaintext writes texts from outside for people. Names, conditions, errors and logs come from clusters, workers and registries, and
// may have control characters that move a cursor, hide lines, or type into a terminal.
package plaintext

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer writes control characters as JSON does, such as \u001b, so that JSON documents do not change. It also escapes those that
// change the direction of a text. It drops colours, and ends a line at a carriage return. Its methods may be called from several goroutines.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // the beginning of a character, or of a sequence for colours
	cr   bool   // the last character was a carriage return
	err  error  // the first of the output
}

// NewWriter returns a Writer to an output. Call its Close.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unwrap returns the output that a Writer writes to, and any other output unchanged.
func Unwrap(out io.Writer) io.Writer {
	if w, ok := out.(*Writer); ok {
		return w.to
	}
	return out
}

// Write writes all of p, except an incomplete rune at its end, which the next Write may complete.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := p
	if len(w.held) > 0 {
		rest = slices.Concat(w.held, p)
		w.held = nil
	}
	var out bytes.Buffer
	for len(rest) > 0 {
		if n, complete := color(rest); n > 0 {
			if !complete {
				w.held = bytes.Clone(rest)
				break
			}
			rest = rest[n:]
			continue
		}
		if !utf8.FullRune(rest) {
			w.held = bytes.Clone(rest)
			break
		}
		r, size := utf8.DecodeRune(rest)
		w.one(&out, r, rest[:size])
		rest = rest[size:]
	}
	if err := w.send(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) send(text []byte) error {
	_, err := w.to.Write(text)
	if w.err == nil {
		w.err = err
	}
	return err
}

// one writes one character.
func (w *Writer) one(out *bytes.Buffer, r rune, raw []byte) {
	afterReturn := w.cr
	w.cr = r == '\r'
	switch {
	case r == '\r', r == '\n' && !afterReturn:
		out.WriteByte('\n')
	case r == '\n':
	case r == utf8.RuneError && len(raw) == 1: // a byte that is not UTF-8
		out.WriteRune(utf8.RuneError)
	case harmful(r):
		escape(out, r)
	default:
		out.Write(raw)
	}
}

// Close writes the bytes held back: an incomplete character or sequence. It returns the first error of the output, also one that a Write
// has returned. It does not close the output.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out bytes.Buffer
	for _, r := range string(w.held) {
		if harmful(r) {
			escape(&out, r)
		} else {
			out.WriteRune(r)
		}
	}
	w.held = nil
	_ = w.send(out.Bytes())
	return w.err
}

// maxColor is the longest sequence that counts as a colour, in bytes.
const maxColor = 32

// color returns the length of the sequence for colours (SGR of ECMA-48: ESC [ numbers m) that p begins with, 0 for anything else. A sequence
// at the end of p may be incomplete.
func color(p []byte) (n int, complete bool) {
	for i, b := range p[:min(len(p), maxColor)] {
		switch {
		case i == 0 && b == 0x1b, i == 1 && b == '[', i > 1 && (b >= '0' && b <= '9' || b == ';'):
		case i > 1 && b == 'm':
			return i + 1, true
		default:
			return 0, false
		}
	}
	if len(p) >= maxColor {
		return 0, false
	}
	return len(p), false
}

// harmful reports whether a character controls a terminal, or changes the direction or the lines of a text.
func harmful(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r):
		return true
	}
	return unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r >= 0xe0000 && r <= 0xe007f
}

func escape(out *bytes.Buffer, r rune) {
	if first, second := utf16.EncodeRune(r); first != unicode.ReplacementChar {
		fmt.Fprintf(out, `\u%04x\u%04x`, first, second)
		return
	}
	fmt.Fprintf(out, `\u%04x`, r)
}

// Line returns a text as one line: a line break becomes \n, a tab becomes \w.
func Line(text string) string {
	var out strings.Builder
	w := NewWriter(&out)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return breaks.Replace(out.String())
}

var breaks = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Count writes a number of things, such as "1 error" or "2 errors".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Bytes writes a size in bytes as people read it, such as 1.5 MiB.
func Bytes[N int64 | uint64](n N) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
