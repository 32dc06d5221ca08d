package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/kube"
)

// realCluster has a control plane and two workers with a real API server.
type realCluster struct {
	*rig
	objects *kube.Cluster
	view    *cluster.View
	all     map[string]Node
	count   int
	killNow int // the moment of a loss of power, 0 for none
	dead    bool
	cancel  context.CancelFunc
	joins   func()
}

func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	c := &realCluster{rig: newRig(t), all: map[string]Node{}}
	for _, n := range []Node{c.nodeIn("a-worker", c.folder(false)), c.nodeIn("late", c.folder(false)), c.nodeIn("plane", c.planes)} {
		c.all[n.Name] = n
	}
	var err error
	c.view, err = cluster.ViewOf(c.config, false)
	c.made(err)
	c.objects = c.view.Cluster()
	c.populate()
	return c
}

// populate makes what kubeadm and kURL make in a cluster.
func (c *realCluster) populate() {
	c.Helper()
	kubeconfig := "clusters:\n- cluster:\n    server: https://" + c.old.address + "\n  name: kubernetes\n"
	for _, m := range []struct{ namespace, name, key, text string }{
		{"kube-system", "kubeadm-config", kubeadm.ConfigKey, "kind: ClusterConfiguration\napiServer:\n  certSANs:\n  - 198.51.100.1\ncontrolPlaneEndpoint: " + c.old.address + "\nkubernetesVersion: v1.36.3\n"},
		{"kube-public", "cluster-info", "kubeconfig", kubeconfig},
		{"kube-system", "kube-proxy", "kubeconfig.conf", kubeconfig},
		{"kube-system", "kurl-config", "kubernetes_api_address", c.old.address},
	} {
		_, err := c.client.CoreV1().ConfigMaps(m.namespace).Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Data: map[string]string{m.key: m.text}}, metav1.CreateOptions{})
		c.made(err)
	}
	_, err := c.client.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel"}}, metav1.CreateOptions{})
	c.made(err)
	host, port, err := net.SplitHostPort(c.old.address)
	c.made(err)
	_, err = c.client.CoreV1().ConfigMaps("kube-flannel").Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-cfg"},
		Data: map[string]string{"api-host": host, "api-port": port}}, metav1.CreateOptions{})
	c.made(err)
	for name := range c.all {
		for _, d := range daemons {
			key, value, _ := strings.Cut(d.label, "=")
			now := int64(0) // nothing on a node confirms the end of a pod
			_, err := c.client.CoreV1().Pods(d.namespace).Create(c.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: d.name + "-" + name, Labels: map[string]string{key: value}},
				Spec:       corev1.PodSpec{NodeName: name, TerminationGracePeriodSeconds: &now, Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			}, metav1.CreateOptions{})
			c.made(err)
		}
	}
	_, err = kube.New(c.objects, kube.Options{}).Apply(c.Context(), kube.Set{Namespace: "default", Name: "test"}, []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "installers.cluster.kurl.sh"}, "spec": map[string]any{
			"group": "cluster.kurl.sh", "scope": "Namespaced", "names": map[string]any{"kind": "Installer", "listKind": "InstallerList", "plural": "installers", "singular": "installer"},
			"versions": []any{map[string]any{"name": "v1beta1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}},
		{Object: map[string]any{"apiVersion": "cluster.kurl.sh/v1beta1", "kind": "Installer", "metadata": map[string]any{"name": "one", "namespace": "default"},
			"spec": map[string]any{"kubernetes": map[string]any{"version": "1.36.3", "loadBalancerAddress": c.old.address}}}},
	}, kube.ApplyOptions{})
	c.made(err)
}

// off turns a node off, or on.
func (c *realCluster) off(name string, is bool) {
	c.Helper()
	own, err := c.client.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	c.made(err)
	own.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionUnknown, false: corev1.ConditionTrue}[is]
	_, err = c.client.CoreV1().Nodes().UpdateStatus(c.Context(), own, metav1.UpdateOptions{})
	c.made(err)
}

