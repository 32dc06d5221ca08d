package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

const partOf = "applyset.kubernetes.io/part-of"

func TestOwners(t *testing.T) {
	p := newPlayground(t)
	p.in("adopted, raised, given back, adopted again", testAdoption)
	p.in("killed at any write", testKills)
	p.in("an adoption that has failed stays one", testFailedAdoption)
	p.in("a stranger's object stays a stranger's", testStrangers)
	p.in("one name in two namespaces is two add-ons", testNamesakes)
	p.in("only what was adopted is given back", testNobodyToGiveBackTo)
}

// lights are ConfigMaps of an add-on.
func lights(addOn, version string, names ...string) (manifest string) {
	for _, name := range names {
		manifest += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%s, namespace: kube-system, labels: {lights: %[1]s}}\ndata: {version: '%[3]s'}\n", addOn, name, version)
	}
	return manifest
}

// install applies an add-on and records it, as 'sealift install' does.
func (p *playground) install(addOn, version, manifest string) {
	p.Helper()
	engine := kube.New(p.cluster.engine.Cluster, kube.Options{})
	objs, err := render.Decode(strings.NewReader(manifest))
	if err != nil {
		p.Fatal(err)
	}
	records, set := p.cluster.recordsOf(), kube.Set{Name: addOn, Namespace: kube.DefaultNamespace}
	_, err = records.Claim(p.Context(), addOn, addon.Ownership{Owner: addon.Installer(), Policy: addon.OnChange, Set: set.String()})
	if err == nil {
		_, err = engine.Apply(p.Context(), set, objs, kube.ApplyOptions{})
	}
	if err == nil {
		_, err = records.SetApplied(p.Context(), addOn, addon.Installer(), addon.Applied{Version: version, Digest: "sha256:bundle"})
	}
	if err != nil {
		p.Fatal(err)
	}
}

// found returns version and set of each light of an add-on.
func (p *playground) found(addOn string) map[string]string {
	p.Helper()
	list, err := p.cluster.engine.Dynamic().Resource(configMaps).Namespace(DefaultNamespace).List(p.Context(), metav1.ListOptions{LabelSelector: "lights=" + addOn})
	if err != nil {
		p.Fatal(err)
	}
	sets := map[string]string{kube.Set{Name: addOn}.ID(): "installer", kube.Set{Name: "addon-" + addOn, Namespace: DefaultNamespace}.ID(): "channel"}
	found := map[string]string{}
	for _, obj := range list.Items {
		version, _, _ := unstructured.NestedString(obj.Object, "data", "version")
		found[strings.TrimPrefix(obj.GetName(), addOn+"-")] = version + " " + sets[obj.GetLabels()[partOf]]
	}
	return found
}

func (p *playground) wantLights(when, addOn string, want map[string]string) {
	p.Helper()
	if got := p.found(addOn); !maps.Equal(got, want) {
		p.Errorf("%s: %v, want %v", when, got, want)
	}
}

// undisturbed fails the test if a ConfigMap with these lights is deleted before the returned function is called.
func (p *playground) undisturbed(addOn string) (stop func()) {
	p.Helper()
	w, err := p.cluster.engine.Dynamic().Resource(configMaps).Namespace(DefaultNamespace).Watch(p.Context(), metav1.ListOptions{LabelSelector: "lights=" + addOn})
	if err != nil {
		p.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if event.Type == watch.Deleted {
				p.Errorf("%s was deleted", event.Object.(*unstructured.Unstructured).GetName())
			}
		}
	}()
	return func() { w.Stop(); <-done }
}

// owner reads the record of an add-on.
func (p *playground) owner(addOn string) addon.Record {
	p.Helper()
	record, found, err := p.cluster.recordsOf().Get(p.Context(), addOn)
	if err != nil || !found {
		p.Fatalf("the record of %s: %v, %v", addOn, found, err)
	}
	return record
}

