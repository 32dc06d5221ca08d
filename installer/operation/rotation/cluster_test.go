package rotation

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/record"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// plane is a control plane of loopback: the files of a host, and an API server that has them.
type plane struct {
	rootfs  string
	port    string
	server  *daemon.Daemon
	reached map[string]bool // programs by the stage with which they were started
}

func (p *plane) pki(name string) string { return filepath.Join(p.rootfs, kubeadm.PKI, name) }

// realCluster has a real etcd, two real API servers and a controller manager with kubeadm's certificates, and the files of a worker. The
// first control plane has etcd and the controller manager.
type realCluster struct {
	t          *testing.T
	dir        string
	etcdPort   string
	etcd       *daemon.Daemon
	controller *daemon.Daemon
	planes     []*plane
	worker     string // the folder with its files
	count      int
	killAt     int
	dead       bool
	kill       context.CancelFunc
}

func free(t *testing.T) (port string) {
	t.Helper()
	address, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err = net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	c := &realCluster{t: t, dir: t.TempDir(), etcdPort: free(t)}
	folder := kubeadmtest.Folder(t)
	kubeadmtest.EtcdManifest(t, folder)
	second := t.TempDir()
	if err := os.CopyFS(filepath.Join(second, "etc/kubernetes"), os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	for _, rootfs := range []string{strings.TrimSuffix(folder, "/etc/kubernetes"), second} {
		p := &plane{rootfs: rootfs, port: free(t), reached: map[string]bool{}}
		c.planes = append(c.planes, p)
		c.reach(p.rootfs, p.port)
	}
	c.worker = t.TempDir()
	for _, name := range []string{kubeadm.KubeletKubeconfig, kubeadm.PKI + "/ca.crt"} {
		text, err := os.ReadFile(filepath.Join(c.planes[1].rootfs, name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(c.worker, kubeadm.PKI), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(c.worker, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.startEtcd()
	for _, p := range c.planes {
		c.startServer(p)
	}
	t.Cleanup(func() {
		for _, d := range []*daemon.Daemon{c.controller, c.planes[0].server, c.planes[1].server, c.etcd} {
			if d != nil {
				d.Stop()
			}
		}
	})
	return c
}

// reach lets the kubeconfigs of a host ask the API server at a port.
func (c *realCluster) reach(rootfs, port string) {
	c.t.Helper()
	all, err := filepath.Glob(filepath.Join(rootfs, "etc/kubernetes/*.conf"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range all {
		config, err := clientcmd.LoadFromFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, of := range config.Clusters {
			of.Server, of.TLSServerName = "https://127.0.0.1:"+port, "kubernetes"
		}
		if err := clientcmd.WriteToFile(*config, name); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *realCluster) start(name string, args ...string) *daemon.Daemon {
	c.t.Helper()
	path, err := lab.Workshop(c.t).File(c.t.Context(), upstream.Program(name))
	if err != nil {
		c.t.Fatal(err)
	}
	log, err := os.CreateTemp(c.dir, name)
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	d, err := daemon.Start(daemon.Command{Path: path, Dir: c.dir, Log: log.Name(), Args: args})
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *realCluster) startEtcd() {
	c.t.Helper()
	if c.etcd != nil {
		c.etcd.Stop()
	}
	p, at := c.planes[0], "https://127.0.0.1:"+c.etcdPort
	c.etcd = c.start("etcd", "--name=one", "--data-dir="+filepath.Join(c.dir, "data"), "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls="+at, "--advertise-client-urls="+at, "--listen-peer-urls="+kubeadmtest.Peer, "--initial-advertise-peer-urls="+kubeadmtest.Peer,
		"--initial-cluster=one="+kubeadmtest.Peer, "--client-cert-auth", "--trusted-ca-file="+p.pki("etcd/ca.crt"), "--cert-file="+p.pki("etcd/server.crt"), "--key-file="+p.pki("etcd/server.key"))
}

func (c *realCluster) startServer(p *plane) {
	c.t.Helper()
	if p.server != nil {
		p.server.Stop()
	}
	p.server = c.start("kube-apiserver", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+p.port,
		"--etcd-servers=https://127.0.0.1:"+c.etcdPort, "--etcd-cafile="+p.pki("etcd/ca.crt"), "--etcd-certfile="+p.pki("apiserver-etcd-client.crt"), "--etcd-keyfile="+p.pki("apiserver-etcd-client.key"),
		"--tls-cert-file="+p.pki("apiserver.crt"), "--tls-private-key-file="+p.pki("apiserver.key"), "--client-ca-file="+p.pki("ca.crt"),
		"--requestheader-client-ca-file="+p.pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+p.pki("sa.pub"), "--service-account-signing-key-file="+p.pki("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount", "--enable-admission-plugins=NodeRestriction")
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.server.WaitReady(ctx, func(ctx context.Context) error {
		client, err := p.client("super-admin.conf")
		if err != nil {
			return err
		}
		return client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *realCluster) startController(stage authority.Stage) {
	c.t.Helper()
	if c.controller != nil {
		c.controller.Stop()
	}
	p, signer := c.planes[0], "ca.crt"
	if stage == authority.Trust || stage == authority.Sign {
		signer = filepath.Base(authority.SignerFile)
	}
	c.controller = c.start("kube-controller-manager", "--kubeconfig="+filepath.Join(p.rootfs, "etc/kubernetes/controller-manager.conf"),
		"--leader-elect=false", "--secure-port=0", "--use-service-account-credentials", "--controllers=certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller,root-ca-certificate-publisher-controller,serviceaccount-token-controller",
		"--root-ca-file="+p.pki("ca.crt"), "--service-account-private-key-file="+p.pki("sa.key"), "--cluster-signing-cert-file="+p.pki(signer), "--cluster-signing-key-file="+p.pki("ca.key"))
}

// client asks the API server of a control plane with one of its kubeconfigs.
func (p *plane) client(kubeconfig string) (kubernetes.Interface, error) {
	return cluster.Client(filepath.Join(p.rootfs, "etc/kubernetes", kubeconfig))
}

// pass is a moment at which the rotation may be killed.
func (c *realCluster) pass() error {
	if c.count++; c.count == c.killAt {
		c.dead = true
		c.kill()
	}
	if c.dead {
		return errKilled
	}
	return nil
}

// List implements operation.Nodes.
func (c *realCluster) List(context.Context) ([]cluster.Node, error) {
	roles := []string{"control-plane"}
	return []cluster.Node{{Name: "0", Ready: true, Roles: roles}, {Name: "1", Ready: true, Roles: roles}, {Name: "worker", Ready: true}}, c.pass()
}

// Read implements operation.Records.
func (c *realCluster) Read(ctx context.Context) (record.All, error) {
	if c.dead {
		return nil, errKilled
	}
	return c.records().Read(ctx)
}

// Change implements operation.Records. Nothing is written after a loss of power.
func (c *realCluster) Change(ctx context.Context, change func(record.All) error) error {
	if c.dead {
		return errKilled
	}
	return c.records().Change(ctx, change)
}

func (c *realCluster) records() operation.Records {
	return operation.RecordsOf(func() (kubernetes.Interface, error) { return c.planes[0].client("super-admin.conf") })
}

// Apply implements operation.Nodes. A program that was started at the stage is not started again.
func (c *realCluster) Apply(ctx context.Context, name string, r operation.Request) error {
	if err := c.pass(); err != nil {
		return err
	}
	s, ok, err := authority.Read(c.planes[0].rootfs)
	if err != nil || !ok || r.Stage != "rotate-ca/"+string(s.Stage) {
		return fmt.Errorf("node %s is asked for %s with the state %s: %w", name, r.Stage, s.Stage, err)
	}
	if name == "worker" {
		public, _ := s.ForWorkers()
		return pki.ExchangeWorker(context.WithoutCancel(ctx), c.worker, public)
	}
	p := c.planes[int(name[0]-'0')]
	pods, err := pki.Exchange(p.rootfs, s, time.Now())
	if err != nil {
		return err
	}
	if err := c.pass(); err != nil {
		return err
	}
	for _, pod := range pods {
		key := pod + string(s.Stage)
		if p.reached[key] {
			continue
		}
		switch {
		case pod == "etcd" && name == "0":
			c.startEtcd()
		case pod == "kube-apiserver":
			c.startServer(p)
		case pod == "kube-controller-manager" && name == "0":
			c.startController(s.Stage)
		}
		p.reached[key] = true
	}
	return c.pass()
}

// writes are a client's writes that the API has accepted.
type writes struct {
	mu       sync.Mutex
	taken    []string
	repeated int
}

// write writes objects through both API servers in turns until ctx ends, and repeats what fails.
func (w *writes) write(ctx context.Context, c *realCluster, create func(context.Context, kubernetes.Interface, string) error) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprint("written-", n)
		for try := n; ctx.Err() == nil; try++ {
			client, err := c.planes[try%2].client("super-admin.conf")
			if err == nil {
				bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
				err = create(bounded, client, name)
				cancel()
			}
			w.mu.Lock()
			if err == nil {
				w.taken = append(w.taken, name)
				w.mu.Unlock()
				break
			}
			w.repeated++
			w.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *writes) all() ([]string, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.taken), w.repeated
}
