package kube_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// shared is one control plane for all tests of the package: each test has its own namespace and set.
var (
	shared controlplane.Shared
	tests  atomic.Int32
)

func TestMain(m *testing.M) { shared.Main(m) }

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// cluster is a control plane for a test: an engine, and a client that plays everyone else.
type cluster struct {
	*kube.Engine
	t      testing.TB
	client dynamic.Interface
	ns     string
	set    kube.Set
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	cfg := shared.Config(t)
	engine := kube.New(connect(t, cfg), kube.Options{})
	cfg.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", " ", "-").Replace(t.Name()))
	// The number keeps runs of one test apart (-count).
	name = fmt.Sprintf("%s-%d", name[:min(len(name), 50)], tests.Add(1))
	c := &cluster{Engine: engine, t: t, client: client, ns: name, set: kube.Set{Name: name}}
	c.create(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}", name))
	return c
}

func connect(t testing.TB, cfg *rest.Config) *kube.Cluster {
	t.Helper()
	c, err := kube.Connect(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	objs, err := render.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objs
}

// objects parses documents in which NS stands for the namespace of the test.
func (c *cluster) objects(docs ...string) []*unstructured.Unstructured {
	c.t.Helper()
	return parse(c.t, strings.ReplaceAll(strings.Join(docs, "\n---\n"), "NS", c.ns))
}

func (c *cluster) resource(gvr, namespace string) dynamic.ResourceInterface {
	parts := strings.Split(gvr, "/")
	r := schema.GroupVersionResource{Version: parts[0], Resource: parts[len(parts)-1]}
	if len(parts) == 3 {
		r = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	}
	if namespace == "" {
		return c.client.Resource(r)
	}
	return c.client.Resource(r).Namespace(namespace)
}

// create creates an object as another client would.
func (c *cluster) create(doc string) {
	c.t.Helper()
	obj := c.objects(doc)[0]
	gvr := obj.GetAPIVersion() + "/" + strings.ToLower(obj.GetKind()) + "s"
	_, err := c.resource(gvr, obj.GetNamespace()).Create(c.t.Context(), obj, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		c.t.Fatal(err)
	}
}

// get reads an object, or returns nil if it does not exist.
func (c *cluster) get(gvr, name string) *unstructured.Unstructured {
	c.t.Helper()
	obj, err := c.resource(gvr, c.ns).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return obj
}

// update changes an object under the name of a field manager; subresource may be "status".
func (c *cluster) update(gvr, name, manager string, change func(map[string]any), subresource ...string) {
	c.t.Helper()
	obj := c.get(gvr, name)
	if obj == nil {
		c.t.Fatalf("%s %s does not exist", gvr, name)
	}
	change(obj.Object)
	if _, err := c.resource(gvr, c.ns).Update(c.t.Context(), obj, metav1.UpdateOptions{FieldManager: manager}, subresource...); err != nil {
		c.t.Fatal(err)
	}
}

// apply applies documents and fails the test on an error.
func (c *cluster) apply(o kube.ApplyOptions, docs ...string) kube.Result {
	c.t.Helper()
	result, err := c.Apply(c.t.Context(), c.set, c.objects(docs...), o)
	if err != nil {
		c.t.Fatal(err)
	}
	return result
}

// actions returns "Kind/name action" of each entry. Most tests compare these.
func actions(r kube.Result) []string {
	var out []string
	for _, entry := range r.Entries {
		out = append(out, fmt.Sprintf("%s/%s %s", entry.Object.Kind, entry.Object.Name, entry.Action))
	}
	return out
}

func setField(value any, path ...string) func(map[string]any) {
	return func(content map[string]any) { _ = unstructured.SetNestedField(content, value, path...) }
}