func (p *playground) installed(addOn string) Installed {
	p.Helper()
	all, err := p.cluster.Installed(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	at := slices.IndexFunc(all, func(i Installed) bool { return i.Name == addOn })
	if at < 0 {
		p.Fatalf("%s is not installed: %+v", addOn, all)
	}
	return all[at]
}

func testAdoption(p *playground) {
	p.install("dns", "1.0.0", lights("dns", "1.0.0", "a", "b"))
	if got := p.installed("dns"); got.Owner != "installer" || VersionOf(got.Version) != "1.0.0" || got.Namespace != "" {
		p.Errorf("get says %+v", got)
	}
	stop := p.undisturbed("dns")
	entries := p.entries(add{"name: dns, version: 1.1.0", lights("dns", "1.1.0", "a", "c")})
	plan, err := p.cluster.Plan(p.Context(), entries)
	if err != nil || plan.Addons[0].Action != Adopt || plan.Addons[0].From != "installer" {
		p.Fatalf("%+v, %v", plan.Addons, err)
	}
	p.wantLights("planned", "dns", map[string]string{"a": "1.0.0 installer", "b": "1.0.0 installer"})

	done, notes, err := p.apply(ApplyOptions{}, entries)
	if err != nil || len(done) != 1 || !slices.Contains(notes, `add-on "dns" moves from installer to channel kube-system/dns`) {
		p.Fatalf("%v, %v, %v", done, notes, err)
	}
	// Objects that the channel does not name were adopted too, and --prune may delete them later.
	p.wantLights("adopted", "dns", map[string]string{"a": "1.1.0 channel", "b": "1.0.0 channel", "c": "1.1.0 channel"})
	if r := p.owner("dns"); r.Owner != addon.Channel("kube-system", "dns") || r.Version != "1.1.0" || r.Digest != entries[0].ManifestHash || len(r.History) != 1 || r.History[0].Version != "1.0.0" {
		p.Errorf("%+v", r)
	}
	if got := p.installed("dns"); got.Former != "installer 1.0.0" || got.Owner != "" || VersionOf(got.Version) != "1.1.0" {
		p.Errorf("get says %+v", got)
	}
	if done, _, err := p.apply(ApplyOptions{}, entries); err != nil || len(done) != 0 {
		p.Errorf("again: %v, %v", done, err)
	}

	back, err := p.cluster.PlanRelease(p.Context(), "dns")
	if want := `add-on "dns" at version 1.1.0 goes back to installer, which had applied version 1.0.0`; err != nil || back.String() != want {
		p.Errorf("%s, %v", back, err)
	}
	for range 2 { // the second time there is nothing left to do
		if err := p.cluster.Release(p.Context(), "kube-system/dns", nil); err != nil {
			p.Fatal(err)
		}
	}
	p.wantLights("given back", "dns", map[string]string{"a": "1.1.0 installer", "b": "1.0.0 installer", "c": "1.1.0 installer"})
	if got := p.installed("dns"); got.Owner != "installer" || got.Released != "kube-system/dns" {
		p.Errorf("get says %+v", got)
	}
	if done, _, err := p.apply(ApplyOptions{}, entries); err != nil || len(done) != 0 {
		p.Errorf("a channel takes back what it gave: %v, %v", done, err)
	}
	if done, _, err := p.apply(ApplyOptions{Adopt: []string{"dns"}}, entries); err != nil || len(done) != 0 {
		p.Errorf("the plan did not adopt, and Apply did: %v, %v", done, err)
	}
	stop()
	p.install("dns", "1.0.0", lights("dns", "1.0.0", "a", "b"))
	p.wantLights("installed again", "dns", map[string]string{"a": "1.0.0 installer", "b": "1.0.0 installer"})
	plan, err = p.cluster.Plan(p.Context(), entries, "kube-system/dns")
	if err != nil || plan.Addons[0].Action != Adopt {
		p.Fatalf("%+v, %v", plan.Addons, err)
	}
	if err := p.cluster.Apply(p.Context(), Source{}, plan, ApplyOptions{Adopt: []string{"kube-system/dns"}, Prune: true}); err != nil {
		p.Fatal(err)
	}
	p.wantLights("adopted again, with --prune", "dns", map[string]string{"a": "1.1.0 channel", "c": "1.1.0 channel"})
}

// killableProcess is a process whose line to the API server dies with it.
type killableProcess struct {
	*Cluster
	left   atomic.Int32 // writes
	effect atomic.Bool  // of the last write
	kill   atomic.Pointer[context.CancelCauseFunc]
}

var errKilled = errors.New("killed")

func (p *playground) mortal() *killableProcess {
	p.Helper()
	m := &killableProcess{}
	config, _ := p.cluster.engine.Config()
	cfg := controlplane.Through(p, config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		// Without the Lease: that of a dead process of this machine is taken over at once, and others are tested elsewhere.
		if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/leases") {
			pass.ServeHTTP(w, r)
			return
		}
		n := m.left.Add(-1)
		if n > 0 || n == 0 && m.effect.Load() {
			pass.ServeHTTP(w, r)
		}
		if n <= 0 {
			(*m.kill.Load())(errKilled)
			panic(http.ErrAbortHandler)
		}
	})
	var err error
	if m.Cluster, err = Connect(cfg, nil); err != nil {
		p.Fatal(err)
	}
	return m
}

