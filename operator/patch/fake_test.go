package patch_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/patch"
)

// fake is a cluster that answers with texts by method and path, and for others as if it did not serve the resource.
func fake(t *testing.T, texts map[string]string) *kube.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.Method+" "+r.URL.Path]
		if !ok {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	cluster, err := kube.Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func TestMadeIsWhatIsLeft(t *testing.T) {
	cluster := fake(t, map[string]string{
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
