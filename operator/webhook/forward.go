package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// reachTime is the timeout for a connection to the leader, and silence how long an unreachable leader is not tried again.
	reachTime = time.Second
	silence   = 5 * time.Second
	// leaderIdle is how long a connection to the leader is kept without a review.
	leaderIdle = 2 * time.Minute
	// usualTime is the timeout of a review that does not say its own.
	usualTime = 10 * time.Second
	// forwardedHeader marks a review that was passed on. It is answered where it arrives.
	forwardedHeader = "Sealift-Standby"
)

// leaderFirst forwards to the leader, if it is another operator: its hooks see values that only it has in memory. If it does
// not answer in two thirds of the time that the API server waits, next does.
func (e *endpoint) leaderFirst(next answer) answer {
	if e.server.options.Leader == nil {
		return next
	}
	return func(w http.ResponseWriter, req *http.Request, body []byte) {
		address := ""
		if req.Header.Get(forwardedHeader) == "" && time.Now().UnixNano() > e.silentUntil.Load() {
			address = e.server.options.Leader(req.Context())
		}
		if address != "" {
			said, err := e.askLeader(req, address, body)
			if err == nil {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(said)
				return
			}
			e.server.log.WarnContext(req.Context(), "the leader does not answer a review, so this operator does", "leader", address, "path", req.URL.Path, "error", err)
		}
		next(w, req, body)
	}
}

// askLeader passes a review on to the same port of the leader.
func (e *endpoint) askLeader(req *http.Request, address string, body []byte) ([]byte, error) {
	_, port, err := net.SplitHostPort(e.Listen)
	if err != nil {
		return nil, err
	}
	limit, err := time.ParseDuration(req.URL.Query().Get("timeout"))
	if err != nil || limit <= 0 {
		limit = usualTime
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit*2/3)
	defer cancel()
	target := *req.URL
	target.Scheme, target.Host = "https", net.JoinHostPort(address, port)
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header.Set("Content-Type", req.Header.Get("Content-Type"))
	out.Header.Set(forwardedHeader, "yes")
	resp, err := e.shown.Load().leader.Do(out)
	if err != nil {
		if network := (*net.OpError)(nil); errors.As(err, &network) && network.Op == "dial" {
			e.silentUntil.Store(time.Now().Add(silence).UnixNano())
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, conversionSize))
}

// leaderClient reaches the other operators, which have certificates for the same Service by the same CA. It presents its own to
// a leader that asks for one, though that names only the CAs of API servers.
func (e *endpoint) leaderClient(pair *tls.Certificate, authority *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: reachTime}).DialContext,
		TLSHandshakeTimeout: reachTime, IdleConnTimeout: leaderIdle, MaxIdleConnsPerHost: parallel,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authority, ServerName: e.names()[0],
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }},
	}}
}

// replicaOr admits clients by one of the CAs of clients, and other replicas: the owner of a key for our Service could as well
// answer in our place. Other certificates by the authority do not count, since it may be that of a whole company.
func (e *endpoint) replicaOr(clients, authority *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		shown, client := s.PeerCertificates[0], []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		_, err := shown.Verify(x509.VerifyOptions{Roots: clients, Intermediates: between, KeyUsages: client})
		if err == nil {
			return nil
		}
		if _, other := shown.Verify(x509.VerifyOptions{Roots: authority, Intermediates: between, DNSName: e.names()[0]}); other == nil {
			return nil
		}
		return err
	}
}
