// Package peer lets nodes of a cluster give blobs of images to each other, so that a control plane does not send each of them to every node.
//
// A control plane that is asked for a blob sends it to the first node. It sends the others, by a redirect of HTTP, to nodes that have the
// blob by then: see Spread. Each redirect has a permit, which the control plane signs for one blob and the two nodes. A node gives a blob only
// to the node that the permit names: see Server. So a node needs to know neither which nodes the cluster has, nor which images may be given out.
//
// The package never writes, and trusts no node for content: containerd compares each blob with its digest. The caller checks who may pull
// from the control plane, and bounds connections.
package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/httprange"
)

// Path is the beginning of the paths of blobs, which end with the sha256 in hexadecimal.
const Path = "/v1/blobs/"

// permitKey is the key of the permit in the query of a URL.
const permitKey = "permit"

// Blob is the content of a blob.
type Blob interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Server gives blobs of this node to other nodes. All fields are needed.
type Server struct {
	Node string // the name of this node
	// Trusted returns the CAs of the cluster.
	Trusted func() ([]*x509.Certificate, error)
	// Blob opens a blob by the hexadecimal digits of its sha256. A missing one is fs.ErrNotExist.
	Blob func(ctx context.Context, sha256 string) (Blob, error)
	Log  *slog.Logger
}

// TLS is the configuration of a server that demands a certificate of the cluster from each client. The functions return the CAs of the
// cluster, and the server's certificate. They are called for each connection: both may be replaced.
func TLS(trusted func() ([]*x509.Certificate, error), certificate func() (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cas, err := trusted()
		if err != nil {
			return nil, err
		}
		own, err := certificate()
		if err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: identity.Pool(cas)}, nil
	}}
}

// ServeHTTP implements http.Handler. A control plane may ask whether a blob is here (HEAD). A node gets the blob, or a range of it, with a
// permit. Status 404 means that the blob is not here, and 403 that the client has no right to it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "blobs can only be read here", http.StatusMethodNotAllowed)
		return
	}
	sha256 := strings.TrimPrefix(r.URL.Path, Path)
	party, node := identity.Client(r.TLS)
	if err := s.admit(r, sha256, party, node); err != nil {
		s.Log.Warn("audit: refused", "right", identity.ReadBlob, "party", party, "node", node, "host", r.RemoteAddr, "error", err)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	blob, err := s.Blob(r.Context(), sha256)
	if err != nil {
		status := http.StatusInternalServerError // the control plane logs it
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer blob.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	httprange.Serve(w, r, time.Time{}, io.NewSectionReader(blob, 0, blob.Size()))
}

// admit checks that a client has a right to a blob.
func (s *Server) admit(r *http.Request, sha256 string, party identity.Party, node string) error {
	if !party.Has(identity.ReadBlob) {
		return errPermit
	}
	if party == identity.Member && r.Method == http.MethodHead {
		return nil
	}
	trusted, err := s.Trusted()
	if err != nil {
		return err
	}
	p, err := parsePermit(r.URL.Query().Get(permitKey), trusted, time.Now())
	if err == nil && (p.SHA256 != sha256 || p.To != node || p.From != s.Node || party != identity.Worker) {
		err = errPermit
	}
	return err
}
