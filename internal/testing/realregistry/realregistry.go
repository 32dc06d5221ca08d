// Package realregistry runs the lab's container registry, distribution, for tests and benchmarks.
package realregistry

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// Start runs an empty registry on loopback until the test ends, and returns its host:port. Manifests in it can be deleted.
func Start(t *testing.T) (host string) {
	t.Helper()
	return StartIn(t, t.TempDir())
}

// StartIn is Start with a folder for its data, which exists.
func StartIn(t *testing.T, dir string) (host string) {
	t.Helper()
	host, stop, err := Run(t.Context(), lab.Workshop(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return host
}

// Run runs an empty registry on loopback until stop is called or this process ends. dir is for its data, and exists.
func Run(ctx context.Context, w *upstream.Workshop, dir string) (host string, stop func(), err error) {
	binary, err := w.File(ctx, upstream.Program("registry"))
	if err != nil {
		return "", nil, err
	}
	if host, err = daemon.FreeAddress(); err != nil {
		return "", nil, err
	}
	settings := filepath.Join(dir, "registry.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "version: 0.1\nlog: {level: warn}\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {addr: %q}\n", dir, host), 0o600); err != nil {
		return "", nil, err
	}
	d, err := daemon.Start(daemon.Command{Path: binary, Args: []string{"serve", settings}, Log: filepath.Join(dir, "log"), Env: []string{"OTEL_TRACES_EXPORTER=none"}})
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = d.WaitReady(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/v2/", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	})
	if err != nil {
		d.Stop()
		return "", nil, fmt.Errorf("%w: %s", err, d.LogTail())
	}
	return host, d.Stop, nil
}
