package patch_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/patch"
)

// missing is the answer to a request for an object that does not exist.
const missing = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`

// fake is a cluster that answers with texts by method and path, and for others as if it did not serve the resource. The texts may be replaced.
func fake(t *testing.T, texts map[string]string) (cluster *kube.Cluster, served *atomic.Pointer[map[string]string]) {
	t.Helper()
	served = &atomic.Pointer[map[string]string]{}
	served.Store(&texts)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := (*served.Load())[r.Method+" "+r.URL.Path]
		if !ok {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if text == missing {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	cluster, err := kube.Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cluster, served
}

func TestMadeIsWhatIsLeft(t *testing.T) {
	cluster, _ := fake(t, map[string]string{
		"GET /api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
	})
	operations, err := patch.Parse([]byte(`{operation: Delete, apiVersion: v1, kind: ConfigMap, namespace: n, name: a}
---
{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: n, name: a}}}
---
{operation: Create, object: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: n, name: b}}}
---
{operation: DeleteInBackground, apiVersion: v1, kind: cm, namespace: n, name: b}
---
{operation: Delete, apiVersion: v1, kind: configmaps, namespace: n, name: b}
---
{operation: MergePatch, apiVersion: v1, kind: ConfigMap, namespace: n, name: c, mergePatch: {data: {a: b}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	made := patch.Made(t.Context(), cluster, operations)
	if want := (kube.Ref{Kind: "ConfigMap", Namespace: "n", Name: "a"}); len(made) != 1 || made[0] != want {
		t.Errorf("made are %v", made)
	}
}

// TestDeletionsNeedTheirKind: a version that a definition has dropped has no objects that could be missing.
func TestDeletionsNeedTheirKind(t *testing.T) {
	list := func(version string) string {
		return `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.org/` + version + `","resources":[{"name":"foos","kind":"Foo"}]}`
	}
	groups := func(version string) string {
		return `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.org","preferredVersion":{"groupVersion":"example.org/` + version + `","version":"` + version + `"}}]}`
	}
	done := `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	cluster, served := fake(t, map[string]string{
		"GET /api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`,
		"GET /apis":   groups("v1alpha1"), "GET /apis/example.org/v1alpha1": list("v1alpha1"),
		"DELETE /apis/example.org/v1alpha1/foos/a": done, "GET /apis/example.org/v1alpha1/foos/a": missing,
	})
	run := func(text string) error {
		operations, err := patch.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return patch.Do(t.Context(), cluster, operations)
	}
	const fixed, open = "{operation: Delete, apiVersion: example.org/v1alpha1, kind: Foo, name: a}", "{operation: Delete, kind: foo, name: a}"
	for _, text := range []string{fixed, open} {
		if err := run(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	served.Store(&map[string]string{
		"GET /api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`,
		"GET /apis":   groups("v1"), "GET /apis/example.org/v1": list("v1"), "DELETE /apis/example.org/v1/foos/a": done,
	})
	if err := run(fixed); !meta.IsNoMatchError(err) {
		t.Errorf("of a version that is not served: %v", err)
	}
	if err := run(open); err != nil {
		t.Errorf("of any version: %v", err)
	}
}
