package kube_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
)

// fakeAPI answers with fixed texts by path, and as an API server for paths that it does not serve. It notes the deletions.
type fakeAPI struct {
	mu      sync.Mutex
	texts   map[string]string
	deleted []string
}

// The kind Thing of group example.org, as an API server lists it.
const (
	thingsPath = "/apis/example.org/v1"
	thingsList = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.org/v1","resources":[{"name":"things","kind":"Thing","namespaced":false}]}`
)

func (f *fakeAPI) serve(path, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.texts == nil {
		f.texts = map[string]string{}
	}
	f.texts[path] = text
}

func (f *fakeAPI) drop(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.texts, path)
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.texts[r.URL.Path]
	switch {
	case r.Method == http.MethodDelete:
		f.deleted = append(f.deleted, r.URL.Path)
		text = `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	case !ok:
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(text))
}

func (f *fakeAPI) connect(t *testing.T) *kube.Cluster {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	cluster, err := kube.Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}
