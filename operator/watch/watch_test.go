package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/watch"
)

// site is a cluster behind a line that can be cut, and that counts the lists that are asked for.
type site struct {
	*testing.T
	cluster *kube.Cluster
	direct  *kube.Cluster // around the line
	cut     *atomic.Bool
	starts  *atomic.Bool // the server reports that it is not ready yet
	mu      *sync.Mutex
	lists   map[string]int // by resource
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, cut: &atomic.Bool{}, starts: &atomic.Bool{}, mu: &sync.Mutex{}, lists: map[string]int{}}
	plane := controlplane.ForTest(t)
	cfg := controlplane.Through(t, plane, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if s.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		if s.starts.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		if q := r.URL.Query(); r.Method == http.MethodGet && (q.Get("watch") == "" && q.Get("limit") != "" || q.Get("sendInitialEvents") == "true") {
			s.mu.Lock()
			s.lists[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
			s.mu.Unlock()
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
	if s.direct, err = kube.Connect(plane, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) in(name string, test func(*site)) {
	s.Run(name, func(t *testing.T) {
		one := *s
		one.T = t
		test(&one)
	})
}

func (s *site) watcher() *watch.Watcher {
	ctx, cancel := context.WithCancel(s.Context())
	w := watch.New(ctx, s.cluster, nil)
	s.Cleanup(func() { cancel(); w.Wait() })
	return w
}

// eventLog are the events of a subscription, as text.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (h *eventLog) on(c watch.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Event, c.Object.Name, c.Object.Result)))
}

func (h *eventLog) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

func (s *site) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within a minute", what)
		}
	}
}

