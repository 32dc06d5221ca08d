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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/httprange"
	"github.com/sealift/sealift/internal/regularfile"
)

// Server answers hosts that join, and nodes. All fields but Shelf are needed.
type Server struct {
	Root     string // the install root: the index of the bundle, and its files except for the blobs of images
	Shelf    string // folder with the bundles whose images nodes may fetch: see shelf.go
	Programs Programs
	// Script returns the first script of hosts.
	Script func() ([]byte, error)
	// Blobs opens a blob of an image; a missing one is fs.ErrNotExist.
	Blobs func(ctx context.Context, sha256 string) (peer.Blob, error)
	// Images answers pulls by the protocol of registries, below /v2/.
	Images http.Handler
	// Peer gives blobs to nodes that another control plane sends here.
	Peer http.Handler
	// Authorize reports whether a token is one of the cluster's; ErrToken when not.
	Authorize func(ctx context.Context, token string) error
	// Node checks that the cluster has a node of that name, which has shown the certificate of its kubelet, valid since a time;
	// ErrMember if it does not, or no longer.
	Node func(ctx context.Context, node string, since time.Time) error
	// Invited checks that a host holds the key of the certificates that control planes share; ErrCertificateKey if not.
	Invited func(ctx context.Context, key string) error
	// Cluster describes the cluster, with the secrets that a client has a right to.
	Cluster func(ctx context.Context, may func(identity.Right) bool) (Cluster, error)
	// Undo returns the joint undo that a control plane takes part in: fs.ErrNotExist if there is none, ErrMember if that node is not
	// part of it.
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

// answer answers a client, or returns an error with the reason.
type answer func(http.ResponseWriter, *http.Request, client) error

// Handler serves the server's responses.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, to := range map[string]struct {
		right identity.Right
		answer
	}{
		"GET " + scriptPath:                 {identity.ReadScript, s.script},
		"GET " + binaryPath:                 {identity.ReadScript, s.program},
		"GET " + binaryPath + "/{platform}": {identity.ReadScript, s.program},

		"GET " + clusterPath:            {identity.ReadCluster, s.cluster},
		"GET " + indexPath:              {identity.ReadBundle, s.rawIndex},
		"GET " + signPath:               {identity.ReadBundle, s.signature},
		"GET " + verdictPath:            {identity.ReadBundle, s.verdict},
		"POST " + missingPath:           {identity.ReadBundle, s.missing},
		"GET " + entryPath + "{sha256}": {identity.ReadBundle, s.entry},

		"GET " + shelfPath + "{index}" + shelfIndex:               {identity.ReadImages, s.shelfIndex},
		"GET " + shelfPath + "{index}" + shelfVerdict:             {identity.ReadImages, s.shelfVerdict},
		"GET " + shelfPath + "{index}" + shelfImages + "{sha256}": {identity.ReadImages, s.shelfImage},

		imagesPath: {identity.PullImages, s.pull},
		blobsPath:  {identity.ReadBlob, s.peer},

		"GET " + orderPath: {identity.ReadUndo, s.order},
		"GET " + etcdPath:  {identity.ReadUndo, s.etcd},
	} {
		mux.HandleFunc(pattern, s.guard(to.right, to.answer))
	}
	return mux
}

// client is the requester, by its proof.
type client struct {
	identity.Party
	node string // of a certificate; "" for others
}

// prove identifies the requester. Anonymous clients need no proof.
func (s *Server) prove(r *http.Request) (client, error) {
	if r.TLS == nil {
		return client{Party: identity.Anonymous}, nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		party, node := identity.Client(r.TLS)
		if party == identity.Worker {
			return client{party, node}, s.Node(r.Context(), node, r.TLS.PeerCertificates[0].NotBefore)
		}
		return client{party, node}, nil
	}
	if err := s.Authorize(r.Context(), token); err != nil {
		return client{Party: identity.Anonymous}, err
	}
	return client{Party: identity.Token}, nil
}

// invite finds out whether a client with a token also holds the key of the certificates. It is checked only where that makes a
// difference: it takes a request to the cluster.
func (s *Server) invite(r *http.Request, c client) (client, error) {
	key := r.Header.Get(keyHeader)
	if c.Party != identity.Token || key == "" {
		return c, nil
	}
	c.Party = identity.Invited
	return c, s.Invited(r.Context(), key)
}

// guard answers clients that have a right, and logs what it refuses to those that proved something.
func (s *Server) guard(right identity.Right, to answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // even for unread content
		}
		if identity.Anonymous.Has(right) {
			s.refuse(w, r, to(w, r, client{Party: identity.Anonymous}))
			return
		}
		c, err := s.prove(r)
		switch {
		case err != nil:
		case c.Has(right):
			err = to(w, r, c)
		case c.Party == identity.Anonymous:
			http.Error(w, "this needs TLS and a token", http.StatusUnauthorized)
			return
		default:
			err = ErrRight
		}
		if errors.Is(err, ErrToken) || errors.Is(err, ErrMember) || errors.Is(err, ErrCertificateKey) || errors.Is(err, ErrRight) {
			s.audit(slog.LevelWarn, "refused", r, right, c, err)
		}
		s.refuse(w, r, err)
	}
}

