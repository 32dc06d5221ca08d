//go:build grid

package runtime_test

import (
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/containerd"
)

// TestLeanImageSurvivesUpgradeOfContainerd loads a lean image with one version of containerd and looks for it with a newer one.
func TestLeanImageSurvivesUpgradeOfContainerd(t *testing.T) {
	c := containerd.StartForTest(t)
	newer := releases.Current("containerd")
	if err := c.Upgrade(t.Context(), newer.Before().Version); err != nil {
		t.Fatal(err)
	}
	a := leanBundle(t, archive(t, map[string]v1.Image{leanRef: leanImage(t)}))
	load := func(want runtime.Result) {
		t.Helper()
		r, err := runtime.Connect(t.Context(), c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		wantLoad(t, r, a, want)
	}
	load(runtime.Result{Loaded: 1})
	if err := c.Upgrade(t.Context(), newer.Version); err != nil {
		t.Fatal(err)
	}
	load(runtime.Result{Present: 1})
	wantFiles(namespaces.WithNamespace(t.Context(), "k8s.io"), t, c.Socket, map[string]int64{"usr/local/bin/tool": 1_600_000, "etc/motd": 1})
}
