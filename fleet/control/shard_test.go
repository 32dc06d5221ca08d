package control_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// diaryVariable names a file into which hubs write when they run. leaseVariable is how long their Leases are valid.
const diaryVariable, leaseVariable = "SEALIFT_TEST_DIARY", "SEALIFT_TEST_LEASE"

// leader marks the deciding hub in the diary.
const leader = "the-leader"

// workLog works on each cluster of the hub's shards all the time, and writes when it begins and ends. Entries of all hubs are in
// the order in which they were written.
func workLog(file string) hub.Controller {
	return func(ctx context.Context, h *hub.Hub) error {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		shift := func(ctx context.Context, what string) {
			fmt.Fprintf(f, "%d %d begin %s\n", time.Now().UnixMilli(), os.Getpid(), what)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			fmt.Fprintf(f, "%d %d end %s\n", time.Now().UnixMilli(), os.Getpid(), what)
		}
		work := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			shift(ctx, req.Name)
			return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
		})
		sharded, gained := h.Shard(work, func(_ context.Context, req reconcile.Request) string { return req.Name }, func(ctx context.Context) (all []reconcile.Request) {
			var list ocm.List[ocm.ManagedCluster]
			if h.GetClient().List(ctx, &list) == nil {
				for i := range list.Items {
					all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
				}
			}
			return all
		})
		err = builder.ControllerManagedBy(h).Named("diary").For(&ocm.ManagedCluster{}).WatchesRawSource(gained).
			WithOptions(controller.Options{MaxConcurrentReconciles: fleetSize, NeedLeaderElection: new(false)}).Complete(sharded)
		if err != nil {
			return err
		}
		return h.Add(manager.RunnableFunc(func(ctx context.Context) error { // of the hub that decides
			for ctx.Err() == nil {
				shift(ctx, leader)
			}
			return nil
		}))
	}
}

// entry is an entry of the diary.
type entry struct {
	at   time.Time
	pid  int
	verb string
	what string
}

func readDiary(t *testing.T, file string) (entries []entry) {
	t.Helper()
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e entry
		var ms int64
		if _, err := fmt.Sscanf(s.Text(), "%d %d %s %s", &ms, &e.pid, &e.verb, &e.what); err != nil {
			continue // a hub that was killed wrote half of it
		}
		e.at = time.UnixMilli(ms)
		entries = append(entries, e)
	}
	return entries
}

// owners returns who worked last on what.
func owners(entries []entry) map[string]int {
	last := make(map[string]int)
	for _, e := range entries {
		if e.verb == "begin" {
			last[e.what] = e.pid
		}
	}
	return last
}

// overlaps returns what two hubs processed at once, and how often one followed another. A hub that was killed ends nothing.
func overlaps(entries []entry) (twice []string, handovers int) {
	busy, last := make(map[string]int), make(map[string]int)
	for _, e := range entries {
		switch e.verb {
		case "killed":
			for what, pid := range busy {
				if pid == e.pid {
					delete(busy, what)
				}
			}
		case "begin":
			if other := busy[e.what]; other != 0 && other != e.pid {
				twice = append(twice, fmt.Sprintf("%s by %d and %d", e.what, other, e.pid))
			}
			if last[e.what] != 0 && last[e.what] != e.pid {
				handovers++
			}
			busy[e.what], last[e.what] = e.pid, e.pid
		case "end":
			if busy[e.what] == e.pid {
				delete(busy, e.what)
			}
		}
	}
	return twice, handovers
}

// TestHubsShareFleet has three hubs. The deciding hub is killed, then one that only has shards, then the new deciding one. Each
// is started again. No two hubs ever process a cluster or decide at once, and the work of a killed one is taken over in less
// than 30 s.
func TestHubsShareFleet(t *testing.T) {
	t.Parallel()
	shareFleet(t, 10*time.Second)
}

// shareFleet kills hubs whose Leases are valid for so long.
func shareFleet(t *testing.T, lease time.Duration) {
	g := &grid{T: t, stops: make(map[string]func())}
	g.cfg = controlplane.ForTest(t)
	kubeconfig, file := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "diary")
	g.must(controlplane.WriteKubeconfig(kubeconfig, g.cfg))
	running := make(map[int]func())
	start := func() {
		pid, kill := g.killable(kubeconfig, diaryVariable+"="+file, leaseVariable+"="+lease.String())
		running[pid] = kill
	}
	kill := func(pid int) {
		running[pid]()
		delete(running, pid)
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
		g.must(err)
		fmt.Fprintf(f, "%d %d killed -\n", time.Now().UnixMilli(), pid)
		g.must(f.Close())
	}
	defer func() {
		for pid := range running {
			kill(pid)
		}
	}()
	for range 3 {
		start()
	}
	names := g.rolledOut()

	// shared waits until each hub works on a part of the fleet, and returns who does what
	shared := func() (all map[string]int) {
		g.eventually("the hubs share the fleet", func() string {
			all = owners(readDiary(t, file))
			at := make(map[int]int)
			for what, pid := range all {
				if what != leader && running[pid] != nil {
					at[pid]++
				}
			}
			if len(at) != len(running) || running[all[leader]] == nil {
				return fmt.Sprintf("%d of %d hubs: %v", len(at), len(running), at)
			}
			return ""
		})
		return all
	}
	for round, decides := range []bool{true, false, true} {
		before := shared()
		victim := before[leader]
		for pid := range running {
			if (pid == before[leader]) == decides {
				victim = pid
			}
		}
		g.apply(fmt.Sprintf(config, strconv.Itoa(round+1)))
		at := time.Now()
		kill(victim)
		longest := time.Duration(0)
		g.eventually("what the dead hub did is taken over", func() string {
			longest = 0
			next := make(map[string]time.Time)
			for _, e := range readDiary(t, file) {
				if e.verb == "begin" && e.pid != victim && e.at.After(at) && next[e.what].IsZero() {
					next[e.what] = e.at
				}
			}
			for what, pid := range before {
				if pid != victim {
					continue
				}
				if next[what].IsZero() {
					return what + " is not"
				}
				longest = max(longest, next[what].Sub(at))
			}
			return ""
		})
		t.Logf("a hub was killed (decided: %v): taken over after %s, with Leases of %s", decides, longest.Round(10*time.Millisecond), lease)
		if longest >= 30*time.Second {
			t.Errorf("that took %s", longest)
		}
		start()
	}
	shared()
	g.eventually("all have the last version", func() string { return g.all(names) })
	entries := readDiary(t, file)
	twice, handovers := overlaps(entries)
	t.Logf("%d pieces of work on %d clusters, %d handovers", len(entries)/2, len(names), handovers)
	if len(twice) > 0 || handovers == 0 {
		t.Errorf("two hubs were at work on %s", strings.Join(twice, ", "))
	}
}