// audit logs who got something that is secret, or was refused.
func (s *Server) audit(level slog.Level, outcome string, r *http.Request, right identity.Right, c client, err error) {
	attributes := []any{"right", right, "party", c.Party, "node", c.node, "host", r.RemoteAddr}
	if err != nil {
		attributes = append(attributes, "error", err)
	}
	s.Log.Log(r.Context(), level, "audit: "+outcome, attributes...)
}

// may reports whether a client has a right to something secret, and logs that it gets it.
func (s *Server) may(r *http.Request, right identity.Right, c client) bool {
	if !c.Has(right) {
		return false
	}
	s.audit(slog.LevelInfo, "given out", r, right, c, nil)
	return true
}

// refuse reports why there is no response, if there is an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrToken), errors.Is(err, ErrMember):
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case errors.Is(err, ErrCertificateKey), errors.Is(err, ErrRight):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		s.Log.Warn("cannot answer another host", "host", r.RemoteAddr, "path", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *Server) script(w http.ResponseWriter, _ *http.Request, _ client) error {
	text, err := s.Script()
	if err != nil {
		s.Log.Warn("cannot make the script for hosts that join", "error", err)
		return errors.New("the script cannot be created; see the log of this node")
	}
	w.Header().Set("Content-Type", "text/x-shellscript")
	w.Header().Set("Content-Length", strconv.Itoa(len(text))) // so that a client notices when it is cut
	_, _ = w.Write(text)
	return nil
}

func (s *Server) cluster(w http.ResponseWriter, r *http.Request, c client) error {
	c, err := s.invite(r, c)
	if err != nil {
		return err
	}
	of, err := s.Cluster(r.Context(), func(right identity.Right) bool { return s.may(r, right, c) })
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(of)
}

func (s *Server) rawIndex(w http.ResponseWriter, _ *http.Request, _ client) error {
	x, err := s.read()
	if err != nil {
		return err
	}
	data, _ := x.archive.Raw()
	_, _ = w.Write(data)
	return nil
}

func (s *Server) signature(w http.ResponseWriter, _ *http.Request, _ client) error {
	x, err := s.read()
	if err != nil {
		return err
	}
	_, sig := x.archive.Raw()
	_, _ = w.Write(sig)
	return nil
}

func (s *Server) verdict(w http.ResponseWriter, _ *http.Request, _ client) error {
	x, err := s.read()
	if err != nil {
		return err
	}
	return sendVerdict(w, x)
}

// sendVerdict sends the verdict about an unpacked bundle with its signature.
func sendVerdict(w http.ResponseWriter, x *index) error {
	signed, err := x.archive.Verdict()
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(signed)
}

// read returns the index of this node's bundle.
func (s *Server) read() (*index, error) {
	x, err := s.readFolder(s.Root)
	if err != nil {
		return nil, fmt.Errorf("the index of this node's bundle: %w", err)
	}
	return x, nil
}

// readFolder returns the index of an unpacked bundle, reread when another bundle replaced it.
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
	s.indexes[folder] = x // the previous folder is closed when nobody reads from it any longer
	return x, nil
}

// open finds the content of a digest: among the files of the root, or in the container runtime.
func (s *Server) open(ctx context.Context, sha256 string) (peer.Blob, error) {
	x, err := s.read()
	if err != nil {
		return nil, err
	}
	entries, ok := x.byDigest[sha256]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the bundle that this node was installed from", sha256, fs.ErrNotExist)
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
func openFile(folder string, entries []bundle.Entry) (peer.Blob, error) {
	root, err := files.OpenRoot(folder)
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

func (s *Server) entry(w http.ResponseWriter, r *http.Request, c client) error {
	secret, err := s.isInstaller(r.PathValue("sha256"))
	if err != nil {
		return err
	}
	if secret {
		if c, err = s.invite(r, c); err != nil {
			return err
		}
	}
	if secret && !s.may(r, identity.ReadInstaller, c) {
		return fmt.Errorf("%s: %w for workers, as it may have secrets", bundle.InstallerName, fs.ErrNotExist)
	}
	blob, err := s.open(r.Context(), r.PathValue("sha256"))
	if err != nil {
		return err
	}
	return serveBlob(w, r, blob)
}

// serveBlob answers with a blob, or with the requested part of it, and closes it.
func serveBlob(w http.ResponseWriter, r *http.Request, blob peer.Blob) error {
	defer blob.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	httprange.Serve(w, r, time.Time{}, io.NewSectionReader(blob, 0, blob.Size()))
	return nil
}

// pull answers containerd of a node.
func (s *Server) pull(w http.ResponseWriter, r *http.Request, _ client) error {
	s.Images.ServeHTTP(w, r)
	return nil
}

// peer answers containerd of a node that has a permit, and control planes.
func (s *Server) peer(w http.ResponseWriter, r *http.Request, _ client) error {
	s.Peer.ServeHTTP(w, r)
	return nil
}

// isInstaller reports whether a digest is that of the Installer of the bundle.
func (s *Server) isInstaller(sha256 string) (bool, error) {
	x, err := s.read()
	if err != nil {
		return false, err
	}
	e, ok := x.archive.Entry(bundle.InstallerName)
	return ok && e.SHA256 == sha256, nil
}
