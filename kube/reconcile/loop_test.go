package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
	"github.com/sealift/sealift/kube/reconcile"
	"github.com/sealift/sealift/kube/render"
)

// site is a cluster behind a line that can be cut, and what loops have reconciled in it.
type site struct {
	*testing.T
	cluster *kube.Cluster
	cut     *atomic.Bool
	mu      *sync.Mutex
	seen    map[string]int // "Kind/namespace/name", how often
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, cut: &atomic.Bool{}, mu: &sync.Mutex{}, seen: map[string]int{}}
	cfg := controlplane.Through(t, controlplane.ForTest(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if s.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() { // a watch breaks with the line
			for !s.cut.Load() && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
		}()
		pass.ServeHTTP(w, r.WithContext(ctx))
	})
	var err error
	if s.cluster, err = kube.Connect(cfg, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) in(name string, test func(*site)) {
	s.Run(name, func(t *testing.T) {
		test(&site{T: t, cluster: s.cluster, cut: s.cut, mu: &sync.Mutex{}, seen: map[string]int{}})
	})
}

func (s *site) note(key kube.Ref) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key.String()]++
	return s.seen[key.String()]
}

func (s *site) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key]
}

// start runs a loop until the test ends, or until the returned function is called.
func (s *site) start(l reconcile.Loop) (stop func()) {
	s.Helper()
	l.Cluster = s.cluster
	if l.Reconcile == nil {
		l.Reconcile = func(_ context.Context, key kube.Ref) (time.Duration, error) { s.note(key); return 0, nil }
	}
	ctx, cancel := context.WithCancel(s.Context())
	over := make(chan error)
	go func() { over <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(stop)
	return stop
}

func (s *site) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within a minute", what)
		}
	}
}

func (s *site) objects(ref kube.Ref) dynamic.ResourceInterface {
	s.Helper()
	objects, err := s.cluster.Objects(s.Context(), ref)
	if err != nil {
		s.Fatal(err)
	}
	return objects
}

