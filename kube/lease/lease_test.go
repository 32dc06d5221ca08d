package lease

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube"
)

// shared is one control plane for all tests of the package that do not stop it: each has its own Lease.
var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

func connect(t *testing.T, cfg *rest.Config) *kube.Cluster {
	t.Helper()
	cluster, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// quick returns options for a Lease of this test, with short durations.
func quick(t *testing.T) Options {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	return Options{Namespace: metav1.NamespaceSystem, Name: name, Duration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond, Tries: 1}
}

// leases reads and writes the Lease of some options as another client would.
type leases struct {
	t      *testing.T
	client coordinationv1client.LeaseInterface
	name   string
}

func leasesOf(t *testing.T, o Options) leases {
	t.Helper()
	client, err := coordinationv1client.NewForConfig(shared.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return leases{t, client.Leases(o.Namespace), o.Name}
}

func (l leases) get() *coordinationv1.Lease {
	l.t.Helper()
	lease, err := l.client.Get(l.t.Context(), l.name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return lease
}

func (l leases) holder() string {
	l.t.Helper()
	return *l.get().Spec.HolderIdentity
}

// create creates the Lease for another holder.
func (l leases) create(holder string, seconds int32) {
	l.t.Helper()
	now := metav1.NowMicro()
	_, err := l.client.Create(l.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: l.name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

// site counts the workers, and fails the test if there are two.
type site struct {
	t      *testing.T
	atWork atomic.Int32
	shifts atomic.Int32
}

// work lasts a moment, or until ctx ends.
func (s *site) work(takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if n := s.atWork.Add(1); n > 1 {
			s.t.Errorf("%d are at work", n)
		}
		defer s.atWork.Add(-1)
		s.shifts.Add(1)
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func TestLeaseAdmitsOneHolderInTurn(t *testing.T) {
	t.Parallel()
	const runs = 5
	o, s := quick(t), &site{t: t}
	var all sync.WaitGroup
	for range runs {
		all.Go(func() {
			if err := Run(t.Context(), connect(t, shared.Config(t)), o, s.work(100*time.Millisecond)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.shifts.Load(); n != runs {
		t.Errorf("%d of %d worked", n, runs)
	}
	if holder := leasesOf(t, o).holder(); holder != "" {
		t.Errorf("the lease is still held by %q", holder)
	}
}

func TestWaiterLearnsHolderOnce(t *testing.T) {
	t.Parallel()
	o := quick(t)
	var told []string
	err := Run(t.Context(), connect(t, shared.Config(t)), o, func(ctx context.Context) error {
		holder := leasesOf(t, o).holder()
		if holder == "" || gone(holder) {
			t.Errorf("the holder is %q", holder)
		}
		waiting := o
		waiting.Patience = time.Second
		waiting.Waiting = func(holder string) { told = append(told, holder) }
		err := Run(ctx, connect(t, shared.Config(t)), waiting, func(context.Context) error { t.Error("two are at work"); return nil })
		if want := fmt.Sprintf("%s has held the lease %s for 1s", holder, o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
		if len(told) != 1 || told[0] != holder {
			t.Errorf("told %q, want %q", told, holder)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRunReturnsErrorOfWork(t *testing.T) {
	t.Parallel()
	want := errors.New("out of bricks")
	if err := Run(t.Context(), connect(t, shared.Config(t)), quick(t), func(context.Context) error { return want }); err != want { //nolint:errorlint // the very same
		t.Errorf("error is %v", err)
	}
}

func TestWorkEndsWhenAnotherTakesLease(t *testing.T) {
	t.Parallel()
	o := quick(t)
	o.Duration, o.RenewDeadline = 30*time.Second, 20*time.Second // far longer than until the next read of the Lease
	l := leasesOf(t, o)
	err := Run(t.Context(), connect(t, shared.Config(t)), o, func(ctx context.Context) error {
		lease := l.get()
		elsewhere := "elsewhere"
		for lease.Spec.HolderIdentity = &elsewhere; ; lease = l.get() {
			lease.Spec.HolderIdentity = &elsewhere
			if _, err := l.client.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Error("it works on")
		}
		return ctx.Err()
	})
	if !errors.Is(err, ErrLost) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "elsewhere has taken") {
		t.Errorf("error is %v", err)
	}
	if holder := l.holder(); holder != "elsewhere" {
		t.Errorf("the release left the lease to %q", holder)
	}
}

func TestDeletedLeaseIsRecreated(t *testing.T) {
	t.Parallel()
	o := quick(t)
	l := leasesOf(t, o)
	err := Run(t.Context(), connect(t, shared.Config(t)), o, func(ctx context.Context) error {
		before := l.holder()
		if err := l.client.Delete(ctx, l.name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		for {
			lease, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
			switch {
			case err == nil && *lease.Spec.HolderIdentity != before:
				t.Errorf("%q holds it", *lease.Spec.HolderIdentity)
				fallthrough
			case err == nil:
				return nil
			case ctx.Err() != nil:
				return context.Cause(ctx)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSilentRemoteHolderIsReplacedAfterDuration(t *testing.T) {
	t.Parallel()
	o := quick(t)
	leasesOf(t, o).create("elsewhere", int32(o.Duration/time.Second))
	start := time.Now()
	if err := Run(t.Context(), connect(t, shared.Config(t)), o, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(start); waited < o.Duration {
		t.Errorf("it counted as gone after %s", waited)
	}
}

func TestDeadLocalHolderIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	o := quick(t)
	leasesOf(t, o).create(deadHolder(t), 3600)
	o.Patience = 30 * time.Second
	o.Waiting = func(holder string) { t.Errorf("it waits for %s", holder) }
	if err := Run(t.Context(), connect(t, shared.Config(t)), o, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// deadHolder is the identity of a process of this machine that has ended.
func deadHolder(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(identity(), "_")
	parts[2] = strconv.Itoa(cmd.Process.Pid)
	return strings.Join(parts, "_")
}

func TestDeadHoldersAreDetectedOnTheirMachineOnly(t *testing.T) {
	t.Parallel()
	if gone(identity()) {
		t.Error("this process counts as gone")
	}
	dead := deadHolder(t)
	if !gone(dead) {
		t.Error("a process that has ended counts as living")
	}
	parts := strings.Split(dead, "_")
	parts[1] = "another-boot"
	for _, holder := range []string{strings.Join(parts, "_"), "", "controller-1", "a_b_c_d_e"} {
		if gone(holder) {
			t.Errorf("%q counts as gone, which nobody can know", holder)
		}
	}
}

func TestWaitingEndsWithCaller(t *testing.T) {
	t.Parallel()
	o := quick(t)
	leasesOf(t, o).create("elsewhere", 3600)
	ctx, cancel := context.WithCancelCause(t.Context())
	want := errors.New("no time")
	o.Waiting = func(string) { cancel(want) }
	if err := Run(ctx, connect(t, shared.Config(t)), o, func(context.Context) error { return nil }); !errors.Is(err, want) {
		t.Errorf("error is %v", err)
	}
}

func TestWaitingEndsWithPermanentError(t *testing.T) {
	t.Parallel()
	o := quick(t)
	never := func(context.Context) error { t.Error("it works"); return nil }
	for _, test := range []struct {
		name   string
		change func(*Options, *rest.Config)
		want   string
	}{
		{"nobody listens", func(_ *Options, cfg *rest.Config) { cfg.Host = "https://127.0.0.1:1" }, "look at the lease " + o.String() + ": gave up after 1s: "},
		{"not allowed", func(_ *Options, cfg *rest.Config) { *cfg = *rest.AnonymousClientConfig(cfg) }, "look at the lease " + o.String() + ": leases.coordination.k8s.io"},
		{"no such namespace", func(o *Options, _ *rest.Config) { o.Namespace = "nowhere" }, "take the lease nowhere/" + o.Name + ": namespaces \"nowhere\" not found"},
		{"half a second", func(o *Options, _ *rest.Config) { o.Duration += time.Second / 2 }, "has to be whole seconds"},
		{"a deadline after the duration", func(o *Options, _ *rest.Config) { o.RenewDeadline = o.Duration }, "must be greater than renewDeadline"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, cfg := o, shared.Config(t)
			o.Outage = time.Second
			test.change(&o, cfg)
			if err := Run(t.Context(), connect(t, cfg), o, never); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}