// pass is a moment at which the change may be killed.
func (c *realCluster) pass() error {
	if c.count++; c.count == c.killNow {
		c.dead = true
		c.cancel()
	}
	if c.dead {
		return errKilled
	}
	return nil
}

// List implements operation.Nodes.
func (c *realCluster) List(ctx context.Context) ([]cluster.Node, error) {
	if err := c.pass(); err != nil {
		return nil, err
	}
	return c.view.Nodes(ctx)
}

// Apply implements operation.Nodes.
func (c *realCluster) Apply(ctx context.Context, name string, r operation.Request) error {
	if err := c.pass(); err != nil {
		return err
	}
	m, err := moveOf(r)
	if err != nil {
		return err
	}
	if err := c.all[name].Bring(ctx, m); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	if m.Stage == Switch && c.joins != nil {
		c.joins()
	}
	return c.pass()
}

// Read implements operation.Records.
func (c *realCluster) Read(ctx context.Context) (record.All, error) {
	if c.dead {
		return nil, errKilled
	}
	return record.Store{Client: c.client}.Read(ctx)
}

// Change implements operation.Records. Nothing is written after a loss of power.
func (c *realCluster) Change(ctx context.Context, change func(record.All) error) error {
	if c.dead {
		return errKilled
	}
	return record.Store{Client: c.client}.Change(ctx, change)
}

// lead runs a change to its end, or until it is killed.
func (c *realCluster) lead(state, to string, o Options) (ch *Change, dead bool, err error) {
	c.Helper()
	journal, err := lifecycle.OpenJournal(state)
	c.made(err)
	ctx, cancel := context.WithCancel(c.Context())
	c.dead, c.cancel = false, cancel
	defer func() {
		cancel()
		c.made(journal.Close())
		if c.dead {
			dead, err = true, nil
		}
	}()
	ch = &Change{options: o, nodes: c, host: c.all["plane"], client: c.client, objects: c.objects, moved: map[string]bool{},
		Session: &node.Session{Log: node.NewLog(c.TempDir(), lifecycle.MovingAPI, nil), Journal: journal}}
	from, err := c.endpoint()
	c.made(err)
	if err := ch.begin(ctx, c, from, to, time.Now()); err != nil {
		return ch, false, err
	}
	if err := ch.check(ctx); err != nil {
		return ch, false, err
	}
	return ch, false, ch.run.Lead(ctx, lifecycle.MovingAPI, ch.Journal, func(lifecycle.Event) {})
}

