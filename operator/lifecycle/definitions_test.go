package lifecycle

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/module"
)

// TestRefusedDefinitionsAreNotTakenForServed: the second try finds nothing to write, and waits all the same.
func TestRefusedDefinitionsAreNotTakenForServed(t *testing.T) {
	const at = "/apis/apiextensions.k8s.io/v1"
	var live map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == at:
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apiextensions.k8s.io/v1",
				"resources":[{"name":"customresourcedefinitions","kind":"CustomResourceDefinition","namespaced":false}]}`))
		case r.Method == http.MethodPost:
			if err := json.NewDecoder(r.Body).Decode(&live); err != nil {
				t.Error(err)
			}
			live["status"] = map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "False", "reason": "MultipleNamesConflict", "message": "taken"}}}
			_ = json.NewEncoder(w).Encode(live)
		case r.URL.Path == at+"/customresourcedefinitions/gears.example.org" && live != nil:
			_ = json.NewEncoder(w).Encode(live)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		}
	}))
	t.Cleanup(server.Close)
	cluster, err := kube.Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "crds"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gears.example.org}\n" +
		"spec: {group: example.org, scope: Cluster, names: {kind: Gear, plural: gears}, versions: [{name: v1, served: true, storage: true}]}\n"
	if err := os.WriteFile(filepath.Join(dir, "crds", "gears.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &Operator{}
	o.options.Cluster = cluster
	u := &unit{Module: &module.Module{Path: dir}}
	for range 2 {
		if err := o.define(t.Context(), u); err == nil || !strings.Contains(err.Error(), "taken") {
			t.Errorf("%v", err)
		}
	}
}
