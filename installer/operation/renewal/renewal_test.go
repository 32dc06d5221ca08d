package renewal_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/operation/renewal"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// node is a node with one certificate and a clock.
type node struct {
	renewal.Keeper
	mu      sync.Mutex
	now     time.Time
	end     time.Time
	renewed int
}

const year = 365 * 24 * time.Hour

func newNode(t *testing.T) *node {
	n := &node{now: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	n.end = n.now.Add(year)
	n.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	n.Now = func() time.Time { return n.now }
	n.List = func(time.Time) ([]pki.Entry, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		end, at := n.end, n.end.Add(-120*24*time.Hour)
		return []pki.Entry{{File: "admin.conf", End: &end, RenewedBy: pki.Sealift, Renewal: &at}}, nil
	}
	n.Renew = func(context.Context) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.renewed++
		n.end = n.now.Add(year)
		return nil
	}
	n.Settled = func(context.Context) error { return nil }
	n.Answers = func(context.Context) bool { return true }
	return n
}

// TestCertificateIsRenewedMonthsBeforeExpiry lets five years go by in steps of thirty days.
func TestCertificateIsRenewedMonthsBeforeExpiry(t *testing.T) {
	n := newNode(t)
	for range 60 {
		n.now = n.now.Add(30 * 24 * time.Hour)
		if err := n.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := n.end.Sub(n.now); left < 90*24*time.Hour {
			t.Errorf("on %s there are %s left", n.now, left)
		}
	}
	if n.renewed < 5 || n.renewed > 8 {
		t.Errorf("renewed %d times in five years", n.renewed)
	}
}

// TestControlPlanesRenewSequentially has three of them check at the same time.
func TestControlPlanesRenewSequentially(t *testing.T) {
	config := controlplane.ForTest(t)
	var working, together atomic.Int32
	var all sync.WaitGroup
	var nodes []*node
	for range 3 {
		n := newNode(t)
		nodes = append(nodes, n)
		n.now = n.now.Add(250 * 24 * time.Hour)
		n.Cluster = func() (*kube.Cluster, error) { return kube.Connect(config, nil) }
		renew := n.Renew
		n.Renew = func(ctx context.Context) error {
			if working.Add(1) > 1 {
				together.Add(1)
			}
			defer working.Add(-1)
			time.Sleep(300 * time.Millisecond)
			return renew(ctx)
		}
		all.Go(func() {
			if err := n.Pass(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, n := range nodes {
		if n.renewed != 1 {
			t.Errorf("one renewed %d times", n.renewed)
		}
	}
	if together.Load() > 0 {
		t.Errorf("%d renewed at the same time as another", together.Load())
	}
}

func TestControlPlaneWaitsForStableClusterWithTimeout(t *testing.T) {
	config := controlplane.ForTest(t)
	n := newNode(t)
	n.Cluster = func() (*kube.Cluster, error) { return kube.Connect(config, nil) }
	down := errors.New("control plane b is not ready")
	n.Settled = func(context.Context) error { return down }
	n.now = n.end.Add(-100 * 24 * time.Hour)
	if err := n.Pass(t.Context()); !errors.Is(err, down) || n.renewed != 0 {
		t.Errorf("%v, %d", err, n.renewed)
	}
	n.now = n.end.Add(-80 * 24 * time.Hour)
	if err := n.Pass(t.Context()); err != nil || n.renewed != 1 {
		t.Errorf("%v, %d", err, n.renewed)
	}
}

// TestExpiredCertificatesNeedNoAPI: with them, the node cannot ask it.
func TestExpiredCertificatesNeedNoAPI(t *testing.T) {
	n := newNode(t)
	n.Cluster = func() (*kube.Cluster, error) { return nil, errors.New("the API was asked") }
	n.now = n.end.Add(time.Hour)
	if err := n.Pass(t.Context()); err != nil || n.renewed != 1 {
		t.Errorf("%v, %d", err, n.renewed)
	}
}

// TestCommandWaitsForRenewalSlot: two people renew on two control planes while a third one renews automatically.
func TestCommandWaitsForRenewalSlot(t *testing.T) {
	config := controlplane.ForTest(t)
	var working, together, done atomic.Int32
	work := func(context.Context) error {
		if working.Add(1) > 1 {
			together.Add(1)
		}
		defer working.Add(-1)
		time.Sleep(300 * time.Millisecond)
		done.Add(1)
		return nil
	}
	var all sync.WaitGroup
	for i := range 3 {
		n := newNode(t)
		n.Cluster = func() (*kube.Cluster, error) { return kube.Connect(config, nil) }
		n.Renew = work
		all.Go(func() {
			err := error(nil)
			if i == 0 {
				n.now = n.now.Add(250 * 24 * time.Hour)
				err = n.Pass(t.Context())
			} else {
				err = n.InTurn(t.Context(), func(string) {}, work)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 3 || together.Load() > 0 {
		t.Errorf("%d of 3 are done, %d at the same time as another", done.Load(), together.Load())
	}
}

// TestRenewalNeedsNoSlotWithoutAPI: a renewal may bring it back.
func TestRenewalNeedsNoSlotWithoutAPI(t *testing.T) {
	asked := func() (*kube.Cluster, error) { return nil, errors.New("the API was asked") }
	for name, set := range map[string]func(*node){
		"a worker":                func(*node) {},
		"the API is not ready":    func(n *node) { n.Cluster, n.Answers = asked, func(context.Context) bool { return false } },
		"a certificate has ended": func(n *node) { n.Cluster, n.now = asked, n.end.Add(time.Hour) },
		"certificates can't be read": func(n *node) {
			n.Cluster, n.List = asked, func(time.Time) ([]pki.Entry, error) { return nil, errors.New("no") }
		},
	} {
		n := newNode(t)
		set(n)
		done := false
		err := n.InTurn(t.Context(), func(string) {}, func(context.Context) error { done = true; return nil })
		if err != nil || !done {
			t.Errorf("%s: %v, done: %t", name, err, done)
		}
	}
}

// TestClockSetAheadRenewsNothingAtOnce sets the clock of a node fourteen months ahead, and back before the next pass; then ahead for good.
func TestClockSetAheadRenewsNothingAtOnce(t *testing.T) {
	n := newNode(t)
	begin, even := n.now, time.Duration(0)
	n.Elapsed = func() time.Duration { return even }
	for _, step := range []struct {
		name    string
		clock   time.Duration // against an even one
		renewed int
	}{
		{"the right clock", 0, 0}, {"fourteen months ahead", 425 * 24 * time.Hour, 0}, {"right again", 0, 0}, {"in 1970", begin.Sub(time.Unix(0, 0)) * -1, 0},
		{"right again after 1970", 0, 0}, {"a day ahead", 24 * time.Hour, 0}, {"fourteen months ahead again", 425 * 24 * time.Hour, 0},
		{"fourteen months ahead for good", 425 * 24 * time.Hour, 1},
	} {
		even += 10 * time.Minute
		n.now = begin.Add(even + step.clock)
		if err := n.Pass(t.Context()); err != nil || n.renewed != step.renewed {
			t.Errorf("%s: renewed %d times, want %d; %v", step.name, n.renewed, step.renewed, err)
		}
	}
}
