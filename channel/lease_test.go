package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

func TestOneRunAtATime(t *testing.T) {
	c, err := Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	second := make(chan error, 1)
	err = c.withLease(t.Context(), nil, func(ctx context.Context) error {
		var atWork atomic.Bool
		atWork.Store(true)
		defer atWork.Store(false)
		go func() {
			second <- c.withLease(t.Context(), func(line string) { told <- line }, func(context.Context) error {
				if atWork.Load() {
					t.Error("two runs are at work")
				}
				return nil
			})
		}()
		line := <-told
		leases, err := c.engine.Objects(ctx, kube.Ref{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease", Namespace: "kube-system"})
		if err != nil {
			return err
		}
		held, err := leases.Get(ctx, "sealift-channel", metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec := held.Object["spec"].(map[string]any)
		want := "another run applies add-ons to this cluster: waiting for it to end (its lease sealift-channel in kube-system names " + spec["holderIdentity"].(string) + ")"
		if line != want {
			t.Errorf("told %q, want %q", line, want)
		}
		if spec["leaseDurationSeconds"] != int64(15) || spec["acquireTime"] == nil || spec["renewTime"] == nil {
			t.Errorf("the lease says %v", spec)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// testLostLease cuts the line to the API server in the middle of a run, for longer than the run may go without a renewal.
// It starts over where it was.
func testLostLease(p *playground) {
	p.cluster.lease = lease.Options{Duration: 3 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond}
	defer func() { p.cluster.lease = lease.Options{} }()
	var adds []add
	for i := range 6 {
		adds = append(adds, add{fmt.Sprintf("name: lost-lease-%d", i), configMap(fmt.Sprintf("lost-lease-%d", i), "1")})
	}
	plan, err := p.cluster.Plan(p.Context(), p.entries(adds...))
	if err != nil {
		p.Fatal(err)
	}
	var done, notes []string
	o := ApplyOptions{Note: func(line string) { notes = append(notes, line) }, Done: func(d Decision) {
		if done = append(done, d.Entry.Name); len(done) == 2 {
			p.cut.Store(true)
			time.AfterFunc(2*time.Second, func() { p.cut.Store(false) })
		}
	}}
	if err := p.cluster.Apply(p.Context(), Source{}, plan, o); err != nil {
		p.Error(err)
	}
	if len(done) != len(adds) || p.value("lost-lease-5") != "1" {
		p.Errorf("done: %v", done)
	}
	const want = "the lease was lost: kube-system/sealift-channel could not be renewed for 1s: "
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "the run stops and starts over: ") || !strings.Contains(notes[0], want) {
		p.Errorf("told %q, want %q", notes, want)
	}
	tries := 0
	err = p.cluster.withLease(p.Context(), nil, func(ctx context.Context) error {
		tries++
		p.cut.Store(true)
		<-ctx.Done()
		p.cut.Store(false)
		return context.Cause(ctx)
	})
	if !errors.Is(err, lease.ErrLost) || !strings.HasSuffix(err.Error(), "; run the command again") || tries != 3 {
		p.Errorf("error is %v after %d tries", err, tries)
	}
}
