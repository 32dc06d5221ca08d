package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/kube/render"
)

// channelCluster is a real control plane, and a folder with channels.
type channelCluster struct {
	*testing.T
	kubeconfig string
	client     dynamic.Interface
	dir        string
	gitVersion *atomic.Pointer[string] // what the API server claims to be
}

// newChannelCluster runs a control plane behind a proxy that can report another version.
func newChannelCluster(t *testing.T) *channelCluster {
	t.Helper()
	c := &channelCluster{T: t, dir: t.TempDir(), gitVersion: &atomic.Pointer[string]{}}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfigFor(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	if c.client, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if version := c.gitVersion.Load(); version != nil && r.URL.Path == "/version" {
			fmt.Fprintf(w, `{"gitVersion": %q}`, *version)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c"}
	file.CurrentContext = "x"
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*file, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// in gives the cluster to a separate test, with its own folder.
func (c *channelCluster) in(name string, test func(*channelCluster)) {
	c.Run(name, func(t *testing.T) {
		sub := *c
		sub.T, sub.dir = t, t.TempDir()
		sub.gitVersion.Store(nil)
		test(&sub)
	})
}

func (c *channelCluster) write(name, content string) string {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
	return path
}

// index writes an index of entries, each a line of YAML in flow style.
func (c *channelCluster) index(name string, entries ...string) string {
	c.Helper()
	text := "kind: Addons\nmetadata: {name: " + strings.TrimSuffix(filepath.Base(name), ".yaml") + "}\nspec:\n  addons:\n"
	for _, e := range entries {
		text += "  - " + e + "\n"
	}
	return c.write(name, text)
}

// sealift runs a channel command.
func (c *channelCluster) sealift(args ...string) (code int, out, errOut string) {
	c.Helper()
	var o, e bytes.Buffer
	args = append([]string{"channel"}, args...)
	if !slices.Contains(args, "index") && !slices.Contains(args, "build") {
		args = append(args, "--kubeconfig", c.kubeconfig)
	}
	code = run(c.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// must runs a channel command that has to succeed.
func (c *channelCluster) must(args ...string) string {
	c.Helper()
	code, out, errOut := c.sealift(args...)
	if code != app.ExitDone {
		c.Fatalf("%v: exit code %d\n%s%s", args, code, out, errOut)
	}
	return out
}

func (c *channelCluster) plan(args ...string) channel.Plan {
	c.Helper()
	var plan channel.Plan
	if err := json.Unmarshal([]byte(c.must(append([]string{"plan", "-o", "json"}, args...)...)), &plan); err != nil {
		c.Fatal(err)
	}
	return plan
}

func gvr(text string) schema.GroupVersionResource {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = append([]string{""}, parts...)
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
}

// get reads an object of kube-system, or of no namespace; nil when there is none.
func (c *channelCluster) get(resource, namespace, name string) *unstructured.Unstructured {
	c.Helper()
	obj, err := c.client.Resource(gvr(resource)).Namespace(namespace).Get(c.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	return obj
}

// create creates an object as another client would.
func (c *channelCluster) create(resource, doc string) *unstructured.Unstructured {
	c.Helper()
	objs, err := render.Decode(strings.NewReader(doc))
	if err != nil {
		c.Fatal(err)
	}
	made, err := c.client.Resource(gvr(resource)).Namespace(objs[0].GetNamespace()).Create(c.Context(), objs[0], metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		c.Fatal(err)
	}
	return made
}

func (c *channelCluster) patch(resource, namespace, name, patch string, subresources ...string) {
	c.Helper()
	_, err := c.client.Resource(gvr(resource)).Namespace(namespace).Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	if err != nil {
		c.Fatal(err)
	}
}

// record writes the annotation that marks an add-on as installed, as kOps does; an empty one removes it.
func (c *channelCluster) record(namespace, name, text string) {
	c.Helper()
	value := any(text)
	if text == "" {
		value = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"addons.k8s.io/" + name: value}}})
	if err != nil {
		c.Fatal(err)
	}
	c.patch("v1/namespaces", "", namespace, string(patch))
}

func (c *channelCluster) recorded(namespace, name string) string {
	c.Helper()
	return c.get("v1/namespaces", "", namespace).GetAnnotations()["addons.k8s.io/"+name]
}

func (c *channelCluster) clear() {
	c.Helper()
	for key := range c.get("v1/namespaces", "", "kube-system").GetAnnotations() {
		if name, ok := strings.CutPrefix(key, "addons.k8s.io/"); ok {
			c.record("kube-system", name, "")
		}
	}
}

// configMap is a manifest of one object.
func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: kube-system, labels: {app: %[1]s}}\ndata: {value: '%s'}\n", name, value)
}

// value returns the value that configMap put into the cluster, or "".
func (c *channelCluster) value(name string) string {
	c.Helper()
	obj := c.get("v1/configmaps", "kube-system", name)
	if obj == nil {
		return ""
	}
	value, _, _ := unstructured.NestedString(obj.Object, "data", "value")
	return value
}

func TestChannel(t *testing.T) {
	c := newChannelCluster(t)
	c.in("what kOps's own tool prints", testChannelOutput)
	c.in("the downgrade story", testChannelDowngrade)
	c.in("the rules for replacing", testChannelReplaces)
	c.in("the ranges of Kubernetes versions", testChannelRanges)
	c.in("what counts as healthy", testChannelHealth)
	c.in("prune", testChannelPrune)
	c.in("a user's edit", testChannelEdit)
	c.in("failures", testChannelFailures)
	c.in("bad indexes", testChannelBadIndexes)
	c.in("nodes that need an update", testChannelNodes)
	c.in("keys", testChannelPKI)
	c.in("a cluster of kOps and back", testChannelTakeOver)
	c.in("several channels", testChannelMerge)
	c.in("manifests of every form", testChannelForms)
	c.in("packages of a store", testChannelPackages)
	c.in("packages that are signed", testChannelSigned)
	c.in("building", testChannelBuild)
	c.in("the alias", testChannelsAlias)
	c.in("kill -9", testChannelKills)
	c.in("two at once", testChannelTwoAtOnce)
	c.in("the loop", testChannelLoop)
	c.in("300 add-ons", testChannelSize)
}

func testChannelOutput(c *channelCluster) {
	if out := c.must("get", "addons"); out != "\nNo managed addons found\n" {
		c.Errorf("%q", out)
	}
	c.write("a.yaml", configMap("out-a", "1"))
	file := c.index("addons.yaml", "{name: out-a, version: 1.0.0, manifest: a.yaml, manifestHash: h1}", "{name: out-b, manifest: b.yaml, id: x}")
	c.write("b.yaml", configMap("out-b", "1"))
	table := "NAME\tCURRENT\tUPDATE\tPKI\nout-a\t-\t1.0.0\tno\nout-b\t-\t?\tno\n"
	if diff := cmp.Diff(table+"\nMust specify --yes to update\n", c.must("apply", "channel", "-f", file)); diff != "" {
		c.Error(diff)
	}
	if c.value("out-a") != "" || c.recorded("kube-system", "out-a") != "" {
		c.Error("something was changed without --yes")
	}
	if diff := cmp.Diff(table+"Updated \"out-a\" to 1.0.0\nUpdated \"out-b\"\n", c.must("apply", "channel", "-f", file, "--yes")); diff != "" {
		c.Error(diff)
	}
	if diff := cmp.Diff("No update required\n", c.must("apply", "channel", "file://"+file, "--yes")); diff != "" {
		c.Error(diff)
	}
	want := "NAMESPACE\tNAME\tVERSION\tHASH\tCHANNEL\nkube-system\tout-a\t1.0.0\th1\t" + file + "\nkube-system\tout-b\t-\t-\t" + file + "\n"
	if diff := cmp.Diff(want, c.must("get")); diff != "" {
		c.Error(diff)
	}
	if got, want := c.recorded("kube-system", "out-b"), fmt.Sprintf(`{"channel":%q,"id":"x","systemGeneration":1}`, file); got != want {
		c.Errorf("recorded %s, want %s", got, want)
	}
	c.record("kube-system", "out-b", `{"channel":"c","id":"y"}`)
	c.record("kube-system", "out-a", "no JSON")
	code, out, errOut := c.sealift("apply", "-f", file)
	if code != app.ExitDone || !strings.HasPrefix(out, "NAME\tCURRENT\tUPDATE\tPKI\nout-a\t-\t1.0.0\tno\nout-b\t?\t?\tno\n") || !strings.Contains(errOut, "the record of an add-on cannot be read") {
		c.Errorf("%d\n%s\n%s", code, out, errOut)
	}
	for _, tt := range []struct {
		args []string
		err  string
	}{
		{[]string{"apply"}, "at least one channel URL is required"},
		{[]string{"apply", "channel", "--yes"}, "at least one channel URL is required"},
		{[]string{"apply", "kubernetes-dashboard"}, "with -f"},
		{[]string{"apply", "./addons.yaml"}, "Channel format not recognized (did you mean to use `-f` to specify a local file?)"},
		{[]string{"get", "nodes"}, `nothing called "nodes"`},
		{[]string{"plan", "-f", file, "--records", file}, "--records goes with --kubernetes-version"},
	} {
		if code, _, errOut := c.sealift(tt.args...); code != app.ExitUsage || !strings.Contains(errOut, tt.err) {
			c.Errorf("%v: exit code %d: %s", tt.args, code, errOut)
		}
	}
	c.clear()
}

// testChannelDowngrade plays the example of the id in the documentation of kOps: 1.5, 1.6, back to 1.5, and 1.6 again.
func testChannelDowngrade(c *channelCluster) {
	for id := range map[string]bool{"pre-k8s-16": true, "k8s-16": true} {
		c.write(id+".yaml", configMap("kube-dns", id))
	}
	file := c.index("addons.yaml",
		`{name: kube-dns.addons.k8s.io, version: 1.6.0, selector: {k8s-addon: kube-dns.addons.k8s.io}, manifest: pre-k8s-16.yaml, kubernetesVersion: "<1.6.0", id: pre-k8s-16}`,
		`{name: kube-dns.addons.k8s.io, version: 1.6.0, selector: {k8s-addon: kube-dns.addons.k8s.io}, manifest: k8s-16.yaml, kubernetesVersion: ">=1.6.0", id: k8s-16}`)
	for i, step := range []struct{ version, id string }{{"v1.5.7", "pre-k8s-16"}, {"v1.6.0-beta.1", "k8s-16"}, {"v1.5.8", "pre-k8s-16"}, {"v1.6.1", "k8s-16"}} {
		c.gitVersion.Store(&step.version)
		out := c.must("apply", "-f", file, "--yes")
		if !strings.Contains(out, `Updated "kube-dns.addons.k8s.io" to 1.6.0`) || c.value("kube-dns") != step.id {
			c.Errorf("step %d, Kubernetes %s: %s\nthe cluster has %s", i+1, step.version, out, c.value("kube-dns"))
		}
		if want := fmt.Sprintf(`{"version":"1.6.0","channel":%q,"id":%q,"systemGeneration":1}`, file, step.id); c.recorded("kube-system", "kube-dns.addons.k8s.io") != want {
			c.Errorf("recorded %s, want %s", c.recorded("kube-system", "kube-dns.addons.k8s.io"), want)
		}
		if out := c.must("apply", "-f", file, "--yes"); out != "No update required\n" {
			c.Errorf("again: %s", out)
		}
	}
	older := c.index("older.yaml", `{name: kube-dns.addons.k8s.io, version: 1.5.0, manifest: pre-k8s-16.yaml, id: other}`)
	if out := c.must("apply", "-f", older, "--yes"); out != "No update required\n" || c.value("kube-dns") != "k8s-16" {
		c.Errorf("an older version was installed: %s", out)
	}
	c.clear()
}
