package channel

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// node makes a node. The returned function reports whether it is marked for an update, and removes the mark.
func (p *playground) node(name string) (marked func() bool) {
	p.Helper()
	controlplane.Apply(p, p.cluster.engine.Cluster, "apiVersion: v1\nkind: Node\nmetadata: {name: "+name+"}\n")
	nodes := p.cluster.engine.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	return func() bool {
		p.Helper()
		before, err := nodes.Get(p.Context(), name, metav1.GetOptions{})
		if err == nil {
			_, err = nodes.Patch(p.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+needsUpdate+`":null}}}`), metav1.PatchOptions{})
		}
		if err != nil {
			p.Fatal(err)
		}
		_, is := before.GetAnnotations()[needsUpdate]
		return is
	}
}

// withoutNodes is the cluster for a user who may not change nodes.
func (p *playground) withoutNodes() *Cluster {
	p.Helper()
	config, _ := p.cluster.engine.Config()
	c, err := Connect(controlplane.Through(p, config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		pass.ServeHTTP(w, r)
	}), nil)
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// testFailedAdoption: until its first update succeeds, an adopted add-on has the version that the installer applied.
func testFailedAdoption(p *playground) {
	marked := p.node("failed")
	p.install("half", "1.0.5", lights("half", "1.0.5", "a", "b"))
	const wrong = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: half-wrong, namespace: kube-system}\ndata: {'not a key': x}\n"
	if _, _, err := p.apply(ApplyOptions{}, p.entries(add{"name: half, version: 1.1.0, needsRollingUpdate: all", wrong})); err == nil {
		p.Fatal("a manifest that the API server refuses was applied")
	}
	if r := p.owner("half"); r.Owner != addon.Channel("kube-system", "half") || marked() {
		p.Errorf("after a failure: %+v, or the node is marked", r)
	}
	if got := p.installed("half"); got.Namespace != "kube-system" || got.Owner != "installer" || VersionOf(got.Version) != "1.0.5" {
		p.Errorf("get says %+v", got)
	}
	before := p.found("half")
	lower := p.entries(add{"name: half, version: 1.0.0", lights("half", "1.0.0", "a")}, add{"name: half, version: 1.0.0, namespace: default", lights("half", "1.0.0", "a")})
	plan, err := p.cluster.Plan(p.Context(), lower[:1])
	if want := "its adoption has begun and is not finished: version 1.0.5 stays, since 1.0.0 is older; 'sealift channel release kube-system/half' returns it to the installer"; err != nil || plan.Addons[0].Action != Keep || plan.Addons[0].Reason != want {
		p.Errorf("a lower version: %+v, %v", plan.Addons, err)
	}
	if done, _, err := p.apply(ApplyOptions{}, lower[:1]); err != nil || len(done) != 0 {
		p.Errorf("a lower version: %v, %v", done, err)
	}
	p.wantLights("after a lower version", "half", before)
	if back, err := p.cluster.PlanRelease(p.Context(), "kube-system/half"); err != nil || back.To != "installer" || back.Had != "1.0.5" {
		p.Errorf("to give it back: %+v, %v", back, err)
	}
	if plan, err := p.cluster.Plan(p.Context(), lower[1:]); err != nil || plan.Addons[0].Action != Install {
		p.Errorf("one of its name in another namespace: %+v, %v", plan.Addons, err)
	}
	higher := p.entries(add{"name: half, version: 1.1.0, needsRollingUpdate: all", lights("half", "1.1.0", "a")})
	plan, err = p.cluster.Plan(p.Context(), higher)
	if err != nil {
		p.Fatal(err)
	}
	if err := p.withoutNodes().Apply(p.Context(), Source{}, plan, ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "mark node failed for update") {
		p.Errorf("without the right to mark nodes: %v", err)
	}
	if done, _, err := p.apply(ApplyOptions{}, higher); err != nil || len(done) != 1 {
		p.Errorf("tried again: %v, %v", done, err)
	}
	p.wantLights("tried again", "half", map[string]string{"a": "1.1.0 channel", "b": "1.0.5 channel"})
	if !marked() {
		p.Error("the node is not marked")
	}
}
