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
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/store"
)

// road delivers images to the Ready nodes of the cluster, or returns why it cannot. It also serves as the connection to the
// store.
type road struct {
	store.Store
	cluster          *cluster
	folder, packages string

	mu      sync.Mutex
	closed  string                // why images cannot be brought
	away    bool                  // the store
	before  func(context.Context) // called before nodes get images, and after it
	after   func()
	brought []string // the images, each time with the nodes
}

var errAway = errors.New("the store is away")

func newRoad(c *cluster) *road {
	c.Helper()
	r := &road{cluster: c, folder: filepath.Join(c.TempDir(), "online"), packages: c.TempDir()}
	var err error
	r.Store, err = store.Open(r.packages)
	c.must(err)
	return r
}

// List implements store.Store.
func (r *road) List(ctx context.Context, prefix string) ([]store.Info, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, errAway
	}
	return r.Store.List(ctx, prefix)
}

// Get implements store.Store.
func (r *road) Get(ctx context.Context, key string) (store.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, errAway
	}
	return r.Store.Get(ctx, key)
}

func (r *road) Check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != "" {
		return errors.New(r.closed)
	}
	return nil
}

// Bring finds a complete bundle, and records its images.
func (r *road) Bring(ctx context.Context, folder string) (nodes []string, err error) {
	r.mu.Lock()
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		before(ctx)
	}
	if after != nil {
		defer after()
	}
	var list corev1.NodeList
	if err := r.cluster.List(ctx, &list); err != nil {
		return nil, err
	}
	for _, n := range list.Items {
		if n.Status.Conditions[0].Status == corev1.ConditionTrue {
			nodes = append(nodes, n.Name)
		}
	}
	a, err := bundle.Open(folder)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range a.Index.Packages {
		for _, image := range p.Images {
			r.brought = append(r.brought, strings.TrimSpace(image.Ref+" "+strings.Join(nodes, ",")))
		}
	}
	for _, e := range a.Index.Entries {
		if a.Index.OfImage(e) {
			if _, err := a.ReadFile(e.Path, 1<<20); err != nil {
				return nil, err
			}
		}
	}
	return nodes, errors.Join(ctx.Err(), a.Close())
}

func (r *road) set(change func(*road)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *road) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.brought, "; ")
}

// pack puts a package with the image example.com/hello into the store.
func (c *cluster) pack(version string) {
	c.Helper()
	c.packImage(version, "example.com/hello:"+version)
}

func (c *cluster) packImage(version, ref string) {
	c.Helper()
	layer := []byte("layer of " + version)
	p := bundle.Package{Name: "hello", Version: version, Platforms: []string{"linux/amd64"}, Contents: bundle.Contents{Images: []bundle.Image{{
		ID: "hello", Ref: ref, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(layer)),
	}}}}
	p.Files = []bundle.File{
		bundle.BytesFile(fmt.Sprintf("%s/images/blobs/sha256/%x", bundle.AddOnDir("hello", version), sha256.Sum256(layer)), 0o644, layer),
		bundle.BytesFile(bundle.AddOnDir("hello", version)+"/install.sh", 0o644, nil),
	}
	f, err := os.Create(filepath.Join(c.images.packages, "hello-"+version+".tar.gz"))
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

// image returns the first image of a Deployment.
func (c *cluster) image(name string) string {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	if c.Get(c.Context(), types.NamespacedName{Namespace: "default", Name: name}, o) != nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	return list[0].(map[string]any)["image"].(string)
}

// applied returns condition Applied of a work, if it is about the work's current form.
func (c *cluster) applied(work string) *metav1.Condition {
	var w ocm.ManifestWork
	if c.Get(c.Context(), types.NamespacedName{Namespace: "rome", Name: work}, &w) != nil {
		return nil
	}
	applied := meta.FindStatusCondition(w.Status.Conditions, "Applied")
	if applied != nil && applied.ObservedGeneration != w.Generation {
		return nil
	}
	return applied
}

