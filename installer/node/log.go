package node

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/lifecycle"
)

// Log is the log file of one run, made when it is first written to.
type Log struct {
	name string
	also io.Writer
	mu   sync.Mutex
	file *os.File
}

// NewLog makes the log of a run of an operation in a folder. What is written goes to also, too, unless that is nil.
func NewLog(dir string, operation lifecycle.Operation, also io.Writer) *Log {
	if also == nil {
		also = io.Discard
	}
	return &Log{name: filepath.Join(dir, string(operation)+"-"+time.Now().UTC().Format("20060102T150405Z")+".log"), also: also}
}

// Name is the name of the file.
func (l *Log) Name() string { return l.name }

// Write never fails: a log that cannot be written must not stop the work that it tells of.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.also.Write(p)
	if l.file == nil {
		if err := os.MkdirAll(filepath.Dir(l.name), 0o700); err != nil {
			return len(p), nil
		}
		file, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return len(p), nil
		}
		l.file = file
	}
	_, _ = l.file.Write(p)
	return len(p), nil
}

// Narrate tells the log what it tells observe.
func (l *Log) Narrate(observe func(lifecycle.Event)) func(lifecycle.Event) {
	return func(e lifecycle.Event) {
		if !e.Skipped {
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
	return l.file.Close()
}
