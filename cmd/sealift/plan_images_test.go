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

// imagesHost is a host with a containerd.
type imagesHost struct {
	*planHost

	socket, root string
	runtime      *runtime.Runtime
}

func newImagesHost(t *testing.T) imagesHost {
	h := imagesHost{planHost: newPlanHost(t), socket: containerd.ForTest(t)}
	r, err := runtime.Connect(t.Context(), h.socket)
	h.made(err)
	t.Cleanup(func() { _ = r.Close() })
	h.runtime, h.root = r, filepath.Join(h.dir, "work/node")
	h.made(os.MkdirAll(node.StateDir(h.root), 0o700))
	return h
}

// load loads an image of a package, which becomes the last one that the node notes.
func (h imagesHost) load(ref string, origin runtime.Origin) {
	h.Helper()
	file := filepath.Join(h.TempDir(), "app.tar.gz")
	imagepackage.Write(h.T, file, ref)
	a, err := bundle.Open(file)
	h.made(err)
	defer a.Close()
	if origin == runtime.OfBundle {
		h.made(retention.Record(h.root, a.Index.Packages))
	}
	layout, err := runtime.OpenLayout(a, "addons/app/1.0/images")
	h.made(err)
	layout.Origin = origin
	_, err = h.runtime.Load(h.Context(), layout, func(string) {})
	h.made(err)
}

// plans checks what a plan prints, and that it changes neither the host nor the images of containerd.
func (h imagesHost) plans(want string, args ...string) {
	h.Helper()
	images := func() map[string]string {
		all, err := h.runtime.Images(h.Context())
		h.made(err)
		found := map[string]string{}
		for _, i := range all {
			found["image "+i.Names[0]] = fmt.Sprint(i)
		}
		return found
	}
	before := len(images())
	args = append([]string{"images"}, append(args, "--plan", "--containerd", h.socket)...)
	if out := h.planned("", args, images); !strings.HasPrefix(out, want+"\n") || len(images()) != before {
		h.Errorf("the plan says:\n%s", out)
	}
}

func planOfImagesPrune(t *testing.T) {
	h := newImagesHost(t)
	h.load("registry.example/app:1", runtime.OfBundle)
	h.load("registry.example/app:2", runtime.OfBundle)
	h.plans("would remove registry.example/app:1", "prune", "--root", "node")
}

func planOfImagesAdd(t *testing.T) {
	h := newImagesHost(t)
	imagepackage.Write(t, filepath.Join(h.dir, "work/app.tar.gz"), "registry.example/app:1")
	h.plans("would add registry.example/app:1", "add", "app.tar.gz")
}

func planOfImagesRemove(t *testing.T) {
	h := newImagesHost(t)
	h.load("registry.example/app:1", runtime.OfBundle)
	h.load("registry.example/shop:1", runtime.OfApplication)
	h.plans("would remove registry.example/shop:1", "remove", "registry.example/shop:1", "--root", "node")
}