// imagesComeFirst has a work that waits for its images, then a newer one, and then none.
func (c *cluster) imagesComeFirst() {
	c.pack("1.0")
	c.images.set(func(r *road) { r.closed = "no node is there" })
	c.apply(strings.ReplaceAll(pods, "VERSION", "1.0"))
	c.eventually("the work says that it waits", func() bool {
		a := c.applied("pods")
		return a != nil && a.Reason == "ImagesMissing" && strings.Contains(a.Message, "no node is there")
	})
	if got := c.image("hello"); got != "" || c.images.all() != "" {
		c.Errorf("the cluster has %q, and the nodes got %q", got, c.images.all())
	}
	c.images.set(func(r *road) { r.closed = "" })
	c.eventually("it is applied with its image", func() bool { return c.image("hello") == "example.com/hello:1.0" && c.applied("pods").Status == "True" })
	c.pack("2.0")
	c.apply(strings.ReplaceAll(pods, "VERSION", "2.0"))
	c.eventually("the next one, too", func() bool { return c.image("hello") == "example.com/hello:2.0" })
	if got := c.images.all(); got != "example.com/hello:1.0; example.com/hello:2.0" {
		c.Errorf("the nodes got %q", got)
	}
	c.eventually("the images of the work before are dropped", func() bool {
		folders, err := os.ReadDir(c.images.folder)
		return err == nil && len(folders) == 1
	})
	if found, _ := filepath.Glob(c.images.folder + "/*/addons/*/*/install.sh"); len(found) > 0 {
		c.Errorf("more than images was fetched: %v", found)
	}
	c.must(c.Delete(c.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "pods"}}))
	c.eventually("it is gone", func() bool { return c.image("hello") == "" })
}

// node makes a node of the cluster Ready, or not.
func (c *cluster) node(name string, ready corev1.ConditionStatus) {
	c.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.must(client.IgnoreAlreadyExists(c.Create(c.Context(), n)))
	c.must(c.Get(c.Context(), client.ObjectKeyFromObject(n), n))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	c.must(c.Status().Update(c.Context(), n))
}

// deploy has a work with a Deployment of the same name.
func (c *cluster) deploy(name, version, label string) {
	c.Helper()
	c.apply(strings.NewReplacer("VERSION", version, "name: pods", "name: "+name,
		"{name: hello, namespace: default}", "{name: "+name+", namespace: default, labels: {is: "+label+"}}").Replace(pods))
}

// label returns the label of such a Deployment.
func (c *cluster) label(name string) string {
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	if c.Get(c.Context(), types.NamespacedName{Namespace: "default", Name: name}, o) != nil {
		return ""
	}
	return o.Labels["is"]
}

// repaired waits until the agent has checked a work again.
func (c *cluster) repaired(name string) {
	c.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "default", "name": name}}}
	c.must(c.Delete(c.Context(), o))
	c.eventually(name+" is repaired", func() bool { return c.image(name) != "" })
}

// waits reports whether a work waits for its images for a reason.
func (c *cluster) waits(name, why string) bool {
	a := c.applied(name)
	return a != nil && a.Reason == "ImagesMissing" && strings.Contains(a.Message, why)
}

func (c *cluster) isApplied(name string) bool {
	a := c.applied(name)
	return a != nil && a.Status == metav1.ConditionTrue
}

