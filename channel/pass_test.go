package channel

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// playground is a control plane, a folder with an index, and a switch that cuts the line between.
type playground struct {
	*testing.T
	cluster *Cluster
	dir     string
	cut     *atomic.Bool // the API server does not answer
}

func newPlayground(t *testing.T) *playground {
	t.Helper()
	p := &playground{T: t, cut: &atomic.Bool{}}
	cfg := controlplane.Through(t, controlplane.ForTest(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if p.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	})
	var err error
	if p.cluster, err = Connect(cfg, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *playground) in(name string, test func(*playground)) {
	p.Run(name, func(t *testing.T) {
		sub := *p
		sub.T, sub.dir = t, t.TempDir()
		test(&sub)
	})
}

// add is an entry of an index, and its manifest.
type add struct{ entry, manifest string }

// entries writes an index with its manifests and reads it.
func (p *playground) entries(adds ...add) []Entry {
	p.Helper()
	text := "kind: Addons\nmetadata: {name: x}\nspec:\n  addons:\n"
	for i, a := range adds {
		text += fmt.Sprintf("  - {manifest: %d.yaml, %s}\n", i, a.entry)
		if err := os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("%d.yaml", i)), []byte(a.manifest), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	index, err := Parse([]byte(text), &url.URL{Path: p.dir + "/addons.yaml"}, "c")
	if err != nil {
		p.Fatal(err)
	}
	return index.Entries
}

// apply applies the entries, and returns the add-ons in the order in which they were done, and the notes.
func (p *playground) apply(o ApplyOptions, entries []Entry) (done, notes []string, err error) {
	p.Helper()
	plan, err := p.cluster.Plan(p.Context(), entries)
	if err != nil {
		p.Fatal(err)
	}
	o.Done = func(d Decision) { done = append(done, d.Entry.Name) }
	o.Note = func(line string) { notes = append(notes, line) }
	err = p.cluster.Apply(p.Context(), Source{}, plan, o)
	return done, notes, err
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: kube-system, labels: {gate: '%s'}}\ndata: {value: '%[2]s'}\n", name, value)
}

// objects are those of a kind in kube-system.
func (p *playground) objects(kind kube.Ref) dynamic.ResourceInterface {
	p.Helper()
	kind.Namespace = DefaultNamespace
	objects, err := p.cluster.engine.Objects(p.Context(), kind)
	if err != nil {
		p.Fatal(err)
	}
	return objects
}