// endpoint is that of kubeadm's configuration.
func (c *realCluster) endpoint() (string, error) {
	found, err := c.client.CoreV1().ConfigMaps("kube-system").Get(c.Context(), kubeadm.ConfigMap, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(found.Data[kubeadm.ConfigKey], "controlPlaneEndpoint: ")
	endpoint, _, _ := strings.Cut(rest, "\n")
	return endpoint, nil
}

// has checks that the objects of the cluster name one load balancer.
func (c *realCluster) has(address string) {
	c.Helper()
	for _, m := range [][2]string{{"kube-system", "kubeadm-config"}, {"kube-public", "cluster-info"}, {"kube-system", "kube-proxy"}, {"kube-system", "kurl-config"}} {
		found, err := c.client.CoreV1().ConfigMaps(m[0]).Get(c.Context(), m[1], metav1.GetOptions{})
		c.made(err)
		if other := map[string]string{c.old.address: c.new.address, c.new.address: c.old.address}[address]; !strings.Contains(fmt.Sprint(found.Data), address) || strings.Contains(fmt.Sprint(found.Data), other) {
			c.Errorf("ConfigMap %v does not name %s: %v", m, address, found.Data)
		}
	}
	flannel, err := c.client.CoreV1().ConfigMaps("kube-flannel").Get(c.Context(), "kube-flannel-cfg", metav1.GetOptions{})
	c.made(err)
	if got := net.JoinHostPort(flannel.Data["api-host"], flannel.Data["api-port"]); got != address {
		c.Errorf("flannel asks %s, not %s", got, address)
	}
	installers, err := c.objects.Objects(c.Context(), kube.Ref{Group: "cluster.kurl.sh", Version: "v1beta1", Kind: "Installer", Namespace: "default"})
	c.made(err)
	one, err := installers.Get(c.Context(), "one", metav1.GetOptions{})
	c.made(err)
	if named, _, _ := unstructured.NestedString(one.Object, "spec", "kubernetes", "loadBalancerAddress"); named != address {
		c.Errorf("the Installer names %s, not %s", named, address)
	}
}

// sans are the names that kubeadm's configuration has for API servers.
func (c *realCluster) sans() string {
	c.Helper()
	found, err := c.client.CoreV1().ConfigMaps("kube-system").Get(c.Context(), kubeadm.ConfigMap, metav1.GetOptions{})
	c.made(err)
	sans, _, _ := strings.Cut(found.Data[kubeadm.ConfigKey], "controlPlaneEndpoint")
	return strings.Join(strings.Fields(sans), " ")
}

// TestClusterLoadBalancerIsReplaced kills the change five times. A worker is off in the meantime, another one joins. The old
// load balancer ends before the worker returns.
func TestClusterLoadBalancerIsReplaced(t *testing.T) {
	c := newRealCluster(t)
	state := t.TempDir()
	c.off("late", true)
	for n := range 5 {
		c.killNow = c.count + 2 + n
		if _, dead, err := c.lead(state, c.new.address, Options{}); err != nil || !dead {
			t.Fatalf("run %d: killed %v, %v", n+1, dead, err)
		}
	}
	c.killNow = 0
	c.joins = func() {
		c.joins = nil
		c.all["young"] = c.worker("young")
	}
	ch, _, err := c.lead(state, c.new.address, Options{})
	c.made(err)
	if !slices.Equal(ch.Off, []string{"late"}) || !ch.Resumes {
		t.Errorf("off %v, resumes %v", ch.Off, ch.Resumes)
	}
	for _, name := range []string{"plane", "a-worker", "young"} {
		c.uses(c.all[name], newHost)
	}
	c.uses(c.all["late"], oldHost)
	c.has(c.new.address)
	if got := c.sans(); !strings.Contains(got, newHost) || !strings.Contains(got, "198.51.100.1") {
		t.Errorf("names of API servers: %s", got)
	}
	for name, there := range map[string]bool{"plane": false, "a-worker": false, "late": true} {
		for _, d := range daemons {
			if _, err := c.client.CoreV1().Pods(d.namespace).Get(t.Context(), d.name+"-"+name, metav1.GetOptions{}); apierrors.IsNotFound(err) == there {
				t.Errorf("%s on %s: %v", d.name, name, err)
			}
		}
	}

	if u, err := FindUnderway(t.Context(), c.objects); err != nil || u == nil || *u != (Underway{c.old.address, c.new.address, "sudo sealift node load-balancer --finish"}) {
		t.Errorf("status tells %+v, %v", u, err)
	}

	c.old.stop()
	refused := func(to string, o Options, why string) {
		t.Helper()
		if _, _, err := c.lead(t.TempDir(), to, o); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v", err)
		}
	}
	refused("", Options{Finish: true}, "node late is not Ready")
	c.off("late", false)
	refused("", Options{Finish: true}, "still names "+c.old.address)
	refused("127.0.0.9:1", Options{}, "is under way; end it with 'sealift node load-balancer --finish'")
	c.made(c.all["late"].follow(t.Context(), c.new.address))
	c.uses(c.all["late"], newHost)
	for _, d := range daemons {
		if _, err := c.client.CoreV1().Pods(d.namespace).Get(t.Context(), d.name+"-late", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s was not restarted on the node that followed: %v", d.name, err)
		}
	}
	if err := c.all["late"].follow(t.Context(), c.new.address); !errors.Is(err, ErrSame) {
		t.Errorf("the second time: %v", err)
	}
	_, _, err = c.lead(t.TempDir(), c.new.address, Options{}) // another control plane checks again: its journal has nothing
	c.made(err)
	_, _, err = c.lead(t.TempDir(), "", Options{Finish: true})
	c.made(err)
	if got := c.sans(); !strings.Contains(got, newHost) || strings.Contains(got, oldHost) {
		t.Errorf("names of API servers: %s", got)
	}
	refused("", Options{Finish: true}, "no change of the load balancer is under way")
	if _, _, err := c.lead(t.TempDir(), c.new.address, Options{}); !errors.Is(err, ErrSame) {
		t.Errorf("the load balancer of now: %v", err)
	}
}

