package hub

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
)

// holdAll starts the only hub and waits until it holds all shards. over is closed when the hub has ended.
func holdAll(t *testing.T, s *shards) (cancel func(), over <-chan struct{}) {
	t.Helper()
	gained := make(chan int, shardCount)
	s.onGain(func(n int) { gained <- n })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Start(ctx)
	}()
	for range shardCount {
		select {
		case <-gained:
		case <-time.After(time.Minute):
			cancel()
			t.Fatal("a hub alone does not get all shards")
		}
	}
	return cancel, ended
}

// TestWorkEndsBeforeAnotherHubBegins uses a hub whose API server stops to answer. Its work is stopped before its Leases expire,
// and if it does not end, the hub does.
func TestWorkEndsBeforeAnotherHubBegins(t *testing.T) {
	t.Parallel()
	short.Skip(t, "a kube-apiserver")
	plane := controlplane.StartForTest(t, controlplane.Options{})
	client, err := coordinationv1client.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	const duration = 15 * time.Second
	s := newShards(client.Leases("default"), "me", duration, slog.New(slog.DiscardHandler))
	cancel, over := holdAll(t, s)
	diligent, done := s.begin(t.Context(), 0)
	stubborn, _ := s.begin(t.Context(), 1)
	if diligent == nil || stubborn == nil {
		t.Fatal("a shard that is held gives no work")
	}
	paused := time.Now()
	if err := plane.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, working := range []context.Context{diligent, stubborn} {
		select {
		case <-working.Done():
			if after := time.Since(paused); !errors.Is(context.Cause(working), errLost) || after >= duration {
				t.Errorf("after %s: %v", after, context.Cause(working))
			}
		case <-time.After(time.Minute):
			t.Fatal("the work goes on")
		}
	}
	done()
	if working, _ := s.begin(t.Context(), 0); working != nil {
		t.Error("a shard that is lost gives work")
	}
	select {
	case err := <-s.failed:
		if !errors.Is(err, errLost) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the hub goes on though its work does not end")
	}
	if err := plane.Resume(); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-over
}

// TestWorkEndsGracefullyWhenHubJoins has a second hub join. The first one begins no more work in the shards that it gives up. It
// lets the work there finish, and stops it only after a timeout.
func TestWorkEndsGracefullyWhenHubJoins(t *testing.T) {
	t.Parallel()
	client, err := coordinationv1client.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	const duration = 9 * time.Second
	start := func(me string) *shards {
		s := newShards(client.Leases("default"), me, duration, slog.New(slog.DiscardHandler))
		s.patience = 2 * duration
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = s.Start(ctx)
		}()
		t.Cleanup(func() {
			cancel()
			<-over
		})
		return s
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after a minute: %s", what)
			}
		}
	}
	first := start("first")
	var working [shardCount]context.Context
	var done [shardCount]func()
	eventually("a hub alone has all shards", func() bool {
		for n := range shardCount {
			if working[n] == nil {
				working[n], done[n] = first.begin(t.Context(), n)
			}
		}
		return !slices.Contains(working[:], nil)
	})
	second := start("second")
	var yields []int
	eventually("the first hub begins no more work in two shards", func() bool {
		yields = nil
		for n := range shardCount {
			if more, end := first.begin(t.Context(), n); more != nil {
				end()
			} else {
				yields = append(yields, n)
			}
		}
		return len(yields) == shardCount/2
	})
	ends, lasts := yields[0], yields[1]
	time.Sleep(duration * 4 / 3)
	if first.holds(ends) == nil || working[ends].Err() != nil || second.holds(ends) != nil {
		t.Errorf("the work was ended: %v", context.Cause(working[ends]))
	}
	done[ends]()
	eventually("the second hub has the shard whose work has ended", func() bool { return second.holds(ends) != nil })
	eventually("work that lasts is ended", func() bool { return errors.Is(context.Cause(working[lasts]), errYielded) })
	if second.holds(lasts) != nil {
		t.Error("two hubs work on a shard")
	}
	done[lasts]()
	eventually("the second hub has the other shard, too", func() bool { return second.holds(lasts) != nil })
	for n, end := range done {
		if n != ends && n != lasts {
			if working[n].Err() != nil {
				t.Errorf("the work of a shard that stays was ended: %v", context.Cause(working[n]))
			}
			end()
		}
	}
}

// TestLeavingHubReleasesEndedShards uses a hub that ends while the work in its first shard does not.
func TestLeavingHubReleasesEndedShards(t *testing.T) {
	t.Parallel()
	client, err := coordinationv1client.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases("default")
	s := newShards(leases, "leaves", 3*time.Second, slog.New(slog.DiscardHandler))
	cancel, over := holdAll(t, s)
	stubborn, done := s.begin(t.Context(), 0)
	defer done()
	cancel()
	<-over
	if !errors.Is(context.Cause(stubborn), errYielded) {
		t.Errorf("the work was told %v", context.Cause(stubborn))
	}
	for n := range shardCount {
		l, err := leases.Get(t.Context(), shardName(n), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := holderOf(l), map[bool]string{true: "leaves"}[n == 0]; got != want {
			t.Errorf("shard %d is held by %q, want %q", n, got, want)
		}
	}
}