// expectEvents waits for exactly these events.
func (s *site) expectEvents(h *eventLog, want ...string) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(h.all()) < len(want) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if got := h.all(); !slices.Equal(got, want) {
		s.Errorf("got  %s\nwant %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

func (s *site) apply(text string) {
	s.Helper()
	controlplane.Apply(s, s.cluster, text)
}

func (s *site) remove(ref kube.Ref) {
	s.Helper()
	objects, err := s.cluster.Objects(s.Context(), ref)
	if err != nil {
		s.Fatal(err)
	}
	if err := objects.Delete(s.Context(), ref.Name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func namespace(name, labels string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}\n", name, labels)
}

func configMap(namespace, name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: %s}\ndata: {%s}\n", namespace, name, data)
}

func configMapRef(namespace, name string) kube.Ref {
	return kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// kubernetes reads one kubernetes binding.
func (s *site) kubernetes(text string) binding.Kubernetes {
	s.Helper()
	c, err := binding.Parse("hook.sh", []byte("configVersion: v1\nkubernetes:\n- {"+text+"}\n"), binding.Shell)
	if err != nil {
		s.Fatal(err)
	}
	return c.Kubernetes[0]
}

func names(s *watch.Subscription) (all string) {
	for _, o := range s.Objects() {
		all += " " + o.Namespace + "/" + o.Name
	}
	return strings.TrimSpace(all)
}

func synced(s *site, subs ...*watch.Subscription) {
	s.Helper()
	for _, sub := range subs {
		select {
		case <-sub.Synced():
		case <-time.After(time.Minute):
			s.Fatal("no list within a minute")
		}
	}
}

func TestWatch(t *testing.T) {
	s := newSite(t)
	s.in("what a synchronization shows is not an event after it", testShow)
	s.in("what exists is a snapshot, and what changes is an event", testEvents)
	s.in("with a filter only its result counts", testFilter)
	s.in("bindings on the same objects share one list", testShared)
	s.in("names and namespaces select", testSelectors)
	s.in("namespaces selected by labels come and go", testNamespaceLabels)
	s.in("a kind may come later, and holds up nobody", testLateKind)
	s.in("no event is lost while the server is away", testOutage)
	s.in("a start waits for a server that is away", testOutageAtStart)
	s.in("an idle subscription keeps no events", testIdle)
	s.in("a subscription that was stopped leaves nothing behind", testStopped)
}

// testOutageAtStart: a hook that saw no objects because the server is unreachable would consider them deleted.
func testOutageAtStart(s *site) {
	s.apply(namespace("away", "") + "---\n" + configMap("away", "a", ""))
	var log fixture.Buffer
	ctx, cancel := context.WithCancel(s.Context())
	w := watch.New(ctx, s.cluster, slog.New(slog.NewTextHandler(&log, nil)))
	s.Cleanup(func() { cancel(); w.Wait() })
	s.starts.Store(true)
	sub := w.Subscribe(s.kubernetes("kind: ConfigMap, namespace: {nameSelector: {matchNames: [away]}}"), func(watch.Change) {})
	s.until("the log tells of it", func() bool { return strings.Contains(log.String(), "objects cannot be watched") })
	select {
	case <-sub.Tried():
		s.Error("the start does not wait")
	default:
	}
	s.starts.Store(false)
	synced(s, sub)
	s.until("the log tells of its end", func() bool { return strings.Contains(log.String(), "objects are watched") })
	if got := names(sub); got != "away/a" {
		s.Errorf("the snapshot is %s", got)
	}
}

func testIdle(s *site) {
	s.apply(namespace("idle", ""))
	var h eventLog
	sub := s.watcher().Subscribe(s.kubernetes("kind: ConfigMap, namespace: {nameSelector: {matchNames: [idle]}}"), h.on)
	sub.Idle(true)
	synced(s, sub)
	s.apply(configMap("idle", "a", ""))
	s.until("the object is in the snapshot", func() bool { return names(sub) == "idle/a" })
	sub.Idle(false)
	s.apply(configMap("idle", "b", ""))
	s.until("the object is in the snapshot", func() bool { return names(sub) == "idle/a idle/b" })
	sub.Release()
	s.expectEvents(&h, "Added b")
}

// testShow: earlier events are in its result, and later ones are delivered.
func testShow(s *site) {
	s.apply(namespace("show", "shown: 'yes'") + "---\n" + configMap("show", "a", "x: '1'"))
	var h eventLog
	sub := s.watcher().Subscribe(s.kubernetes("kind: ConfigMap, jqFilter: .data.x, namespace: {labelSelector: {matchLabels: {shown: 'yes'}}}"), h.on)
	synced(s, sub)
	s.apply(configMap("show", "a", "x: '2'") + "---\n" + configMap("show", "b", "x: '3'"))
	s.until("the objects are in the snapshot", func() bool { return names(sub) == "show/a show/b" })
	if _, bytes := sub.Size(); bytes == 0 {
		s.Error("there is nothing")
	}
	shown := sub.Show()
	if len(shown) != 2 || string(shown[0].Result) != `"2"` {
		s.Errorf("shown are %v", shown)
	}
	s.apply(configMap("show", "a", "x: '4'"))
	s.remove(configMapRef("show", "b"))
	s.until("it is gone", func() bool { return names(sub) == "show/a" })
	s.apply(namespace("show2", "shown: 'yes'") + "---\n" + configMap("show2", "c", "x: '5'"))
	s.until("the other namespace is there", func() bool { return names(sub) == "show/a show2/c" })
	sub.Release()
	s.expectEvents(&h, `Modified a "4"`, `Deleted b "3"`, `Added c "5"`)
}

func testStopped(s *site) {
	s.apply(namespace("stop-a", "stop: 'yes'") + "---\n" + configMap("stop-a", "a", ""))
	w := watch.New(s.Context(), s.cluster, nil)
	sub := w.Subscribe(s.kubernetes("kind: ConfigMap, namespace: {labelSelector: {matchLabels: {stop: 'yes'}}}"), func(watch.Change) {})
	synced(s, sub)
	sub.Stop()
	over := make(chan struct{})
	go func() { w.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		s.Error("something of it still runs")
	}
}

func testEvents(s *site) {
	s.apply(namespace("events", "") + "---\n" + configMap("events", "b", "x: '1'") + "---\n" + configMap("events", "a", "x: '1'"))
	var h, deletions eventLog
	w := s.watcher()
	sub := w.Subscribe(s.kubernetes("kind: configmaps, namespace: {nameSelector: {matchNames: [events]}}"), h.on)
	only := w.Subscribe(s.kubernetes("kind: cm, executeHookOnEvent: [Deleted], namespace: {nameSelector: {matchNames: [events]}}"), deletions.on)
	synced(s, sub, only)
	if got := names(sub); got != "events/a events/b" {
		s.Errorf("the snapshot is %s", got)
	}
	var first struct{ Kind, APIVersion string }
	if err := json.Unmarshal(sub.Objects()[0].Full, &first); err != nil || first.Kind != "ConfigMap" || first.APIVersion != "v1" {
		s.Errorf("the object is %s, %v", sub.Objects()[0].Full, err)
	}
	s.apply(configMap("events", "c", "x: '1'"))
	s.until("the new object is in the snapshot", func() bool { return names(sub) == "events/a events/b events/c" })
	if got := h.all(); len(got) > 0 {
		s.Errorf("events before the release: %v", got)
	}
	sub.Release()
	only.Release()
	s.apply(configMap("events", "a", "x: '2'"))
	s.remove(configMapRef("events", "b"))
	s.expectEvents(&h, "Added c", "Modified a", "Deleted b")
	s.expectEvents(&deletions, "Deleted b")
	if objects, bytes := sub.Size(); objects != 2 || bytes < 200 {
		s.Errorf("%d objects of %d bytes", objects, bytes)
	}
}

func testFilter(s *site) {
	s.apply(namespace("filter", "") + "---\n" + configMap("filter", "a", "x: '1', other: '1'"))
	var h eventLog
	sub := s.watcher().Subscribe(s.kubernetes("kind: ConfigMap, jqFilter: .data.x, keepFullObjectsInMemory: false, namespace: {nameSelector: {matchNames: [filter]}}"), h.on)
	synced(s, sub)
	sub.Release()
	if o := sub.Objects()[0]; o.Full != nil || string(o.Result) != `"1"` {
		s.Errorf("%s %s", o.Full, o.Result)
	}
	s.apply(configMap("filter", "a", "x: '1', other: '2'"))
	s.apply(configMap("filter", "a", "x: '2', other: '2'"))
	s.apply(configMap("filter", "a", "other: '2'"))
	s.remove(configMapRef("filter", "a"))
	s.expectEvents(&h, `Modified a "2"`, "Modified a null", "Deleted a null")
}

func testShared(s *site) {
	s.apply(namespace("shared", "") + "---\n" + configMap("shared", "a", "x: '1'"))
	w := s.watcher()
	of := func(more string) binding.Kubernetes {
		return s.kubernetes("kind: ConfigMap, namespace: {nameSelector: {matchNames: [shared]}}" + more)
	}
	before := s.listsOf("configmaps")
	var h [4]eventLog
	whole := w.Subscribe(of(""), h[0].on)
	synced(s, whole)
	same := w.Subscribe(of(""), h[1].on)
	filtered := w.Subscribe(of(", jqFilter: .data, keepFullObjectsInMemory: false"), h[2].on)
	synced(s, same, filtered)
	if lists := s.listsOf("configmaps") - before; lists != 1 {
		s.Errorf("%d lists for three bindings", lists)
	}
	if got := string(filtered.Objects()[0].Result); got != `{"x":"1"}` {
		s.Errorf("a filter that came later has %s", got)
	}
	for _, sub := range []*watch.Subscription{whole, same, filtered} {
		sub.Release()
	}
	s.apply(configMap("shared", "a", "x: '2'"))
	s.expectEvents(&h[0], "Modified a")
	s.expectEvents(&h[1], "Modified a")
	s.expectEvents(&h[2], `Modified a {"x":"2"}`)
	whole.Stop()
	same.Stop()
	s.apply(configMap("shared", "a", "x: '3'"))
	s.expectEvents(&h[2], `Modified a {"x":"2"}`, `Modified a {"x":"3"}`)
	s.expectEvents(&h[0], "Modified a")
	filtered.Stop()
	again := w.Subscribe(of(""), h[3].on)
	synced(s, again)
	if lists := s.listsOf("configmaps") - before; lists != 2 {
		s.Errorf("%d lists after all were stopped and one began", lists)
	}
}

func (s *site) listsOf(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[resource]
}

func testSelectors(s *site) {
	for _, ns := range []string{"sel-a", "sel-b", "sel-c"} {
		s.apply(namespace(ns, "") + "---\n" + configMap(ns, "one", "") + "---\n" + configMap(ns, "two", "") + "---\n" + configMap(ns, "three", ""))
	}
	w := s.watcher()
	for text, want := range map[string]string{
		"namespace: {nameSelector: {matchNames: [sel-a, sel-b]}}, nameSelector: {matchNames: [one, two]}":                                             "sel-a/one sel-a/two sel-b/one sel-b/two",
		"namespace: {nameSelector: {matchNames: [sel-c]}}, fieldSelector: {matchExpressions: [{field: metadata.name, operator: '!=', value: one}]}":   "sel-c/three sel-c/two",
		"namespace: {nameSelector: {matchNames: [sel-c]}}, labelSelector: {matchLabels: {app: none}}":                                                 "",
		"fieldSelector: {matchExpressions: [{field: metadata.namespace, operator: '=', value: sel-b}]}, nameSelector: {matchNames: [two, one, none]}": "sel-b/one sel-b/two",
	} {
		sub := w.Subscribe(s.kubernetes("kind: ConfigMap, "+text), func(watch.Change) {})
		synced(s, sub)
		if got := names(sub); got != want {
			s.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func testNamespaceLabels(s *site) {
	s.apply(namespace("team-a", "team: a") + "---\n" + configMap("team-a", "xx", "") + "---\n" + namespace("team-b", "team: b") + "---\n" + configMap("team-b", "yy", ""))
	var h eventLog
	sub := s.watcher().Subscribe(s.kubernetes("kind: ConfigMap, namespace: {labelSelector: {matchExpressions: [{key: team, operator: In, values: [a, c]}]}}"), h.on)
	synced(s, sub)
	sub.Release()
	if got := names(sub); got != "team-a/xx" {
		s.Errorf("the snapshot is %s", got)
	}
	s.apply(namespace("team-b", "team: c"))
	s.expectEvents(&h, "Added yy")
	s.apply(namespace("team-a", "team: z"))
	s.until("the objects of a namespace leave with it", func() bool { return names(sub) == "team-b/yy" })
	s.apply(configMap("team-a", "x2", "") + "---\n" + configMap("team-b", "y2", ""))
	s.expectEvents(&h, "Added yy", "Added y2")
}

func testLateKind(s *site) {
	w := s.watcher()
	var h eventLog
	late := w.Subscribe(s.kubernetes("apiVersion: example.org/v1, kind: Gadget"), h.on)
	here := w.Subscribe(s.kubernetes("kind: Namespace"), func(watch.Change) {})
	synced(s, here)
	select {
	case <-late.Tried():
	case <-time.After(time.Minute):
		s.Fatal("the start waits for a kind that does not exist")
	}
	select {
	case <-late.Synced():
		s.Error("a kind that does not exist has objects")
	default:
	}
	s.apply(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	synced(s, late)
	late.Release()
	s.apply("apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: g, namespace: default}\n")
	s.expectEvents(&h, "Added g")
}

func testOutage(s *site) {
	s.apply(namespace("outage", "") + "---\n" + configMap("outage", "stays", "x: '1'") + "---\n" + configMap("outage", "goes", "x: '1'") + "---\n" + configMap("outage", "changes", "x: '1'"))
	var h eventLog
	sub := s.watcher().Subscribe(s.kubernetes("kind: ConfigMap, jqFilter: .data.x, namespace: {nameSelector: {matchNames: [outage]}}"), h.on)
	synced(s, sub)
	sub.Release()
	s.cut.Store(true)
	time.Sleep(200 * time.Millisecond) // the watch breaks
	other := *s
	other.cluster = s.direct
	other.apply(configMap("outage", "changes", "x: '2'") + "---\n" + configMap("outage", "comes", "x: '1'"))
	other.remove(configMapRef("outage", "goes"))
	time.Sleep(time.Second)
	s.cut.Store(false)
	s.until("three events", func() bool { return len(h.all()) >= 3 })
	got := h.all()
	slices.Sort(got)
	if want := []string{`Added comes "1"`, `Deleted goes "1"`, `Modified changes "2"`}; !slices.Equal(got, want) {
		s.Errorf("got %v, want %v", got, want)
	}
}
