package history

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/sealift/sealift/internal/regularfile"
)

const (
	// answerTime is how long an answer may take.
	answerTime = 10 * time.Second
	// serverName is in the certificate of each API server.
	serverName = "kubernetes"
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
)

// Node names the database and the API server of a node to measure.
type Node struct {
	Database string // file of etcd's database
	CA       string // file with the cluster's CA
	Server   string // https URL of this node's API server
}

// Measure takes a sample. What cannot be measured is 0.
func (n Node) Measure(ctx context.Context) Sample {
	s := Sample{Time: time.Now().UTC(), API: n.answer(ctx)}
	if info, err := os.Stat(n.Database); err == nil {
		s.Etcd = info.Size()
	}
	return s
}

// answer returns how long it takes to connect and to be told whether the API server is ready, which includes its own look at etcd. A refusal of
// requests without credentials is an answer, too.
func (n Node) answer(ctx context.Context) (milliseconds float64) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	ca, err := regularfile.ReadFile(n.CA) // each time: it may be rotated
	if err != nil {
		return 0
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: serverName}
	settings.RootCAs.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.Server+"/readyz", nil)
	if err != nil {
		return 0
	}
	began := time.Now()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)); err != nil {
		return 0
	}
	return float64(time.Since(began).Microseconds()) / 1000
}