// TestChangeIsRolledBack after a worker did not work through the new load balancer, by the address of before.
func TestChangeIsRolledBack(t *testing.T) {
	c := newRealCluster(t)
	state := t.TempDir()
	c.deaf = "a-worker"
	_, _, err := c.lead(state, c.new.address, Options{})
	for _, want := range []string{"node a-worker: ", "that was taken back: this node uses " + c.old.address, "these nodes use " + c.new.address + ": plane", "run 'sealift node load-balancer " + c.old.address + "'"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	c.uses(c.all["plane"], newHost)
	c.uses(c.all["a-worker"], oldHost)
	if _, _, err := c.lead(state, "", Options{Finish: true}); err == nil || !strings.Contains(err.Error(), "not every node has moved yet") {
		t.Errorf("the end of half a change: %v", err)
	}
	ch, _, err := c.lead(state, c.old.address, Options{})
	c.made(err)
	if !ch.Back() {
		t.Error("it does not know that it goes back")
	}
	for _, n := range c.all {
		c.uses(n, oldHost)
		if err := n.reach(t.Context(), c.new.address, ""); err == nil {
			t.Error("the new name is left in the certificates")
		}
	}
	c.has(c.old.address)
	if got := c.sans(); strings.Contains(got, newHost) {
		t.Errorf("names of API servers: %s", got)
	}
	if known, err := operation.Known(t.Context(), c, Kind.Name); err != nil || known != nil {
		t.Errorf("the record is left: %+v, %v", known, err)
	}
}

// TestInvalidChangesAreRefused leave no record.
func TestInvalidChangesAreRefused(t *testing.T) {
	c := newRealCluster(t)
	refused := func(to, why string) {
		t.Helper()
		if _, _, err := c.lead(t.TempDir(), to, Options{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", to, err, why)
		}
	}
	refused("nowhere.invalid:6443", "this host cannot find nowhere.invalid")
	refused(newHost+":1", "without ending TLS")
	own, err := c.client.CoreV1().Nodes().Get(t.Context(), "a-worker", metav1.GetOptions{})
	c.made(err)
	own.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: newHost}}
	own, err = c.client.CoreV1().Nodes().UpdateStatus(t.Context(), own, metav1.UpdateOptions{})
	c.made(err)
	refused(c.new.address, "is the address of node a-worker, not of a load balancer")
	own.Status.Addresses[0].Address = oldHost
	_, err = c.client.CoreV1().Nodes().UpdateStatus(t.Context(), own, metav1.UpdateOptions{})
	c.made(err)
	refused(c.new.address, "'sealift node readdress'")
	c.off("plane", true)
	refused(c.new.address, "control plane plane is not Ready")
	if err := (&Change{client: c.client}).begin(t.Context(), c, "127.0.0.1:6444", c.new.address, time.Now()); err == nil || !strings.Contains(err.Error(), "every node has a balancer of its own") {
		t.Errorf("a cluster without one: %v", err)
	}
	if known, err := operation.Known(t.Context(), c, Kind.Name); err != nil || known != nil {
		t.Errorf("a refusal left %+v, %v", known, err)
	}
}
