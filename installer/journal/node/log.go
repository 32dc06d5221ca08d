package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// Log is the log file of one run, made when it is first written to.
type Log struct {
	name string
	also io.Writer
	mu   sync.Mutex
	file *os.File
	// text goes through the redactor into the file, since people send logs to others.
	text     *redact.Writer
	redactor *redact.Redactor
}

// NewLog makes the log of a run of an operation in a folder. Secrets are masked in the file. Output is also written to also,
// unmasked, unless that is nil.
func NewLog(dir string, operation lifecycle.Operation, also io.Writer) *Log {
	if also == nil {
		also = io.Discard
	}
	return &Log{name: filepath.Join(dir, string(operation)+"-"+time.Now().UTC().Format("20060102T150405Z")+".log"), also: also, redactor: redact.New()}
}

// Name is the name of the file.
func (l *Log) Name() string { return l.name }

// Hide masks these values in the file from now on, besides what looks like a secret.
func (l *Log) Hide(secrets ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.redactor.Hide(secrets...)
}

// Write never fails: an unwritable log must not stop the work that it describes.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.also.Write(p)
	if l.file == nil {
		if err := files.MkdirAll(filepath.Dir(l.name), 0o700); err != nil {
			return len(p), nil
		}
		file, err := files.Append(l.name)
		if err != nil {
			return len(p), nil
		}
		l.file, l.text = file, l.redactor.Writer(file)
	}
	_, _ = l.text.Write(p)
	return len(p), nil
}

// Narrate logs the events that it passes to observe.
func (l *Log) Narrate(observe func(lifecycle.Event)) func(lifecycle.Event) {
	return func(e lifecycle.Event) {
		if !e.Skipped && e.Outcome != lifecycle.Waiting { // the log has more than the note
			fmt.Fprintf(l, "== %s step %s %s: %s\n", time.Now().UTC().Format(time.RFC3339), e.Step.ID, e.Outcome, e.Step.Title)
		}
		if e.Err != nil {
			fmt.Fprintln(l, e.Err)
		}
		observe(e)
	}
}

// Close closes the file, if there is one.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return errors.Join(l.text.Flush(), l.file.Close())
}