// TestImagesReachEveryReadyNode has nodes that come and go, and an unreachable store.
func TestImagesReachEveryReadyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pack("1.0")
	c.node("one", corev1.ConditionTrue)
	c.node("two", corev1.ConditionFalse)
	c.deploy("first", "1.0", "new")
	c.eventually("it is applied", func() bool { return c.isApplied("first") })

	t.Log("a node that was away, and has the images, gets nothing")
	c.node("one", corev1.ConditionUnknown)
	c.repaired("first")
	c.node("one", corev1.ConditionTrue)
	c.repaired("first")
	if got := c.images.all(); got != "example.com/hello:1.0 one" {
		t.Errorf("the nodes got %q", got)
	}

	t.Log("the store is away: a node that is new gets what was fetched, and what runs stays as it is")
	since := c.applied("first").LastTransitionTime
	c.images.set(func(r *road) { r.away = true })
	c.node("two", corev1.ConditionTrue)
	c.eventually("the other node has the image", func() bool {
		return c.images.all() == "example.com/hello:1.0 one; example.com/hello:1.0 one,two"
	})
	c.deploy("first", "1.0", "changed")
	c.eventually("a change that needs no other image is applied", func() bool { return c.label("first") == "changed" && c.isApplied("first") })
	c.deploy("second", "2.0", "new")
	c.eventually("a work with a new image waits", func() bool { return c.waits("second", errAway.Error()) })
	c.stop()
	c.start()
	c.repaired("first")
	if got := c.applied("first"); got.Status != metav1.ConditionTrue || !got.LastTransitionTime.Equal(&since) || c.image("second") != "" {
		t.Errorf("what runs: %+v; the work with a new image has %q", got, c.image("second"))
	}
	c.pack("2.0")
	c.images.set(func(r *road) { r.away = false })
	c.eventually("it is applied when the store is there again", func() bool { return c.image("second") == "example.com/hello:2.0" })

	t.Log("a node that is away for a moment, just then, gets the images when it is back")
	c.pack("3.0")
	c.images.set(func(r *road) {
		r.before = func(context.Context) { c.node("two", corev1.ConditionFalse) }
		r.after = func() { c.node("two", corev1.ConditionTrue) }
	})
	c.deploy("second", "3.0", "new")
	c.eventually("the other node has the image", func() bool { return strings.Contains(c.images.all(), "example.com/hello:3.0 one") })
	c.images.set(func(r *road) { r.before, r.after = nil, nil })
	c.eventually("the node has the image", func() bool { return strings.Contains(c.images.all(), "example.com/hello:3.0 one,two") })
	c.eventually("the work is applied", func() bool { return c.image("second") == "example.com/hello:3.0" })

	t.Log("a package that comes after the work that names its image")
	c.packImage("0.1", "example.com/of-a-registry:1")
	c.eventually("the nodes have it", func() bool { return strings.Contains(c.images.all(), "example.com/of-a-registry:1 one,two") })

	t.Log("a package that nobody can read stops only the works that may need it")
	c.must(os.WriteFile(filepath.Join(c.images.packages, "broken-1.0.tar.gz"), []byte("not an archive"), 0o600))
	c.pack("4.0")
	c.deploy("first", "4.0", "new")
	c.deploy("second", "5.0", "new")
	c.eventually("the one that does not need it is applied", func() bool { return c.image("first") == "example.com/hello:4.0" })
	c.eventually("the other one waits", func() bool { return c.waits("second", "package broken-1.0.tar.gz") })
}

// TestSlowImagesDelayNothingElse has nodes that do not answer.
func TestSlowImagesDelayNothingElse(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pack("1.0")
	c.node("one", corev1.ConditionTrue)
	c.deploy("runs", "1.0", "new")
	c.eventually("it is applied", func() bool { return c.isApplied("runs") })
	c.pack("2.0")
	c.images.set(func(r *road) { r.before = func(ctx context.Context) { <-ctx.Done() } })
	c.deploy("slow", "2.0", "new")
	c.eventually("the first work waits", func() bool { return c.waits("slow", "") })
	for i := range 5 { // more than are processed at once
		c.deploy(fmt.Sprint("waits-", i), "2.0", "new")
	}
	for i := range 5 {
		name := fmt.Sprint("waits-", i)
		c.eventually(name+" says that it waits", func() bool { return c.waits(name, "") })
	}
	c.apply(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: plain, namespace: rome}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: default}}]}}
`)
	c.eventually("a work without images is applied", func() bool { return c.isApplied("plain") })
	c.repaired("runs")
	c.eventually("the work says that it took too long", func() bool { return c.waits("slow", "not done after 5s") })
	c.images.set(func(r *road) { r.before = nil })
	for _, name := range []string{"slow", "waits-0", "waits-4"} {
		c.eventually(name+" is applied", func() bool { return c.image(name) == "example.com/hello:2.0" })
	}
	c.images.set(func(r *road) { r.before = func(ctx context.Context) { <-ctx.Done() } })
	c.pack("3.0")
	c.deploy("slow", "3.0", "new")
	c.eventually("it waits again", func() bool { return c.waits("slow", "") })
	c.stop() // and ends, though images are on their way
}
