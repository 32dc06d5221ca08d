package agent_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/fleet/ocm"
)

// road brings images to the nodes of the cluster, or says why it cannot.
type road struct {
	store, folder string

	mu      sync.Mutex
	closed  string
	brought []string
}

func (r *road) Check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != "" {
		return errors.New(r.closed)
	}
	return nil
}

// Bring finds a whole bundle, and notes its images.
func (r *road) Bring(_ context.Context, folder string) error {
	a, err := bundle.Open(folder)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range a.Index.Packages {
		for _, image := range p.Images {
			r.brought = append(r.brought, image.Ref)
		}
	}
	for _, e := range a.Index.Entries {
		if a.Index.OfImage(e) {
			if _, err := a.ReadFile(e.Path, 1<<20); err != nil {
				return err
			}
		}
	}
	return a.Close()
}

func (r *road) close(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = why
}

func (r *road) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.brought, " ")
}

// pack puts a package with an image into the store.
func (c *cluster) pack(version string) {
	c.Helper()
	layer := []byte("layer of " + version)
	p := bundle.Package{Name: "hello", Version: version, Platforms: []string{"linux/amd64"}, Contents: bundle.Contents{Images: []bundle.Image{{
		ID: "hello", Ref: "example.com/hello:" + version, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(layer)),
	}}}}
	p.Files = []bundle.File{
		bundle.BytesFile(fmt.Sprintf("%s/images/blobs/sha256/%x", bundle.AddOnDir("hello", version), sha256.Sum256(layer)), 0o644, layer),
		bundle.BytesFile(bundle.AddOnDir("hello", version)+"/install.sh", 0o644, nil),
	}
	f, err := os.Create(filepath.Join(c.images.store, "hello-"+version+".tar.gz"))
	c.must(err)
	_, err = bundle.WritePackage(c.Context(), f, p, bundle.WriteOptions{})
	c.must(errors.Join(err, f.Close()))
}

const pods = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: pods, namespace: rome}
spec:
  workload:
    manifests:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: hello, namespace: default}
      spec:
        selector: {matchLabels: {app: hello}}
        template:
          metadata: {labels: {app: hello}}
          spec: {containers: [{name: hello, image: "example.com/hello:VERSION"}, {name: other, image: "example.com/of-a-registry:1"}]}
`

// imagesComeFirst has a work that waits for its images, then a newer one, and then none.
func (c *cluster) imagesComeFirst() {
	c.pack("1.0")
	image := func() string {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
		if c.Get(c.Context(), types.NamespacedName{Namespace: "default", Name: "hello"}, o) != nil {
			return ""
		}
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		return list[0].(map[string]any)["image"].(string)
	}
	applied := func() *metav1.Condition {
		var w ocm.ManifestWork
		if c.Get(c.Context(), types.NamespacedName{Namespace: "rome", Name: "pods"}, &w) != nil {
			return nil
		}
		return meta.FindStatusCondition(w.Status.Conditions, "Applied")
	}
	c.images.close("no node is there")
	c.apply(strings.ReplaceAll(pods, "VERSION", "1.0"))
	c.eventually("the work says that it waits", func() bool {
		a := applied()
		return a != nil && a.Reason == "ImagesMissing" && strings.Contains(a.Message, "no node is there")
	})
	if got := image(); got != "" || c.images.all() != "" {
		c.Errorf("the cluster has %q, and the nodes got %q", got, c.images.all())
	}
	c.images.close("")
	c.eventually("it is applied with its image", func() bool { return image() == "example.com/hello:1.0" && applied().Status == "True" })
	c.pack("2.0")
	c.apply(strings.ReplaceAll(pods, "VERSION", "2.0"))
	c.eventually("the next one, too", func() bool { return image() == "example.com/hello:2.0" })
	if got := c.images.all(); got != "example.com/hello:1.0 example.com/hello:2.0" {
		c.Errorf("the nodes got %q", got)
	}
	if folders, err := os.ReadDir(c.images.folder); err != nil || len(folders) != 1 {
		c.Errorf("the images of the work before are kept: %v, %v", folders, err)
	}
	if found, _ := filepath.Glob(c.images.folder + "/*/addons/*/*/install.sh"); len(found) > 0 {
		c.Errorf("more than images was fetched: %v", found)
	}
	c.must(c.Delete(c.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "pods"}}))
	c.eventually("it is gone", func() bool { return image() == "" })
}