// until runs work, and kills it at a write, which takes effect or not.
func (m *killableProcess) until(ctx context.Context, write int32, effect bool, work func(context.Context, *Cluster) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.left.Store(write)
	m.effect.Store(effect)
	m.kill.Store(&cancel)
	return work(ctx, m.Cluster)
}

func testKills(p *playground) {
	marked := p.node("killed")
	entries := p.entries(add{"name: lamp, version: 1.1.0, needsRollingUpdate: all", lights("lamp", "1.1.0", "a", "b", "c")})
	adopt := func(ctx context.Context, c *Cluster) error {
		plan, err := c.Plan(ctx, entries, "lamp")
		if err != nil {
			return err
		}
		return c.Apply(ctx, Source{}, plan, ApplyOptions{Adopt: []string{"lamp"}})
	}
	release := func(ctx context.Context, c *Cluster) error { return c.Release(ctx, "lamp", nil) }
	steps := []struct {
		name string
		run  func(context.Context, *Cluster) error
		want string
	}{{"adopt", adopt, "1.1.0 channel"}, {"release", release, "1.1.0 installer"}}
	process := p.mortal()
	defer p.undisturbed("lamp")()
	kills := 0
	for write, before := int32(1), -1; before != kills; write++ {
		before = kills
		p.install("lamp", "1.0.0", lights("lamp", "1.0.0", "a", "b", "c"))
		for _, step := range steps {
			when := fmt.Sprintf("%s, killed at write %d", step.name, write)
			if err := process.until(p.Context(), write, write%2 == 0, step.run); err != nil {
				kills++
				for name, light := range p.found("lamp") {
					if strings.HasSuffix(light, " ") {
						p.Errorf("%s: %s belongs to nobody", when, name)
					}
				}
			}
			if err := step.run(p.Context(), p.cluster); err != nil {
				p.Fatalf("%s and repeated: %v", when, err)
			}
			if adopted := step.name == "adopt"; marked() != adopted {
				p.Errorf("%s and repeated: the node is marked: %v", when, !adopted)
			}
			p.wantLights(when+" and repeated", "lamp", map[string]string{"a": step.want, "b": step.want, "c": step.want})
			if r := p.owner("lamp"); r.Moving != "" || r.Owner.Kind == addon.ChannelKind != (step.name == "adopt") {
				p.Errorf("%s and repeated: %+v", when, r)
			}
		}
	}
	if kills < 10 {
		p.Errorf("only %d kills", kills)
	}
	p.Logf("%d kills", kills)
}

