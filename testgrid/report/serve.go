package report

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/poll"
)

//go:embed live.js
var liveScript []byte

// livePoll is the time between two checks for changes.
const livePoll = time.Second

// Server shows a report while its tests run: pages of the moment, files of the folder, and a stream with a line for each change.
// Its pages are those of the folder, with a script that replaces changed parts. They are also complete without the script.
type Server struct {
	http.Handler
	folder Folder
	root   *os.Root

	mu      sync.Mutex
	state   string        // fingerprint of the folder
	changed chan struct{} // closed and replaced when the state changes
}

// NewServer opens the report in a folder, which a run may make later.
func NewServer(f Folder) (*Server, error) {
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, fmt.Errorf("open the report: %w", err)
	}
	s := &Server{folder: f, root: root, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /index.html", s.index)
	mux.HandleFunc("GET /results/{test}/{system}/{$}", s.cell)
	mux.HandleFunc("GET /results/{test}/{system}/index.html", s.cell)
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /live.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(liveScript)
	})
	mux.Handle("GET /", http.FileServerFS(root.FS()))
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'")
		mux.ServeHTTP(w, r)
	})
	return s, nil
}

// Close closes the folder.
func (s *Server) Close() error { return s.root.Close() }

// Watch looks for changes until ctx ends. Without it, pages do not refresh.
func (s *Server) Watch(ctx context.Context) {
	poll.Repeat(ctx, func(context.Context) time.Duration {
		if state := s.fingerprint(); state != "" {
			s.mu.Lock()
			if state != s.state {
				s.state = state
				close(s.changed)
				s.changed = make(chan struct{})
			}
			s.mu.Unlock()
		}
		return livePoll
	})
}

// fingerprint changes whenever a file of the results does. It is "" if a file disappears in between.
func (s *Server) fingerprint() string {
	sum := sha256.New()
	for _, below := range []string{planName, "results"} {
		err := filepath.WalkDir(filepath.Join(s.folder.Path, below), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == filepath.Join(s.folder.Path, below) {
				return nil
			}
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				fmt.Fprintln(sum, path, info.Size(), info.ModTime().UnixNano())
			}
			return err
		})
		if err != nil {
			return ""
		}
	}
	busy, err := s.folder.busy()
	fmt.Fprintln(sum, busy, err)
	return hex.EncodeToString(sum.Sum(nil))
}

// cells reads the current report.
func (s *Server) cells() ([]Cell, error) {
	results, err := s.folder.Read()
	if err != nil {
		return nil, err
	}
	cells := Cells(results)
	return cells, s.folder.remember(cells)
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	cells, err := s.cells()
	var summary string
	if err == nil {
		summary, err = s.folder.summary()
	}
	var page []byte
	if err == nil {
		page, err = indexPage(cells, summary, true)
	}
	answer(w, page, err)
}

func (s *Server) cell(w http.ResponseWriter, r *http.Request) {
	cells, err := s.cells()
	if err != nil {
		answer(w, nil, err)
		return
	}
	i := slices.IndexFunc(cells, func(c Cell) bool { return c.Test == r.PathValue("test") && c.System == r.PathValue("system") })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	page, err := s.folder.cellPage(cells[i], true)
	answer(w, page, err)
}

func answer(w http.ResponseWriter, page []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page)
}

// events streams a line for each change, as text/event-stream (HTML, section 9.2).
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	for {
		s.mu.Lock()
		state, changed := s.state, s.changed
		s.mu.Unlock()
		if _, err := fmt.Fprintf(w, "data: %s\n\n", state); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}
