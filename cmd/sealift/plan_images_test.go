package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/retention"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

// planOfImagesPrune plans on a node with an image of its bundle and one of an earlier bundle.
func planOfImagesPrune(t *testing.T) {
	h := newPlanHost(t)
	socket := containerd.ForTest(t)
	r, err := runtime.Connect(t.Context(), socket)
	h.made(err)
	defer r.Close()
	root := filepath.Join(h.dir, "work/node")
	h.made(os.MkdirAll(node.StateDir(root), 0o700))
	for _, ref := range []string{"registry.example/app:1", "registry.example/app:2"} {
		file := filepath.Join(t.TempDir(), "app.tar.gz")
		imagepackage.Write(t, file, ref)
		a, err := bundle.Open(file)
		h.made(err)
		defer a.Close()
		h.made(retention.Record(root, a.Index.Packages))
		layout, err := runtime.OpenLayout(a, "addons/app/1.0/images")
		h.made(err)
		_, err = r.Load(t.Context(), layout, func(string) {})
		h.made(err)
	}
	images := func() map[string]string {
		all, err := r.Images(t.Context())
		h.made(err)
		found := map[string]string{}
		for _, i := range all {
			found["image "+i.Names[0]] = fmt.Sprint(i)
		}
		return found
	}
	plan := []string{"images", "prune", "--plan", "--root", "node", "--containerd", socket}
	if out := h.planned("", plan, images); strings.TrimSpace(out) != "would remove registry.example/app:1" || len(images()) != 2 {
		t.Errorf("the plan says:\n%s", out)
	}
}
