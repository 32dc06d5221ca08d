package node

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/preflight"
)

// Scope says where an operation works, and who is notified. The zero value of a folder is its default.
type Scope struct {
	Root   string
	LogDir string
	// Output receives what programs print, besides the log file; nil for nothing.
	Output io.Writer
}

// Session is one operation on this host, with its log and, after Lock, the journal.
type Session struct {
	Scope
	Log     *Log
	Journal *lifecycle.Journal
}

// notRoot is the refusal that precedes everything else: without root, not even the journal can be read.
func notRoot() error {
	return &preflight.RefusedError{Against: []preflight.Result{{
		Check: "root", Status: preflight.Fail, Message: "changes of packages and services want root", Hint: hostpath.WithSudo(),
	}}}
}

// Complete sets defaults of empty folders, and refuses non-root users. Hooks have other working folders: the install root is
// absolute.
func (s *Scope) Complete() (err error) {
	if s.Root == "" {
		s.Root = DefaultRoot
	}
	if s.Root, err = filepath.Abs(s.Root); err != nil {
		return err
	}
	if s.LogDir == "" {
		s.LogDir = DefaultLogDir
	}
	if os.Geteuid() != 0 {
		return notRoot()
	}
	return nil
}

// Begin completes the scope of an operation. It changes nothing. Call Close.
func (s *Scope) Begin(operation lifecycle.Operation) (*Session, error) {
	if err := s.Complete(); err != nil {
		return nil, err
	}
	return &Session{Scope: *s, Log: NewLog(s.LogDir, operation, s.Output)}, nil
}

// Lock opens the journal. No other operation works on the node until Close.
func (s *Session) Lock() (err error) {
	s.Journal, err = Lock(s.Root)
	return err
}

// Lock opens the journal of a node. No other operation works on the node until it is closed. It changes nothing.
func Lock(root string) (*lifecycle.Journal, error) { return lifecycle.OpenJournal(StateDir(root)) }

// LogFile is the name of the log of this operation. The file is made with the first output.
func (s *Session) LogFile() string { return s.Log.Name() }

// Close releases the lock of the node.
func (s *Session) Close() error {
	if s.Journal == nil {
		return s.Log.Close()
	}
	return errors.Join(s.Journal.Close(), s.Log.Close())
}
