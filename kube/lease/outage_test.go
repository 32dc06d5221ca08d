package lease

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
)

// TestLeaseOutlastsStoppedAPIServer has two runs compete, with the durations that users get. The running one has to stop while
// the server is unreachable, before the other may begin.
func TestLeaseOutlastsStoppedAPIServer(t *testing.T) {
	t.Parallel()
	short.Skip(t, "a kube-apiserver")
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plane.Resume()
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	o := Options{Namespace: "kube-system", Name: "stopped", Tries: 1}
	s := &site{t: t}
	var lost atomic.Int32
	shift := func(ctx context.Context) error {
		if s.shifts.Load() == 1 { // the one that the stop interrupts
			return s.work(time.Hour)(ctx)
		}
		return s.work(time.Second)(ctx)
	}
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for running := true; running; {
				err := Run(t.Context(), connect(t, plane.Config()), o, shift)
				switch {
				case errors.Is(err, ErrLost):
					lost.Add(1)
					t.Log(err)
				case err != nil:
					t.Error(err)
				}
				select {
				case <-over:
					running = false
				default:
				}
			}
		})
	}
	until(t, "the second shift", func() bool { return s.shifts.Load() == 2 })
	if err := plane.Pause(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	until(t, "the end of the shift", func() bool { return s.atWork.Load() == 0 })
	if ended := time.Since(start); ended >= 15*time.Second {
		t.Errorf("it worked on for %s, and others may begin after 15s", ended)
	}
	time.Sleep(time.Until(start.Add(20 * time.Second)))
	if err := plane.Resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "two more shifts", func() bool { return s.shifts.Load() >= 4 })
	close(over)
	all.Wait()
	if n := lost.Load(); n != 1 {
		t.Errorf("%d shifts were lost, want the one that the stop interrupts", n)
	}
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// through reaches the control plane through a handler.
func through(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) *rest.Config {
	t.Helper()
	return controlplane.Through(t, shared.Config(t), handle)
}

// TestLeaseOutlastsLostResponses lets each write reach the server and drops two answers of three: the first as if the line
// broke, the second as if it went silent. The Lease was written all the same, and it is ours.
func TestLeaseOutlastsLostResponses(t *testing.T) {
	t.Parallel()
	var writes, dropped atomic.Int32
	cfg := through(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodGet {
			pass.ServeHTTP(w, r)
			return
		}
		n := writes.Add(1)
		if n%3 == 0 {
			pass.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		pass.ServeHTTP(answer, r)
		if answer.Code >= http.StatusBadRequest && answer.Code != http.StatusConflict {
			t.Errorf("the server answered %d: %s", answer.Code, answer.Body)
		}
		dropped.Add(1)
		if n%3 == 2 {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	})
	o := quick(t)
	o.Duration, o.RenewDeadline = 6*time.Second, 4*time.Second
	s := &site{t: t}
	if err := Run(t.Context(), connect(t, cfg), o, s.work(2*o.Duration)); err != nil {
		t.Error(err)
	}
	if n := dropped.Load(); n < 4 {
		t.Errorf("%d answers were dropped, which shows little", n)
	}
	t.Logf("%d of %d answers were dropped", dropped.Load(), writes.Load())
}

// line is a connection to the control plane that can go silent.
type line struct {
	mu     sync.Mutex
	silent chan struct{} // closed when it speaks again; nil while it speaks
}

func (l *line) set(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if silent {
		l.silent = make(chan struct{})
		return
	}
	close(l.silent)
	l.silent = nil
}

func (l *line) config(t *testing.T) *rest.Config {
	return through(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		l.mu.Lock()
		silent := l.silent
		l.mu.Unlock()
		if silent != nil {
			select {
			case <-silent:
			case <-r.Context().Done():
				return
			}
		}
		pass.ServeHTTP(w, r)
	})
}

// TestDisconnectedHolderStopsBeforeNextStarts cuts off only the holder: the other sees the server all the time.
func TestDisconnectedHolderStopsBeforeNextStarts(t *testing.T) {
	t.Parallel()
	o, s, l := quick(t), &site{t: t}, &line{}
	cfg := l.config(t)
	begun := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := Run(t.Context(), connect(t, cfg), o, func(ctx context.Context) error {
			close(begun)
			return s.work(time.Minute)(ctx)
		})
		if !errors.Is(err, ErrLost) {
			t.Errorf("error is %v", err)
		}
	})
	<-begun
	l.set(true)
	if err := Run(t.Context(), connect(t, shared.Config(t)), o, s.work(time.Second)); err != nil {
		t.Error(err)
	}
	all.Wait()
	if n := s.shifts.Load(); n != 2 {
		t.Errorf("%d worked", n)
	}
	l.set(false)
}

// TestWorkRestartsAfterLostLease cuts the holder off for a moment. It takes its own Lease back without waiting for it to run out.
func TestWorkRestartsAfterLostLease(t *testing.T) {
	t.Parallel()
	o, l := quick(t), &line{}
	o.Duration, o.Tries = 30*time.Second, 2
	var told []error
	o.Lost = func(err error) { told = append(told, err) }
	o.Waiting = func(holder string) { t.Errorf("it waits for %s", holder) }
	tries := 0
	cut := func(ctx context.Context) error {
		l.set(true)
		<-ctx.Done()
		l.set(false)
		return context.Cause(ctx)
	}
	cluster := connect(t, l.config(t))
	err := Run(t.Context(), cluster, o, func(ctx context.Context) error {
		if tries++; tries == 1 {
			return cut(ctx)
		}
		return nil
	})
	if err != nil || tries != 2 || len(told) != 1 || !errors.Is(told[0], ErrLost) {
		t.Errorf("error is %v after %d tries, told %v", err, tries, told)
	}
	err = Run(t.Context(), cluster, o, cut)
	if !errors.Is(err, ErrLost) || !strings.HasSuffix(err.Error(), "; run the command again") {
		t.Errorf("lost each time: %v", err)
	}
}

// TestLostLeaseIsNotReleasedWhileWorkStops fails each renewal and lets the release through. Work takes a moment to stop:
// the next holder may not begin before.
func TestLostLeaseIsNotReleasedWhileWorkStops(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	cfg := through(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodGet || !failing.Load() {
			pass.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Contains(body, []byte(`"holderIdentity":""`)) {
			panic(http.ErrAbortHandler)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		pass.ServeHTTP(w, r)
	})
	cfg.ContentType = "application/json" // for the handler to read
	o, s := quick(t), &site{t: t}
	o.Duration = 6 * time.Second // longer than work takes to stop
	begun := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := Run(t.Context(), connect(t, cfg), o, func(ctx context.Context) error {
			close(begun)
			s.atWork.Add(1)
			defer s.atWork.Add(-1)
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrLost) {
			t.Errorf("error is %v", err)
		}
	})
	<-begun
	failing.Store(true)
	if err := Run(t.Context(), connect(t, shared.Config(t)), o, s.work(0)); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// TestReleaseLeavesNextHolderAlone releases after another process has acquired the Lease. The elector would overwrite the new
// holder.
func TestReleaseLeavesNextHolderAlone(t *testing.T) {
	t.Parallel()
	o := quick(t)
	l := leasesOf(t, o)
	l.create("elsewhere", 3600)
	client, err := coordinationv1client.NewForConfig(shared.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	o, err = o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(o, func(error) {}, lockOf(client, o))
	close(g.ended)
	if _, _, err := g.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("error is %v", err)
	}
	if holder := l.holder(); holder != "elsewhere" {
		t.Errorf("the holder is now %q", holder)
	}
}
