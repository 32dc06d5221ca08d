// Package audit records who did what in the console, when and from where: one JSON object per line, in a file that rotates.
//
// It never records a secret, and it reads nothing but its own files.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/internal/regularfile"
)

const (
	// defaultSize is the size at which a file rotates, in bytes.
	defaultSize = 4 << 20
	// kept is how many rotated files remain.
	kept = 4
	// maxText is the maximum length of each text of an entry, in bytes. A longer one is cut: clients choose some of them.
	maxText = 4 << 10
	// cut ends a text that was cut.
	cut = "…"
)

// Entry is one line.
type Entry struct {
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`            // name of the person, or "" before a login
	Role    string    `json:"role,omitempty"` // of the session
	Session string    `json:"session,omitempty"`
	From    string    `json:"from"` // address of the client
	What    string    `json:"what"` // such as login, action snapshot-save
	Result  string    `json:"result"`
	Detail  string    `json:"detail,omitempty"` // such as the command
}

// bounded returns the entry with its texts cut.
func (e Entry) bounded() Entry {
	for _, text := range []*string{&e.Who, &e.Role, &e.Session, &e.From, &e.What, &e.Result, &e.Detail} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText-len(cut)], "") + cut
		}
	}
	return e
}

// Log is a file of entries. Its methods may be called from several goroutines and programs.
type Log struct {
	name string
	size int64
}

// New returns the log in a file, which appears with its first entry. size is the size at which it rotates, in bytes; 0 means the default.
func New(name string, size int64) *Log {
	if size == 0 {
		size = defaultSize
	}
	return &Log{name: name, size: size}
}

// Write adds an entry, with its texts cut at 4 KiB, and returns when it is on the disk.
func (l *Log) Write(e Entry) (err error) {
	e.Time = e.Time.UTC()
	line, err := json.Marshal(e.bounded())
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if err := os.MkdirAll(filepath.Dir(l.name), 0o700); err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	unlock, err := l.lock()
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	defer unlock()
	if err := l.rotate(int64(len(line))); err != nil {
		return fmt.Errorf("rotate the audit: %w", err)
	}
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}

// lock locks the folder of the files, because the unit that does changes of the cluster writes to the console's files. Call unlock.
func (l *Log) lock() (unlock func(), err error) {
	folder, err := os.Open(filepath.Dir(l.name))
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(folder); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return func() { _ = folder.Close() }, nil
}

// rotate renames the files if the newest has no room for more bytes.
func (l *Log) rotate(more int64) error {
	info, err := os.Stat(l.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size()+more <= l.size {
		return nil
	}
	if err != nil {
		return err
	}
	for n := kept; n > 0; n-- {
		if err := os.Rename(l.rotated(n-1), l.rotated(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// rotated is the name of the n-th file; 0 is the newest.
func (l *Log) rotated(n int) string {
	if n == 0 {
		return l.name
	}
	return l.name + "." + strconv.Itoa(n)
}

// Last returns the last n entries, the newest first. A line that is damaged, as by a power failure, is left out.
func (l *Log) Last(n int) (found []Entry, err error) {
	unlock, err := l.lock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	for file := 0; file <= kept && len(found) < n; file++ {
		entries, err := read(l.rotated(file))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return found, err
		}
		slices.Reverse(entries)
		found = append(found, entries[:min(len(entries), n-len(found))]...)
	}
	return found, nil
}

func read(name string) (all []Entry, err error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n') // of any length: an earlier release did not cut texts
		var e Entry
		if json.Unmarshal(line, &e) == nil && !e.Time.IsZero() {
			all = append(all, e.bounded())
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}
