package watch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/watch"
)

// TestBindingsFollowTheServedVersion: a definition drops the version that is watched, and has another one.
func TestBindingsFollowTheServedVersion(t *testing.T) {
	var version atomic.Value
	version.Store("v1alpha1")
	dropped := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, _ := version.Load().(string)
		group := "/apis/example.org/" + now
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`)
		case "/apis":
			fmt.Fprintf(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.org","preferredVersion":{"groupVersion":"example.org/%s","version":"%[1]s"}}]}`, now)
		case group:
			fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.org/%s","resources":[{"name":"foos","kind":"Foo"}]}`, now)
		case group + "/foos":
			switch q := r.URL.Query(); {
			case q.Get("sendInitialEvents") != "":
				w.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			case q.Get("watch") != "":
				w.(http.Flusher).Flush()
				select {
				case <-dropped:
				case <-r.Context().Done():
				}
			case now == "v1":
				fmt.Fprint(w, `{"kind":"FooList","apiVersion":"example.org/v1","metadata":{"resourceVersion":"2"},"items":[{"kind":"Foo","apiVersion":"example.org/v1","metadata":{"name":"a"}}]}`)
			default:
				fmt.Fprintf(w, `{"kind":"FooList","apiVersion":"example.org/%s","metadata":{"resourceVersion":"1"},"items":[]}`, now)
			}
		default:
			http.Error(w, "404 page not found", http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	cluster, err := kube.Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := watch.New(ctx, cluster, nil)
	t.Cleanup(func() { cancel(); w.Wait() })
	s := &site{T: t}
	var h eventLog
	sub := w.Subscribe(s.kubernetes("kind: foo"), h.on)
	synced(s, sub)
	sub.Release()
	version.Store("v1")
	close(dropped)
	s.expectEvents(&h, "Added a")
}
