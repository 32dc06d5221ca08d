package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
)

const (
	// lookTime bounds a question to a node, and parallelLooks how many are asked at once for one blob.
	lookTime      = 3 * time.Second
	parallelLooks = 16
)

// look asks the nodes that are receiving a blob, or should have it, whether they have it. A node that does not answer gives nothing to others for some time.
func (s *Spread) look(ctx context.Context, b *record) {
	var asked sync.WaitGroup
	slots := make(chan struct{}, parallelLooks)
	for _, c := range s.due(b) {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s.ask(ctx, b, c)
		})
	}
	asked.Wait()
}

// due returns the replicas to ask about now.
func (s *Spread) due(b *record) (all []*replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(b.looked.Add(lookPause)) { // for another client
		return nil
	}
	b.looked = now
	for _, c := range b.copies {
		over := c.since.Add(transferTime)
		if !c.has && !now.Before(s.away[c.node]) && (now.Before(over) || c.checked.Before(over)) { // after its time once
			all = append(all, c)
		}
	}
	return all
}

// confirm asks the chosen node once more whether it has the blob, unless it said so just now. If not, the client is assigned to nobody.
func (s *Spread) confirm(ctx context.Context, b *record, from, to *replica) bool {
	s.mu.Lock()
	fresh, since := time.Since(from.checked) < lookPause, from.proved
	s.mu.Unlock()
	has, err := fresh || s.ask(ctx, b, from), error(nil)
	if has {
		if err = s.Node(ctx, from.node, since); err == nil {
			return true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.Log.Warn("cannot send a node elsewhere for a blob", "node", to.node, "to", from.node, "error", err)
		s.away[from.node] = time.Now().Add(awayTime)
	}
	from.given--
	if b.copies[to.node] == to {
		delete(b.copies, to.node)
	}
	return false
}

// ask asks a node whether it has a blob, and records the answer.
func (s *Spread) ask(ctx context.Context, b *record, c *replica) bool {
	has, since, err := s.has(ctx, b.sha256, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err == nil && !has && !now.Before(c.sent.Add(storeTime)) && now.Before(c.sent.Add(transferTime)) {
		err = errors.New("does not keep what it was sent")
	}
	c.has, c.checked, c.proved = has, now, since
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("a node gives no blobs to others for now", "node", c.node, "address", c.address, "error", err)
		s.away[c.node] = now.Add(awayTime)
	}
	return has
}

// has asks a node whether it has a blob. The node proves its name by a certificate of the cluster for its address, which it has since a time.
func (s *Spread) has(ctx context.Context, sha256 string, c *replica) (has bool, since time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+c.address+Path+sha256, nil)
	if err != nil {
		return false, since, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return false, since, err
	}
	_ = response.Body.Close()
	leaf := response.TLS.PeerCertificates[0]
	if !isOf(leaf, c.node) {
		return false, since, errors.New("its certificate is of another node")
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusNotFound:
		return response.StatusCode == http.StatusOK, identity.Since(leaf), nil
	}
	return false, since, fmt.Errorf("answers %s", response.Status)
}

// isOf reports whether a verified certificate proves a node, as its kubelet or as a control plane.
func isOf(verified *x509.Certificate, node string) bool {
	if name, ok := identity.Kubelet(verified); ok {
		return name == node
	}
	name, ok := identity.ControlPlane(verified)
	return ok && name == node
}

// newClient creates the client that asks nodes. It follows no redirect: a node is asked about what it has itself.
func (s *Spread) newClient() *http.Client {
	certificate := s.Authority.Client(s.Own)
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: identity.Pool(s.Authority.Trusted),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() },
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
