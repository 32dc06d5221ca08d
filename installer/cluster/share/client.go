package share

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/cluster/identity"
)

const (
	// answerTime bounds the wait for a connection and for the start of a response, and maxAnswer the bytes read into memory.
	answerTime = time.Minute
	maxAnswer  = 64 << 20
)

// Client asks a server.
type Client struct {
	// CertificateKey is presented by a host that becomes a control plane; empty for a worker.
	CertificateKey string

	address string
	token   string
	http    *http.Client
}

// NewClient makes a client of the server at host:port, which must show a certificate of the CA whose public key has this
// hash, written sha256: and hexadecimal as kubeadm does.
func NewClient(address, token, caHash string) (*Client, error) {
	pin, err := identity.ParseCAHash(caHash)
	if err != nil {
		return nil, err
	}
	client, _ := newClient(address, token, pins{pin}, caHash)
	return client, nil
}

func newClient(address, token string, trusted pins, want string) (*Client, *tls.Config) {
	dialer := &net.Dialer{Timeout: answerTime} // the kernel would try for longer
	transport := &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: answerTime, TLSHandshakeTimeout: answerTime, MaxIdleConnsPerHost: 4}
	// the certificate is verified below: only the hash of its CA is known
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} //nolint:gosec // as said
	transport.TLSClientConfig.VerifyConnection = func(state tls.ConnectionState) error {
		if err := trusted.verify(state, address); err != nil {
			return &CAError{Address: address, Want: want, Err: err}
		}
		return nil
	}
	return &Client{address: address, token: token, http: &http.Client{Transport: transport}}, transport.TLSClientConfig
}

// NewNodeClient creates a client for a node of the cluster, which trusts the CAs in the file cas. certificate returns what the node
// presents; it is called for each connection.
func NewNodeClient(address, cas string, certificate func() (*tls.Certificate, error)) (*Client, error) {
	all, err := identity.ReadCAs(cas)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	var trusted pins
	for _, ca := range all {
		sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
		trusted = append(trusted, sum[:])
	}
	c, config := newClient(address, "", trusted, identity.CAHash(all[0]))
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	return c, nil
}

// KubeletCertificate returns what a worker presents: the certificate and key in a file of its kubelet, which replaces it.
func KubeletCertificate(file string) func() (*tls.Certificate, error) {
	return func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return nil, fmt.Errorf("the certificate of this node's kubelet: %w", err)
		}
		return &pair, nil
	}
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader, ranges string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+c.address+path, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.CertificateKey != "" {
		request.Header.Set(keyHeader, c.CertificateKey)
	}
	if ranges != "" {
		request.Header.Set("Range", ranges)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if untrusted, ok := errors.AsType[*CAError](err); ok {
			return nil, untrusted
		}
		return nil, fmt.Errorf("ask %s: %w", c.address, err)
	}
	if response.StatusCode == http.StatusOK || ranges != "" && response.StatusCode == http.StatusPartialContent {
		return response, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	switch response.StatusCode {
	case http.StatusUnauthorized:
		if c.token == "" {
			return nil, fmt.Errorf("%s: %w", c.address, ErrMember)
		}
		return nil, ErrToken
	case http.StatusForbidden:
		if c.token == "" {
			return nil, fmt.Errorf("%s: %w", c.address, ErrRight)
		}
		return nil, ErrCertificateKey
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s does not have it: %w", c.address, fs.ErrNotExist)
	}
	return nil, fmt.Errorf("%s answers %s: %s", c.address, response.Status, strings.TrimSpace(string(said)))
}

func (c *Client) read(ctx context.Context, method, path string, body io.Reader, limit int64) ([]byte, error) {
	response, err := c.do(ctx, method, path, body, "")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s from %s: %w", path, c.address, err)
	}
	return data, nil
}

// Cluster requests the cluster's data.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var cluster Cluster
	data, err := c.read(ctx, http.MethodGet, clusterPath, nil, 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &cluster)
	}
	return cluster, err
}

// Archive returns the bundle that the node was installed from. Its files are fetched when they are read, until ctx ends.
func (c *Client) Archive(ctx context.Context) (*bundle.Archive, error) {
	index, err := c.read(ctx, http.MethodGet, indexPath, nil, maxAnswer)
	if err != nil {
		return nil, err
	}
	sig, err := c.read(ctx, http.MethodGet, signPath, nil, signature.MaxSize)
	if err != nil {
		return nil, err
	}
	if len(sig) == 0 {
		sig = nil
	}
	a, err := bundle.NewUnpacked(index, sig, func(e bundle.Entry) (io.ReadCloser, error) { return c.open(ctx, e, entryPath+e.SHA256), nil })
	if err == nil {
		a.SetVerdict(c.verdict(ctx, verdictPath))
	}
	return a, err
}

// verdict returns a function that fetches the verdict about a bundle.
func (c *Client) verdict(ctx context.Context, path string) func() (verdict.Signed, error) {
	return func() (signed verdict.Signed, err error) {
		data, err := c.read(ctx, http.MethodGet, path, nil, 2*verdict.MaxSize) // in base64
		if err == nil {
			err = json.Unmarshal(data, &signed)
		}
		return signed, err
	}
}

// Missing returns the digests that the node does not have.
func (c *Client) Missing(ctx context.Context, digests []string) ([]string, error) {
	question, err := json.Marshal(digests)
	if err != nil {
		return nil, err
	}
	var missing []string
	data, err := c.read(ctx, http.MethodPost, missingPath, bytes.NewReader(question), maxAnswer)
	if err == nil {
		err = json.Unmarshal(data, &missing)
	}
	return missing, err
}
