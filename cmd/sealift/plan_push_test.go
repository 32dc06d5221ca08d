package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/sealift/sealift/internal/testing/imagepackage"
)

func planOfPush(t *testing.T) {
	h := newPlanHost(t)
	var changes atomic.Int64
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			changes.Add(1)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	imagepackage.Write(t, filepath.Join(h.dir, "work/app.tar.gz"), "registry.k8s.io/app:v1")
	out := h.planned("", []string{"push", "app.tar.gz", "oci://" + strings.TrimPrefix(server.URL, "http://") + "/mirror", "--plan", "--prune", "--write-config", "config"})
	if changes.Load() > 0 || !strings.Contains(out, "registry.k8s.io/app:v1  missing") {
		t.Errorf("%d changes: %s", changes.Load(), out)
	}
}
