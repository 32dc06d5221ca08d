package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// The load balancers of the tests. Both are addresses of loopback that the API server has no certificate for at first.
const (
	oldHost = "127.0.0.2"
	newHost = "127.0.0.3"
)

// errKilled ends a run like a power loss.
var errKilled = errors.New("killed")

// passer passes connections on to the API server.
type passer struct {
	net.Listener
	address string

	mu    sync.Mutex
	conns []net.Conn
}

func balance(t *testing.T, host, server string) *passer {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	b := &passer{Listener: l, address: l.Addr().String()}
	t.Cleanup(b.stop)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			b.mu.Lock()
			b.conns = append(b.conns, in, out)
			b.mu.Unlock()
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return b
}

// stop ends the load balancer with its connections.
func (b *passer) stop() {
	_ = b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		_ = conn.Close()
	}
}

// rig is a real API server behind two load balancers, and the files of nodes.
type rig struct {
	*testing.T
	config   *rest.Config
	client   kubernetes.Interface
	server   string // host:port
	old, new *passer
	planes   string // folder with the files of the one control plane
	restarts []string
	killAt   string // the restart of this node is the moment of a loss of power
	deaf     string // the kubelet of this node does not work through the new load balancer
	silent   string // only the previous kubelet reports, while it ends
}

func newRig(t *testing.T) *rig {
	t.Helper()
	started := controlplane.StartForTest(t, controlplane.Options{})
	r := &rig{T: t, config: started.Config()}
	r.server = strings.TrimPrefix(r.config.Host, "https://")
	r.old, r.new = balance(t, oldHost, r.server), balance(t, newHost, r.server)
	client, err := kubernetes.NewForConfig(r.config)
	r.made(err)
	r.client = client
	r.planes = r.folder(true)
	for is, name := range map[string]string{"ca.crt": "ca.crt", "ca.key": "ca.key", "server.crt": "apiserver.crt", "server.key": "apiserver.key"} {
		r.made(os.Symlink(filepath.Join(started.Folder(), is), filepath.Join(r.planes, kubeadm.PKI, name)))
	}
	issued, err := pki.NewServerNames(r.planes, oldHost, "", time.Now())
	r.made(err)
	r.made(issued.Issue(time.Now()))
	n := Node{Output: t.Output(), rootfs: r.planes}
	r.made(n.until(t.Context(), "the API server", func(ctx context.Context) error {
		_, err := n.handshake(ctx, r.old.address, oldHost)
		return err
	}))
	return r
}

