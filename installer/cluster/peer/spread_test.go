package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
)

// nodes answer questions for a blob: their hosts are their names.
type nodes struct {
	mu    sync.Mutex
	has   map[string]bool
	mute  map[string]bool // do not answer
	asked int
}

// RoundTrip implements http.RoundTripper.
func (n *nodes) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	name := r.URL.Host
	if n.mute[name] {
		return nil, fmt.Errorf("%s: no route to host", name)
	}
	status := http.StatusNotFound
	if n.has[name] {
		status = http.StatusOK
	}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: identity.NodeUser + name, Organization: []string{identity.NodeGroup}}}
	return &http.Response{StatusCode: status, Body: http.NoBody, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}, nil
}

// spread asks these nodes. The node "removed" was removed from the cluster.
func (n *nodes) spread() *Spread {
	return &Spread{Own: "control-plane", Log: slog.New(slog.DiscardHandler), client: &http.Client{Transport: n}, Node: func(_ context.Context, name string, _ time.Time) error {
		if name == "removed" {
			return errors.New("the cluster does not have this node")
		}
		return nil
	}}
}

func (n *nodes) store(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.has[name] = true
}

// rollout has many nodes pull one blob at once. A transfer between two nodes takes ten seconds. It returns how many transfers each node
// sent, and how long all of it took.
func rollout(t *testing.T, many int, n *nodes) (given map[string]int, took time.Duration) {
	t.Helper()
	s := n.spread()
	given = make(map[string]int)
	var mu sync.Mutex
	var pulling sync.WaitGroup
	began := time.Now()
	for i := range many {
		pulling.Go(func() {
			name := fmt.Sprintf("node-%d", i)
			to := &replica{node: name, address: name}
			from := s.source(t.Context(), "a", to, false)
			mu.Lock()
			if from == nil {
				given[s.Own]++
			} else {
				given[from.node]++
			}
			mu.Unlock()
			time.Sleep(10 * time.Second)
			n.store(name)
			if from == nil {
				s.finish("a", to, nil)
			}
		})
	}
	pulling.Wait()
	return given, time.Since(began)
}

func TestNumberOfCopiesDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{has: make(map[string]bool)}
		given, took := rollout(t, 64, n)
		if given["control-plane"] != 1 || took > 100*time.Second { // seven rounds, and the time between them
			t.Errorf("the control plane sent it %d times; all have it after %s", given["control-plane"], took)
		}
		for name, count := range given {
			if count > maxGiven {
				t.Errorf("%s gave it %d times", name, count)
			}
		}
		t.Logf("%s, %d questions", took, n.asked)
	})
}

// TestNodesThatDoNotListenGetImages: agents of an earlier Sealift do not listen, and firewalls may be in the way.
func TestNodesThatDoNotListenGetImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{has: make(map[string]bool), mute: make(map[string]bool)}
		for i := range 20 {
			n.mute[fmt.Sprintf("node-%d", i)] = i != 7
		}
		given, took := rollout(t, 20, n)
		if given["node-7"] > maxGiven || took > 2*time.Minute {
			t.Errorf("%v after %s", given, took)
		}
	})
}

// asked returns the node that a node is sent to for a blob.
func (s *Spread) asked(t *testing.T, name, sha256 string, direct bool) (string, *replica) {
	t.Helper()
	to := &replica{node: name, address: name}
	if from := s.source(t.Context(), sha256, to, direct); from != nil {
		return from.node, to
	}
	return s.Own, to
}

// TestNodeThatKeepsNothingHoldsNobodyUp has a node that deletes what it is sent.
func TestNodeThatKeepsNothingHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&nodes{has: map[string]bool{}}).spread()
		for _, row := range []struct {
			sha256  string
			longest time.Duration
		}{{"1", storeTime + 5*time.Second}, {"2", 0}} {
			_, to := s.asked(t, "a", row.sha256, false)
			s.finish(row.sha256, to, nil)
			began := time.Now()
			if got, _ := s.asked(t, "b", row.sha256, false); got != s.Own || time.Since(began) > row.longest {
				t.Errorf("blob %s: sent to %s after %s", row.sha256, got, time.Since(began))
			}
		}
	})
}

// TestRemovedNodeGivesNothing has a node that was removed, and still has a blob.
func TestRemovedNodeGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&nodes{has: map[string]bool{"removed": true, "b": true}}).spread()
		for _, step := range []struct{ node, want string }{{"removed", s.Own}, {"b", s.Own}, {"c", "b"}} {
			if got, _ := s.asked(t, step.node, "1", false); got != step.want {
				t.Errorf("%s was sent to %s, not %s", step.node, got, step.want)
			}
		}
	})
}

// TestFailedRedirectIsNotRepeated has a node that asks again for what it was sent elsewhere for.
func TestFailedRedirectIsNotRepeated(t *testing.T) {
	for _, direct := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &nodes{has: map[string]bool{"a": true, "c": true}}
			s := n.spread()
			for _, step := range []struct {
				node, sha256 string
				direct       bool
				after        time.Duration
				want         string
			}{
				{"a", "1", false, 0, s.Own},
				{"b", "1", false, 0, "a"},
				{"b", "1", direct, 0, s.Own},         // again
				{"b", "2", false, 0, s.Own},          // everything
				{"c", "1", false, 0, s.Own},          // a gives nothing to others, either
				{"b", "1", false, 2 * awayTime, "c"}, // that is over; a gave it once already
			} {
				time.Sleep(step.after)
				if got, _ := s.asked(t, step.node, step.sha256, step.direct); got != step.want {
					t.Errorf("%s asks for %s: sent to %s, not %s", step.node, step.sha256, got, step.want)
				}
			}
		})
	}
}

// TestOldBlobsAreForgotten bounds the memory.
func TestOldBlobsAreForgotten(t *testing.T) {
	s := &Spread{client: http.DefaultClient}
	now := time.Now()
	for i := range 2 * maxBlobs {
		s.record(strconv.Itoa(i), now.Add(time.Duration(i)*time.Second))
	}
	if len(s.blobs) != maxBlobs || s.blobs[strconv.Itoa(maxBlobs-1)] != nil || s.blobs[strconv.Itoa(maxBlobs)] == nil {
		t.Errorf("%d blobs", len(s.blobs))
	}
}