func (s *site) create(doc string) {
	s.Helper()
	objs, err := render.Decode(strings.NewReader(doc))
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.objects(kube.RefOf(objs[0])).Create(s.Context(), objs[0], metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) label(ref kube.Ref, value string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"value":%q}}}`, value)
	if _, err := s.objects(ref).Patch(s.Context(), ref.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}

func configMap(namespace, name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\n", name, namespace)
}

var configMaps = kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "default"}

func TestLoopRunsOnChanges(t *testing.T) {
	s := newSite(t)
	s.in("an object is reconciled when it comes, changes and goes", testChanges)
	s.in("a watch outlasts an outage", testOutage)
	s.in("a kind may come later", testLateKind)
	s.in("an error is tried again, and holds up no other key", testErrors)
	s.in("one key is never reconciled twice at the same time", testOneAtATime)
	s.in("one of two loops works, and the other takes over", testLease)
}

func testChanges(s *site) {
	s.create(configMap("default", "early"))
	s.start(reconcile.Loop{Watch: []kube.Ref{configMaps}})
	s.until("one that was there", func() bool { return s.count("ConfigMap/default/early") == 1 })
	s.create(configMap("kube-system", "elsewhere"))
	s.create(configMap("default", "late"))
	s.until("one that comes", func() bool { return s.count("ConfigMap/default/late") == 1 })
	late := configMaps
	late.Name = "late"
	s.label(late, "1")
	s.until("one that changes", func() bool { return s.count("ConfigMap/default/late") == 2 })
	if err := s.objects(late).Delete(s.Context(), late.Name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.until("one that goes", func() bool { return s.count("ConfigMap/default/late") == 3 })
	if s.count("ConfigMap/kube-system/elsewhere") != 0 {
		s.Error("an object of another namespace was reconciled")
	}
}

func testOutage(s *site) {
	s.start(reconcile.Loop{Watch: []kube.Ref{configMaps}})
	s.create(configMap("default", "before"))
	s.until("before", func() bool { return s.count("ConfigMap/default/before") == 1 })
	s.cut.Store(true)
	time.Sleep(time.Second) // the watch breaks, and cannot begin again
	s.cut.Store(false)
	s.create(configMap("default", "after"))
	s.until("after", func() bool { return s.count("ConfigMap/default/after") == 1 })
}

func testLateKind(s *site) {
	var failed atomic.Int32
	s.start(reconcile.Loop{
		Watch: []kube.Ref{{Group: "example.org", Version: "v1", Kind: "Widget"}}, LongestRetry: 100 * time.Millisecond,
		Failed: func(context.Context, kube.Ref, time.Duration, error) { failed.Add(1) },
	})
	s.until("a failure that is told", func() bool { return failed.Load() > 0 })
	s.create(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	widget := kube.Ref{Group: "example.org", Version: "v1", Kind: "Widget"}
	s.until("the kind is served", func() bool { _, err := s.cluster.Objects(s.Context(), widget); return err == nil })
	s.create("apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n")
	s.until("its object", func() bool { return s.count("Widget/default/w") > 0 })
}

func testErrors(s *site) {
	good, bad := kube.Ref{Kind: "Thing", Name: "good"}, kube.Ref{Kind: "Thing", Name: "bad"}
	var mu sync.Mutex
	var at []time.Time
	var told []string
	s.start(reconcile.Loop{
		Keys: []kube.Ref{bad, good}, FirstRetry: 50 * time.Millisecond,
		Reconcile: func(_ context.Context, key kube.Ref) (time.Duration, error) {
			if n := s.note(key); key == bad && n < 4 {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Now())
				return 0, fmt.Errorf("no luck %d", n)
			}
			return 0, nil
		},
		Failed: func(_ context.Context, key kube.Ref, _ time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, key.Name+": "+err.Error())
		},
	})
	s.until("the good one, beside the bad one", func() bool { return s.count("Thing/good") == 1 })
	if n := s.count("Thing/bad"); n > 2 {
		s.Errorf("the good one waited for %d tries of the other", n)
	}
	s.until("the bad one, in the end", func() bool { return s.count("Thing/bad") == 4 })
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(told, ", "); got != "bad: no luck 1, bad: no luck 2, bad: no luck 3" {
		s.Errorf("told %s", got)
	}
	if first, second := at[1].Sub(at[0]), at[2].Sub(at[1]); first < 50*time.Millisecond || second < 100*time.Millisecond {
		s.Errorf("the pauses are %s and %s", first, second)
	}
}

func testOneAtATime(s *site) {
	s.create(configMap("default", "busy"))
	busy := configMaps
	busy.Name = "busy"
	var atWork, both atomic.Int32
	s.start(reconcile.Loop{Watch: []kube.Ref{configMaps}, Workers: 4, Reconcile: func(_ context.Context, key kube.Ref) (time.Duration, error) {
		if key == busy {
			if atWork.Add(1) > 1 {
				both.Add(1)
			}
			time.Sleep(20 * time.Millisecond)
			atWork.Add(-1)
		}
		s.note(key)
		return 0, nil
	}})
	for i := range 50 {
		s.label(busy, strconv.Itoa(i))
	}
	s.until("several times", func() bool { return s.count("ConfigMap/default/busy") > 3 })
	if both.Load() > 0 {
		s.Errorf("%d times two workers had the same key", both.Load())
	}
}

func testLease(s *site) {
	o := &lease.Options{Namespace: "default", Name: "loops", Duration: 3 * time.Second, RetryPeriod: 100 * time.Millisecond}
	var atWork [2]atomic.Int32
	loop := func(i int) reconcile.Loop {
		return reconcile.Loop{Keys: []kube.Ref{{Kind: "Thing"}}, Lease: o, Reconcile: func(context.Context, kube.Ref) (time.Duration, error) {
			atWork[i].Add(1)
			return 20 * time.Millisecond, nil
		}}
	}
	stop := s.start(loop(0))
	s.until("the first works", func() bool { return atWork[0].Load() > 0 })
	s.start(loop(1))
	time.Sleep(time.Second)
	if atWork[1].Load() > 0 {
		s.Error("both work")
	}
	stop()
	before := atWork[0].Load()
	s.until("the second takes over", func() bool { return atWork[1].Load() > 0 })
	s.cut.Store(true) // long enough to lose the lease: the deadline is two seconds
	time.Sleep(2500 * time.Millisecond)
	during := atWork[1].Load()
	time.Sleep(200 * time.Millisecond)
	if now := atWork[1].Load(); now != during {
		s.Errorf("it works without its lease: %d more", now-during)
	}
	s.cut.Store(false)
	s.until("it works again", func() bool { return atWork[1].Load() > during })
	if atWork[0].Load() != before {
		s.Error("the first works on after its end")
	}
}

func TestReadyzReportsReadiness(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	urls := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	loop := reconcile.Loop{
		Keys: []kube.Ref{{Kind: "Thing"}}, Listen: "127.0.0.1:0", Listening: func(url string) { urls <- url },
		Reconcile: func(context.Context, kube.Ref) (time.Duration, error) {
			if failing.Load() {
				return 10 * time.Millisecond, errors.New("no")
			}
			return 10 * time.Millisecond, nil
		},
	}
	over := make(chan error)
	go func() { over <- loop.Run(ctx) }()
	address := <-urls
	status := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	s := &site{T: t}
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("at first it is %d", got)
	}
	failing.Store(false)
	s.until("ready after a success", func() bool { return status() == http.StatusOK })
	failing.Store(true)
	s.until("not ready after a failure", func() bool { return status() == http.StatusServiceUnavailable })
	second := loop
	second.Listen = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/readyz")
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a second loop at the same address: %v", err)
	}
	cancel()
	if err := <-over; err != nil {
		t.Errorf("ended: %v", err)
	}
}
