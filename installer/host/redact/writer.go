package redact

import (
	"bufio"
	"bytes"
	"io"
)

// Writer masks its input, line by line.
type Writer struct {
	redactor *Redactor
	to       io.Writer
	state    state
	line     []byte // that has not ended yet
	long     bool   // it is longer than maxLine
}

// Writer returns a Writer to w. Call Flush after the last line.
func (d *Redactor) Writer(w io.Writer) *Writer { return &Writer{redactor: d, to: w} }

// Write writes each line that has ended. The rest of p waits for its end.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if w.long = w.long || len(w.line)+len(line) >= maxLine; !w.long {
			w.line = append(w.line, line...)
		}
		if rest = after; !ended {
			break
		}
		if err := w.end("\n"); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush writes a last line without an end.
func (w *Writer) Flush() error {
	switch {
	case w.long:
		return w.end("\n")
	case len(w.line) > 0:
		return w.end("")
	}
	return nil
}

func (w *Writer) end(newline string) error {
	text := []byte(Mask + " (a line of more than 1 MiB)")
	if !w.long {
		text = w.redactor.line(&w.state, w.line)
	}
	_, err := w.to.Write(append(text, newline...))
	w.line, w.long = w.line[:0], false
	return err
}

// Copy copies the text in r to w, masked.
func (d *Redactor) Copy(w io.Writer, r io.Reader) error {
	out := bufio.NewWriterSize(w, 64<<10)
	masked := d.Writer(out)
	if _, err := io.CopyBuffer(struct{ io.Writer }{masked}, struct{ io.Reader }{r}, make([]byte, 64<<10)); err != nil {
		return err
	}
	if err := masked.Flush(); err != nil {
		return err
	}
	return out.Flush()
}
