package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/regularfile"
)

// Blob is the content of an image's blob.
type Blob interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Server answers hosts that join, and nodes. All fields but Shelf are needed.
type Server struct {
	Root   string // the install root: the index of the bundle, and its files except for the blobs of images
	Shelf  string // folder with the bundles whose images nodes may fetch: see shelf.go
	Binary string // the sealift that hosts run
	// Script gives the script that hosts start with.
	Script func() ([]byte, error)
	// Blobs opens a blob of an image; what is not there is fs.ErrNotExist.
	Blobs func(ctx context.Context, sha256 string) (Blob, error)
	// Authorize says whether a token is one of the cluster's; ErrToken when not.
	Authorize func(ctx context.Context, token string) error
	// Member says whether a node of that name is part of the cluster, which has shown the certificate of its kubelet, and whether it
	// is a control plane; ErrMember when it is no part.
	Member func(ctx context.Context, node string) (controlPlane bool, err error)
	// ControlPlane says whether a host holds the key of the certificates that control planes share; ErrCertificateKey when not.
	ControlPlane func(ctx context.Context, key string) error
	// Cluster tells of the cluster. Only a control plane may know the secrets of its Installer.
	Cluster func(ctx context.Context, controlPlane bool) (Cluster, error)
	// Undo is what a node gets that undoes an upgrade together with this one: fs.ErrNotExist if none does, ErrMember if that node is
	// not part of it.
	Undo func(node string) (Undo, error)
	Log  *slog.Logger

	mu      sync.Mutex
	indexes map[string]*index // by folder
}

// index is the index of an unpacked bundle, and when it was read.
type index struct {
	archive  *bundle.Archive
	modified time.Time
	byDigest map[string][]bundle.Entry
}

// Handler gives the server's answers.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+scriptPath, s.script)
	mux.HandleFunc("GET "+binaryPath, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, s.Binary) })
	mux.HandleFunc("GET "+orderPath, s.ordered(s.order))
	mux.HandleFunc("GET "+etcdPath, s.ordered(s.etcd))
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + clusterPath:            s.cluster,
		"GET " + indexPath:              s.rawIndex,
		"GET " + signPath:               s.signature,
		"POST " + missingPath:           s.missing,
		"GET " + entryPath + "{sha256}": s.entry,

		"GET " + shelfPath + "{index}" + shelfIndex:               s.shelfIndex,
		"GET " + shelfPath + "{index}" + shelfImages + "{sha256}": s.shelfImage,
	} {
		mux.HandleFunc(pattern, s.authorized(answer))
	}
	return mux
}

// authorized answers those who have a token, and nodes of the cluster, over TLS alone.
func (s *Server) authorized(answer func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // also for what nobody reads
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		member := memberOf(r.TLS)
		if r.TLS == nil || !ok && member == "" {
			http.Error(w, "this needs TLS and a token", http.StatusUnauthorized)
			return
		}
		var err error
		if ok {
			err = s.Authorize(r.Context(), token)
		} else {
			_, err = s.Member(r.Context(), member)
		}
		if err == nil {
			err = answer(w, r)
		}
		s.refuse(w, r, err)
	}
}

