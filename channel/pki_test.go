package channel

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestNoKeysForAddOnsOfOthers: an add-on that was given back gets no CA. One that is adopted gets it.
func TestNoKeysForAddOnsOfOthers(t *testing.T) {
	record := func(name, more string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"kube-system","labels":{"sealift.dev/record":"addon"}},"data":{"apiVersion":"sealift.dev/v1","set":"default/a","name":"` + name +
			`","version":"1.0.0","owner":"installer","policy":"OnChange"` + more + `}}`
	}
	texts := map[string]string{
		"/version": `{"gitVersion":"v1.36.3"}`,
		"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace"},` +
			`{"name":"secrets","kind":"Secret","namespaced":true},{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
		"/api/v1/namespaces": `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}`,
		"/api/v1/namespaces/kube-system/configmaps": `{"kind":"ConfigMapList","apiVersion":"v1","items":[` +
			record("released", `,"released":"channel kube-system/released"`) + "," + record("newer", "") + "," + record("adopted", "") + `]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if text := texts[r.URL.Path]; text != "" {
			_, _ = w.Write([]byte(text))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	}))
	t.Cleanup(server.Close)
	c, err := Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	older, same := "0.9.0", "1.0.0"
	plan, err := c.Plan(t.Context(), []Entry{
		{Name: "released", Namespace: DefaultNamespace, Version: &same, NeedsPKI: true},
		{Name: "newer", Namespace: DefaultNamespace, Version: &older, NeedsPKI: true},
		{Name: "adopted", Namespace: DefaultNamespace, Version: &same, NeedsPKI: true},
	})
	if err != nil || len(plan.Addons) != 3 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for i, want := range []Action{Keep, Keep, Adopt} {
		if d := plan.Addons[i]; d.Action != want || d.PKI != (want == Adopt) {
			t.Errorf("%s: %s, CA %t: %s", d.Entry.Name, d.Action, d.PKI, d.Reason)
		}
	}
}