func (r *rig) made(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// folder makes the files of a node.
func (r *rig) folder(controlPlane bool) (rootfs string) {
	r.Helper()
	rootfs = r.TempDir()
	files := map[string]string{
		node.InstallerFile("/var/lib/sealift"): "spec:\n  kubernetes:\n    loadBalancerAddress: " + r.old.address + "\n",
		"/var/lib/sealift/proxy.env":           "NO_PROXY=\"localhost," + oldHost + "\"\n",
	}
	kubeconfigs := []string{kubeadm.KubeletKubeconfig}
	if controlPlane {
		files[kubeadm.APIServerManifest] = "metadata: {name: kube-apiserver, annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: '127.0.0.1:6443'}}\n"
		kubeconfigs = append(kubeconfigs, kubeadm.AdminKubeconfig)
	}
	for name, text := range files {
		r.made(os.MkdirAll(filepath.Dir(filepath.Join(rootfs, name)), 0o700))
		r.made(os.WriteFile(filepath.Join(rootfs, name), []byte(text), 0o600))
	}
	r.made(os.MkdirAll(filepath.Join(rootfs, kubeadm.PKI), 0o700))
	through := rest.CopyConfig(r.config)
	through.Host = "https://" + r.old.address
	for _, name := range kubeconfigs {
		r.made(controlplane.WriteKubeconfig(filepath.Join(rootfs, name), through))
	}
	return rootfs
}

// nodeIn makes a node of the cluster with the files of a folder, and its Lease. Its kubelet reports when it is restarted, if the
// endpoint in its kubeconfig leads to the API server.
func (r *rig) nodeIn(name, rootfs string) Node {
	r.Helper()
	labels := map[string]string{}
	if rootfs == r.planes {
		labels[cluster.ControlPlaneLabel] = ""
	}
	own, err := r.client.CoreV1().Nodes().Create(r.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	r.made(err)
	own.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = r.client.CoreV1().Nodes().UpdateStatus(r.Context(), own, metav1.UpdateOptions{})
	r.made(err)
	leases := r.client.CoordinationV1().Leases("kube-node-lease")
	_, err = leases.Create(r.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	r.made(err)
	n := Node{Root: "/var/lib/sealift", Name: name, Output: r.Output(), rootfs: rootfs}
	if rootfs == r.planes {
		n.listen = r.server
	}
	n.restart = func(ctx context.Context, files []string, generation string) error {
		if r.killAt == name {
			panic(errKilled)
		}
		r.restarts = append(r.restarts, name)
		config, err := cluster.Config(filepath.Join(rootfs, kubeadm.KubeletKubeconfig))
		if err != nil {
			return err
		}
		if r.deaf == name && config.Host == "https://"+r.new.address {
			return errors.New("the kubelet does not start")
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		beat, err := client.CoordinationV1().Leases("kube-node-lease").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil //nolint:nilerr // a kubelet goes on trying
		}
		reported := metav1.NewMicroTime(time.Now()) // by the kubelet that ends
		if r.silent != name {
			reported.Time = reported.Add(time.Second) // by the starting one
		}
		beat.Spec.RenewTime = &reported
		_, err = client.CoordinationV1().Leases("kube-node-lease").Update(ctx, beat, metav1.UpdateOptions{})
		return err
	}
	return n
}

func (r *rig) worker(name string) Node { r.Helper(); return r.nodeIn(name, r.folder(false)) }

func (r *rig) move(stage string) intent.Move {
	return intent.Move{From: r.old.address, To: r.new.address, Stage: stage}
}

// uses checks that all files of a node name one load balancer.
func (r *rig) uses(n Node, host string) {
	r.Helper()
	for _, name := range []string{kubeadm.KubeletKubeconfig, node.InstallerFile(n.Root), "/var/lib/sealift/proxy.env"} {
		text, err := os.ReadFile(filepath.Join(n.rootfs, name))
		r.made(err)
		if other := map[string]string{oldHost: newHost, newHost: oldHost}[host]; !strings.Contains(string(text), host) || strings.Contains(string(text), other) {
			r.Errorf("%s of node %s does not name %s:\n%s", name, n.Name, host, text)
		}
	}
	if marked, err := n.host().marked(); err != nil || marked != nil {
		r.Errorf("node %s is in the middle of %+v, %v", n.Name, marked, err)
	}
}

// TestNodeLoadBalancerIsReplaced goes through the stages with a real API server, which gets its certificates while it runs.
func TestNodeLoadBalancerIsReplaced(t *testing.T) {
	r := newRig(t)
	plane, worker := r.nodeIn("plane", r.planes), r.worker("worker")
	ctx := t.Context()
	if err := worker.Bring(ctx, r.move(Both)); err != nil { // the name does not matter yet
		t.Error(err)
	}
	if err := worker.reach(ctx, r.new.address, ""); err == nil || !strings.Contains(err.Error(), "does not lead to an API server of this cluster") {
		t.Errorf("a certificate without the name: %v", err)
	}
	for range 2 {
		r.made(plane.Bring(ctx, r.move(Both)))
	}
	for _, b := range []*passer{r.old, r.new} {
		r.made(worker.reach(ctx, b.address, ""))
	}

	r.deaf = "worker"
	err := worker.Bring(ctx, r.move(Switch))
	if err == nil || !strings.Contains(err.Error(), "the kubelet does not start") || !strings.Contains(err.Error(), "that was taken back: this node uses "+r.old.address+" again") {
		t.Errorf("a kubelet that does not work: %v", err)
	}
	r.uses(worker, oldHost)
	if len(r.restarts) != 2 {
		t.Errorf("restarts: %v", r.restarts)
	}
	r.deaf, r.killAt = "", "worker"
	func() {
		defer func() {
			if p := recover(); p != errKilled { //nolint:errorlint // the very value
				t.Errorf("it was not killed: %v", p)
			}
		}()
		_ = worker.Bring(ctx, r.move(Switch))
	}()
	r.killAt, r.silent = "", "worker"
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := worker.Bring(soon, r.move(Switch)); err == nil || !strings.Contains(err.Error(), "has not reported since its restart") {
		t.Errorf("only the kubelet of before has reported: %v", err)
	}
	r.silent, r.restarts = "", nil
	for range 2 { // the second run finds nothing to do
		r.made(worker.Bring(ctx, r.move(Switch)))
	}
	r.uses(worker, newHost)
	if err := worker.reports(ctx, r.new.address, time.Now().Add(time.Minute)); err == nil || !strings.Contains(err.Error(), "has not reported since its restart") {
		t.Errorf("a kubelet that is silent: %v", err)
	}
	if !slices.Equal(r.restarts, []string{"worker"}) {
		t.Errorf("restarts: %v", r.restarts)
	}

	if err := plane.Bring(ctx, r.move(NewOnly)); err == nil || !strings.Contains(err.Error(), "still names "+r.old.address) {
		t.Errorf("the end before the node has moved: %v", err)
	}
	r.made(plane.Bring(ctx, r.move(Switch)))
	for range 2 {
		r.made(plane.Bring(ctx, r.move(NewOnly)))
	}
	r.made(worker.Bring(ctx, r.move(NewOnly)))
	r.uses(plane, newHost)
	if err := worker.reach(ctx, r.old.address, ""); err == nil || worker.reach(ctx, r.old.address, anyServer) != nil {
		t.Errorf("the old name is left: %v", err)
	}
}

// TestRollbackNeedsOldLoadBalancer keeps the new settings of a node for which nothing answers at the old ones.
func TestRollbackNeedsOldLoadBalancer(t *testing.T) {
	r := newRig(t)
	plane, worker := r.nodeIn("plane", r.planes), r.worker("worker")
	r.made(plane.Bring(t.Context(), r.move(Both)))
	r.old.stop()
	r.deaf = "worker"
	if err := worker.Bring(t.Context(), r.move(Switch)); err == nil || !strings.Contains(err.Error(), "this node keeps the settings for "+r.new.address) {
		t.Errorf("%v", err)
	}
	r.deaf = ""
	r.made(worker.Bring(t.Context(), r.move(Switch)))
	r.uses(worker, newHost)
}

// TestNodeIdentifiesItsCluster: the CA counts. A load balancer that leads elsewhere, or nowhere, changes nothing.
func TestNodeIdentifiesItsCluster(t *testing.T) {
	r := newRig(t)
	worker := r.worker("worker")
	other := balance(t, newHost, strings.TrimPrefix(controlplane.ForTest(t).Host, "https://"))
	nobody := balance(t, newHost, r.server)
	nobody.stop()
	for _, b := range []*passer{other, nobody} {
		if err := worker.reach(t.Context(), b.address, anyServer); err == nil || !strings.Contains(err.Error(), "does not lead to an API server of this cluster") {
			t.Errorf("%s: %v", b.address, err)
		}
	}
	if err := worker.Bring(t.Context(), intent.Move{From: r.old.address, To: r.new.address, Stage: "sideways"}); err == nil {
		t.Error("an unknown stage")
	}
	if got, err := worker.host().endpoint(); err != nil || got != r.old.address {
		t.Errorf("the endpoint is %s, %v", got, err)
	}
	r.uses(worker, oldHost)
	if len(r.restarts) > 0 {
		t.Error(fmt.Sprint(r.restarts))
	}
}