// value is the value that configMap stored in the cluster.
func (p *playground) value(name string) string {
	p.Helper()
	obj, err := p.objects(kube.Ref{Version: "v1", Kind: "ConfigMap"}).Get(p.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	data, _ := obj.Object["data"].(map[string]any)
	return fmt.Sprint(data["value"])
}

func TestPass(t *testing.T) {
	p := newPlayground(t)
	p.in("an add-on that waits for a webhook does not hold up the others", testWebhook)
	p.in("an add-on whose kind comes later is done within the pass", testLateKind)
	p.in("keys are issued also when the update failed", testKeysOfUnhealthy)
	p.in("a short outage fails no add-on", testShortOutage)
	p.in("objects are looked at once", testUnhealthyLooksOnce)
	p.in("a run that loses the lease starts over", testLostLease)
	p.in("an object that moves to another add-on is handed over", testMoves)
	p.in("a renamed add-on takes over", testRename)
	p.in("an object in two add-ons belongs to the later one", testShared)
	p.in("an object twice in one manifest", testTwice)
	p.in("an empty manifest prunes where its hash says so", testEmptyManifest)
}

const gate = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gate}
webhooks:
- name: gate.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  objectSelector: {matchLabels: {gate: gated}}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  clientConfig: {url: '%s', caBundle: %s}
`

func testWebhook(p *playground) {
	var open atomic.Bool
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open.Load() {
			panic(http.ErrAbortHandler)
		}
		var review struct{ Request struct{ UID string } }
		_ = json.NewDecoder(r.Body).Decode(&review)
		fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	}))
	p.Cleanup(webhook.Close)
	webhook.Config.ErrorLog = log.New(io.Discard, "", 0)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}))
	adds := []add{{"name: gate", fmt.Sprintf(gate, webhook.URL, ca)}}
	for i := range 6 {
		adds = append(adds, add{fmt.Sprintf("name: gated-%d", i), configMap(fmt.Sprintf("gated-%d", i), "gated")})
	}
	entries := p.entries(append(adds, add{"name: network", configMap("network", "free")})...)
	start := time.Now()
	done, notes, err := p.apply(ApplyOptions{Patience: time.Second}, entries)
	if diff := cmp.Diff([]string{"gate", "network"}, done); diff != "" || time.Since(start) > time.Minute {
		p.Errorf("after %s: %s", time.Since(start), diff)
	}
	if err == nil || !strings.Contains(err.Error(), `error updating "gated-0", "gated-1", "gated-2" and 3 others: `) || strings.Count(err.Error(), "gate.example.com") != 1 {
		p.Errorf("told as %v", err)
	}
	if len(notes) != 6 || !strings.Contains(notes[0], `"gated-0" waits`) {
		p.Errorf("notes: %q", notes)
	}
	// The webhook starts with the network, which is last.
	entries[len(entries)-1].ID = "2"
	var once sync.Once
	o := ApplyOptions{}
	plan, err := p.cluster.Plan(p.Context(), entries)
	if err != nil {
		p.Fatal(err)
	}
	done = nil
	o.Done = func(d Decision) {
		done = append(done, d.Entry.Name)
		once.Do(func() { open.Store(true) })
	}
	if err := p.cluster.Apply(p.Context(), Source{}, plan, o); err != nil {
		p.Error(err)
	}
	if diff := cmp.Diff([]string{"network", "gated-0", "gated-1", "gated-2", "gated-3", "gated-4", "gated-5"}, done); diff != "" {
		p.Error(diff)
	}
}

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func testLateKind(p *playground) {
	entries := p.entries(
		add{"name: uses", "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w, namespace: kube-system}\n"},
		add{"name: plain", configMap("plain", "1")},
		add{"name: brings", widgets})
	done, notes, err := p.apply(ApplyOptions{}, entries)
	if diff := cmp.Diff([]string{"plain", "brings", "uses"}, done); diff != "" || err != nil {
		p.Errorf("%v %s", err, diff)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], `"uses" waits`) || !strings.Contains(notes[0], "kind Widget") {
		p.Errorf("notes: %q", notes)
	}
	never := p.entries(
		add{"name: never", "apiVersion: example.net/v1\nkind: Gadget\nmetadata: {name: w, namespace: kube-system}\n"},
		add{"name: never-too", "apiVersion: example.net/v1\nkind: Gadget\nmetadata: {name: v, namespace: kube-system}\n"},
		add{"name: after", configMap("after", "1")})
	start := time.Now()
	done, _, err = p.apply(ApplyOptions{Patience: time.Second}, never)
	if err == nil || !strings.Contains(err.Error(), `error updating "never", "never-too": `) || strings.Count(err.Error(), "does not serve kind Gadget") != 1 {
		p.Errorf("told as %v", err)
	}
	if took := time.Since(start); len(done) != 1 || took > 25*time.Second {
		p.Errorf("%v after %s", done, took)
	}
}

// testKeysOfUnhealthy has an add-on like metrics-server in kOps: its pods wait for a certificate of its own CA.
func testKeysOfUnhealthy(p *playground) {
	issuers := strings.NewReplacer("widgets.example.org", "issuers.cert-manager.io", "example.org", "cert-manager.io", "widgets", "issuers", "Widget", "Issuer").Replace(widgets)
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: keyed, namespace: kube-system}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: before", deployment})); err != nil {
		p.Fatal(err)
	}
	status := `{"status":{"conditions":[{"type":"Available","status":"False","reason":"MinimumReplicasUnavailable"}]}}`
	if _, err := p.objects(kube.Ref{Group: "apps", Version: "v1", Kind: "Deployment"}).Patch(p.Context(), "keyed", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
	entries := p.entries(add{"name: before, id: x, needsPKI: true", deployment}, add{"name: cert-manager", issuers})
	done, _, err := p.apply(ApplyOptions{}, entries)
	if err == nil || !strings.Contains(err.Error(), "not all objects were healthy") || len(done) != 1 {
		p.Errorf("%v, done %v", err, done)
	}
	if lacks, err := p.cluster.lacksKeys(p.Context(), "before"); lacks || err != nil {
		p.Errorf("the unhealthy add-on got no keys (%v)", err)
	}
}

func testShortOutage(p *playground) {
	var adds []add
	for i := range 30 {
		adds = append(adds, add{fmt.Sprintf("name: outage-%d", i), configMap(fmt.Sprintf("outage-%d", i), "1")})
	}
	entries := p.entries(adds...)
	plan, err := p.cluster.Plan(p.Context(), entries)
	if err != nil {
		p.Fatal(err)
	}
	// Each outage begins at another request of an add-on.
	done := 0
	var outages sync.WaitGroup
	err = p.cluster.Apply(p.Context(), Source{}, plan, ApplyOptions{Done: func(Decision) {
		if done++; done%10 == 5 {
			outages.Add(1)
			time.AfterFunc(time.Duration(done)*time.Millisecond, func() {
				p.cut.Store(true)
				time.AfterFunc(2*time.Second, func() { p.cut.Store(false); outages.Done() })
			})
		}
	}})
	outages.Wait() // also those that began too late
	if err != nil || done != 30 {
		p.Errorf("%d done: %v", done, err)
	}
}

func testEmptyManifest(p *playground) {
	const rules = "prune: {kinds: [{kind: ConfigMap, labelSelector: gate=old}]}"
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: retired, id: a, " + rules, configMap("retired", "old")})); err != nil {
		p.Fatal(err)
	}
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: retired, id: b, " + rules, "# cut off\n"})); err == nil || !strings.Contains(err.Error(), "has no objects") || p.value("retired") != "old" {
		p.Errorf("a file that was cut off: %v", err)
	}
	entries := p.entries(add{"name: retired, id: b, manifestHash: " + ManifestHash(nil) + ", " + rules, ""})
	if done, _, err := p.apply(ApplyOptions{}, entries); err != nil || len(done) != 1 || p.value("retired") != "" {
		p.Errorf("done %v, %v; the cluster has %q", done, err, p.value("retired"))
	}
	if plan, err := p.cluster.Plan(p.Context(), entries); err != nil || len(plan.Updates()) != 0 {
		p.Errorf("it is not recorded: %+v, %v", plan.Updates(), err)
	}
}

// uid reports whether an object is still the same one.
func (p *playground) uid(name string) types.UID {
	p.Helper()
	obj, err := p.objects(kube.Ref{Version: "v1", Kind: "ConfigMap"}).Get(p.Context(), name, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return obj.GetUID()
}

// testMoves moves an object up and down the file, between add-ons that prune objects that they no longer name.
func testMoves(p *playground) {
	const prune = "prune: {kinds: [{kind: ConfigMap, labelSelector: gate=1}]}"
	moving, rest := configMap("moving", "1")+"---\n", configMap("stays-%s", "1")
	step := func(id, upper, lower string) (notes []string) {
		p.Helper()
		before := types.UID("")
		if id != "1" {
			before = p.uid("moving")
		}
		done, notes, err := p.apply(ApplyOptions{}, p.entries(
			add{"name: upper, id: '" + id + "', " + prune, upper + fmt.Sprintf(rest, "upper")},
			add{"name: lower, id: '" + id + "', " + prune, lower + fmt.Sprintf(rest, "lower")}))
		if err != nil || len(done) != 2 {
			p.Fatalf("step %s: done %v: %v", id, done, err)
		}
		if id != "1" && p.uid("moving") != before {
			p.Errorf("step %s: the object was deleted and made again", id)
		}
		return notes
	}
	step("1", moving, "")
	if notes := step("2", "", moving); len(notes) != 1 || notes[0] != `ConfigMap/kube-system/moving moves from add-on "upper" to "lower"` {
		p.Errorf("down: %q", notes)
	}
	if notes := step("3", moving, ""); len(notes) != 1 || notes[0] != `ConfigMap/kube-system/moving moves from add-on "lower" to "upper"` {
		p.Errorf("back: %q", notes)
	}
	if notes := step("4", moving, ""); len(notes) != 0 {
		p.Errorf("where nothing moves: %q", notes)
	}
}

func testRename(p *playground) {
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: old-name", configMap("renamed", "1")})); err != nil {
		p.Fatal(err)
	}
	entries := p.entries(add{"name: new-name", configMap("renamed", "2")})
	plan, err := p.cluster.Plan(p.Context(), entries)
	if err != nil {
		p.Fatal(err)
	}
	moves, err := p.cluster.Moves(p.Context(), Source{}, plan)
	if err != nil || len(moves) != 1 || moves[0].String() != `ConfigMap/kube-system/renamed moves from add-on "old-name" to "new-name"` {
		p.Errorf("planned: %v, %v", moves, err)
	}
	done, notes, err := p.apply(ApplyOptions{}, entries)
	if err != nil || len(done) != 1 || p.value("renamed") != "2" {
		p.Errorf("done %v: %v; the cluster has %s", done, err, p.value("renamed"))
	}
	if diff := cmp.Diff([]string{`ConfigMap/kube-system/renamed moves from add-on "old-name", which is not in these channels, to "new-name"`}, notes); diff != "" {
		p.Error(diff)
	}
}

func testShared(p *playground) {
	run := func(first, second string) (done, notes []string) {
		p.Helper()
		done, notes, err := p.apply(ApplyOptions{}, p.entries(
			add{"name: first, id: '" + first + "'", configMap("shared", "first-"+first)}, add{"name: second, id: '" + second + "'", configMap("shared", "second-"+second)}))
		if err != nil {
			p.Error(err)
		}
		return done, notes
	}
	const warning = `warning: add-ons "first" and "second" both name ConfigMap/kube-system/shared: it belongs to the later one, "second"`
	for _, tt := range []struct{ first, second, want string }{
		{"1", "1", "second-1"}, {"2", "1", "second-1"}, {"2", "2", "second-2"}, {"3", "3", "second-3"},
	} {
		done, notes := run(tt.first, tt.second)
		if len(done) == 0 || p.value("shared") != tt.want {
			p.Errorf("%+v: done %v, the cluster has %s", tt, done, p.value("shared"))
		}
		if tt.want != "second-2" && (len(notes) != 1 || notes[0] != warning) {
			p.Errorf("%+v: notes %q", tt, notes)
		}
	}
	// One names it no longer: the other gets it, though nothing of the other is new.
	if _, _, err := p.apply(ApplyOptions{}, p.entries(
		add{"name: first, id: '3'", configMap("shared", "first 3")},
		add{"name: second, id: '4', prune: {kinds: [{kind: ConfigMap, fieldSelector: metadata.name=shared}]}", configMap("other", "1")})); err != nil || p.value("shared") == "" {
		p.Errorf("%v; the cluster has %q", err, p.value("shared"))
	}
}

func testTwice(p *playground) {
	done, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: twice", configMap("twice", "1") + "---\n" + configMap("twice", "2")}))
	if err != nil || len(done) != 1 || p.value("twice") != "2" {
		p.Errorf("done %v: %v; the cluster has %q", done, err, p.value("twice"))
	}
}