// refuse says why there is no answer, if there is an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrToken), errors.Is(err, ErrMember):
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case errors.Is(err, ErrCertificateKey):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		s.Log.Warn("cannot answer another host", "host", r.RemoteAddr, "path", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *Server) script(w http.ResponseWriter, _ *http.Request) {
	text, err := s.Script()
	if err != nil {
		s.Log.Warn("cannot make the script for hosts that join", "error", err)
		http.Error(w, "the script cannot be made; see the log of this node", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/x-shellscript")
	_, _ = w.Write(text)
}

func (s *Server) cluster(w http.ResponseWriter, r *http.Request) error {
	controlPlane, err := s.controlPlane(r)
	if err != nil {
		return err
	}
	c, err := s.Cluster(r.Context(), controlPlane)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(c)
}

// controlPlane says whether the host is to be a control plane, and has shown that it may be one, or is one.
func (s *Server) controlPlane(r *http.Request) (bool, error) {
	if member := memberOf(r.TLS); member != "" {
		return s.Member(r.Context(), member)
	}
	key := r.Header.Get(keyHeader)
	if key == "" {
		return false, nil
	}
	err := s.ControlPlane(r.Context(), key)
	return err == nil, err
}

func (s *Server) rawIndex(w http.ResponseWriter, _ *http.Request) error {
	x, err := s.read()
	if err != nil {
		return err
	}
	data, _ := x.archive.Raw()
	_, _ = w.Write(data)
	return nil
}

func (s *Server) signature(w http.ResponseWriter, _ *http.Request) error {
	x, err := s.read()
	if err != nil {
		return err
	}
	_, sig := x.archive.Raw()
	_, _ = w.Write(sig)
	return nil
}

// read gives the index of this node's bundle.
func (s *Server) read() (*index, error) {
	x, err := s.readFolder(s.Root)
	if err != nil {
		return nil, fmt.Errorf("the index of this node's bundle: %w", err)
	}
	return x, nil
}

// readFolder gives the index of an unpacked bundle, read again when another bundle took its place meanwhile.
func (s *Server) readFolder(folder string) (*index, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(filepath.Join(folder, bundle.IndexName))
	if err != nil {
		delete(s.indexes, folder)
		return nil, err
	}
	if had := s.indexes[folder]; had != nil && had.modified.Equal(info.ModTime()) {
		return had, nil
	}
	archive, err := bundle.Open(folder)
	if err != nil {
		return nil, err
	}
	x := &index{archive: archive, modified: info.ModTime(), byDigest: make(map[string][]bundle.Entry)}
	for _, e := range archive.Index.Entries {
		x.byDigest[e.SHA256] = append(x.byDigest[e.SHA256], e)
	}
	if s.indexes == nil {
		s.indexes = make(map[string]*index)
	}
	s.indexes[folder] = x // the folder of the one before is closed when nobody reads from it any more
	return x, nil
}

// open finds the content of a digest: among the files of the root, or in the container runtime.
func (s *Server) open(ctx context.Context, sha256 string) (Blob, error) {
	x, err := s.read()
	if err != nil {
		return nil, err
	}
	entries, ok := x.byDigest[sha256]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the bundle that this node was made from", sha256, fs.ErrNotExist)
	}
	f, err := openFile(s.Root, entries)
	if f != nil || err != nil {
		return f, err
	}
	blob, err := s.Blobs(ctx, sha256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", entries[0].Path, err)
	}
	return blob, nil
}

// openFile opens the first of these entries that is a file of a folder. It returns nil if none is.
func openFile(folder string, entries []bundle.Entry) (Blob, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, e := range entries {
		f, err := regularfile.OpenIn(root, filepath.FromSlash(e.Path))
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() == e.Size {
			return file{f, e.Size}, nil
		}
		_ = f.Close()
	}
	return nil, nil
}

type file struct {
	*os.File
	size int64
}

func (f file) Size() int64 { return f.size }

func (s *Server) entry(w http.ResponseWriter, r *http.Request) error {
	if secret, err := s.isInstaller(r.PathValue("sha256")); err != nil {
		return err
	} else if secret {
		if controlPlane, err := s.controlPlane(r); err != nil || !controlPlane {
			return errors.Join(err, fmt.Errorf("%s: %w for workers, as it may have secrets", bundle.InstallerName, fs.ErrNotExist))
		}
	}
	blob, err := s.open(r.Context(), r.PathValue("sha256"))
	if err != nil {
		return err
	}
	return serveBlob(w, r, blob)
}

// serveBlob answers with a blob, or with the part of it that is asked for, and closes it.
func serveBlob(w http.ResponseWriter, r *http.Request, blob Blob) error {
	defer blob.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(blob, 0, blob.Size()))
	return nil
}

// isInstaller says whether a digest is that of the Installer of the bundle.
func (s *Server) isInstaller(sha256 string) (bool, error) {
	x, err := s.read()
	if err != nil {
		return false, err
	}
	e, ok := x.archive.Entry(bundle.InstallerName)
	return ok && e.SHA256 == sha256, nil
}

// maxQuestion bounds a list of digests: 67 bytes each, as many as an index has at most.
const maxQuestion = 16 << 20

// missing answers with those of the asked-for digests that this node does not have.
func (s *Server) missing(w http.ResponseWriter, r *http.Request) error {
	var asked []string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&asked); err != nil {
		http.Error(w, "not a list of digests: "+err.Error(), http.StatusBadRequest)
		return nil //nolint:nilerr // answered
	}
	lacking := []string{}
	for _, digest := range asked {
		blob, err := s.open(r.Context(), digest)
		if errors.Is(err, fs.ErrNotExist) {
			lacking = append(lacking, digest)
			continue
		}
		if err != nil {
			return err
		}
		if err := blob.Close(); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(lacking)
}