func testStrangers(p *playground) {
	// Applied by hand into a set without a record of its owner, and by another tool into its own set.
	engine := kube.New(p.cluster.engine.Cluster, kube.Options{})
	objs, err := render.Decode(strings.NewReader(lights("alien", "1.0.0", "a")))
	if err != nil {
		p.Fatal(err)
	}
	if _, err := engine.Apply(p.Context(), kube.Set{Name: "alien"}, objs, kube.ApplyOptions{}); err != nil {
		p.Fatal(err)
	}
	other := objs[0].DeepCopy()
	other.SetName("alien-b")
	other.SetLabels(map[string]string{"lights": "alien", partOf: "applyset-of-kubectl-v1"})
	other.SetResourceVersion("")
	if _, err := p.cluster.engine.Dynamic().Resource(configMaps).Namespace(DefaultNamespace).Create(p.Context(), other, metav1.CreateOptions{FieldManager: "kubectl"}); err != nil {
		p.Fatal(err)
	}
	before := p.found("alien")
	entries := p.entries(add{"name: alien, version: 2.0.0", lights("alien", "2.0.0", "a", "b")})
	_, _, err = p.apply(ApplyOptions{}, entries)
	for _, want := range []string{`error updating "alien"`, "ConfigMap/kube-system/alien-a: it belongs to set sealift/alien", "ConfigMap/kube-system/alien-b: it belongs to a set whose record is gone"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			p.Errorf("%v, want %q", err, want)
		}
	}
	p.wantLights("afterwards", "alien", before)
	if _, found, err := p.cluster.recordsOf().Get(p.Context(), "alien"); found || err != nil {
		p.Errorf("the channel claims a stranger's add-on: %v, %v", found, err)
	}

	// Somebody else owns the add-on on record.
	if _, err := p.cluster.recordsOf().Claim(p.Context(), "ruled", addon.Ownership{Owner: addon.Owner{Kind: "fleet", Name: "hub/west"}, Policy: addon.Continuous, Set: "fleet/ruled"}); err != nil {
		p.Fatal(err)
	}
	entries = p.entries(add{"name: ruled, version: 2.0.0", lights("ruled", "2.0.0", "a")}, add{"name: free, version: 1.0.0", lights("free", "1.0.0", "a")})
	done, _, err := p.apply(ApplyOptions{}, entries)
	if want := `error updating "ruled": fleet hub/west owns it: release it there first`; err == nil || err.Error() != want || !slices.Equal(done, []string{"free"}) {
		p.Errorf("%v, %v", done, err)
	}
	p.wantLights("of another owner", "ruled", map[string]string{})
}

func testNamesakes(p *playground) {
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: twin, version: 1.0.0", lights("twin", "1.0.0", "a")})); err != nil {
		p.Fatal(err)
	}
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: twin, version: 2.0.0, namespace: default", lights("twin", "2.0.0", "b")})); err != nil {
		p.Fatal(err)
	}
	if first, second := p.owner("twin"), p.owner("default/twin"); first.Version != "1.0.0" || second.Version != "2.0.0" || second.Owner != addon.Channel("default", "twin") {
		p.Errorf("%+v, %+v", first, second)
	}
	if _, err := p.cluster.PlanRelease(p.Context(), "twin"); err == nil || !strings.Contains(err.Error(), "name one of ") {
		p.Error(err)
	}
}

func testNobodyToGiveBackTo(p *playground) {
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: born, version: 1.0.0", lights("born", "1.0.0", "a")})); err != nil {
		p.Fatal(err)
	}
	for addOn, want := range map[string]string{
		"born":  `add-on "born" was not adopted from the installer, so it cannot be returned to it`,
		"never": `no channel owns an add-on "never" in this cluster; 'sealift channel get' lists them`,
	} {
		if err := p.cluster.Release(p.Context(), addOn, nil); err == nil || err.Error() != want {
			p.Errorf("%s: %v", addOn, err)
		}
	}
	p.wantLights("afterwards", "born", map[string]string{"a": "1.0.0 channel"})
}
