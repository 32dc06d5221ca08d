package kube_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// behind reaches the control plane through a handler.
func behind(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) *rest.Config {
	t.Helper()
	return controlplane.Through(t, shared.Config(t), handle)
}

// flaky fails the first two requests of every method and path, each in another way, like a control plane that
// starts, restarts or is overloaded.
func flaky(t *testing.T) *rest.Config {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	total := 0
	return behind(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		mu.Lock()
		key := r.Method + " " + r.URL.Path
		seen[key]++
		total++
		fails, way := seen[key] <= 2, total%4
		mu.Unlock()
		switch {
		case !fails:
			pass.ServeHTTP(w, r)
		case way == 0:
			panic(http.ErrAbortHandler) // the connection closes under the request
		case way == 1:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		case way == 2:
			w.Header().Set("Retry-After", "0")
			http.Error(w, "busy", http.StatusTooManyRequests)
		default:
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: leader changed","code":500}`, http.StatusInternalServerError)
		}
	})
}

func TestEngineWaitsForStartingControlPlane(t *testing.T) {
	c := newCluster(t)
	engine := kube.New(connect(t, flaky(t)), kube.Options{})
	objs := c.objects(configMapOf("a", "1"), configMapOf("b", "1"))
	result, err := engine.Apply(t.Context(), c.set, objs, kube.ApplyOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/a created", "ConfigMap/b created"}, actions(result)); diff != "" {
		t.Error(diff)
	}
	if err := engine.Wait(t.Context(), objs, kube.WaitOptions{Timeout: time.Minute, Interval: often}); err != nil {
		t.Error(err)
	}
}

func TestApplyGivesUpWithLastServerError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "still starting", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	engine := kube.New(connect(t, &rest.Config{Host: server.URL}), kube.Options{})
	_, err := engine.Apply(t.Context(), kube.Set{Name: "a"}, parse(t, configMap), kube.ApplyOptions{Timeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "gave up after ") || !strings.Contains(err.Error(), "currently unable to handle the request") {
		t.Errorf("error is %v", err)
	}
}
