// Package controlplane runs a real etcd and a real kube-apiserver on loopback, for tests that talk to Kubernetes.
//
// By default, nothing else runs: no controllers, no scheduler, no nodes. Objects are validated, admitted and stored, but
// Deployments create no Pods and nothing sets a status. A test that needs a status patches it. With Options.Jobs, Jobs create Pods
// and these get nodes, which a test makes; it also plays the kubelet, because nothing runs the Pods.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// DefaultVersion is the Kubernetes release that runs by default, with its etcd.
func DefaultVersion() string { return "v" + releases.Current("kubernetes").Version }

// The files in a control plane's folder.
const (
	caFile         = "ca.crt"
	caKeyFile      = "ca.key"
	serverCertFile = "server.crt"
	serverKeyFile  = "server.key"
)

// startTimeout is the timeout for the start of etcd and kube-apiserver, which takes a few seconds on an idle machine.
const startTimeout = 2 * time.Minute

// attempts is how often another process may take a free port before kube-apiserver binds it.
const attempts = 3

// Options of a control plane. The zero value runs DefaultVersion from the default cache.
type Options struct {
	Version  string            // Kubernetes release, such as v1.36.3; must be one that the lab knows
	CacheDir string            // the lab's cache; default as in package cache
	Progress func(line string) // called for binaries that have to be built first
	// Arguments of the API server, besides the required ones.
	Arguments []string
	Jobs      bool // run kube-scheduler, and kube-controller-manager with the controllers that Jobs need
	// Controllers are more controllers that kube-controller-manager runs, such as SigningController.
	Controllers []string
}

// ControlPlane is a running pair of etcd and kube-apiserver.
type ControlPlane struct {
	dir       *scratch.Dir
	binary    string // of the API server
	arguments []string
	config    *rest.Config
	etcd      *daemon.Daemon
	apiserver *daemon.Daemon
	workers   []*daemon.Daemon // scheduler and controllers
}

// Start runs a control plane until Stop is called or this process ends. It returns when the API server is ready. It first
// builds binaries that the cache lacks, which takes minutes once per machine. Only ctx limits that.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Version == "" {
		o.Version = DefaultVersion()
	}
	workshop, err := upstream.NewWorkshop(upstream.Options{CacheDir: o.CacheDir, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	etcd, err := workshop.File(ctx, upstream.Program("etcd"))
	if err != nil {
		return nil, err
	}
	apiserver, err := workshop.File(ctx, upstream.FileOf{Component: "kubernetes-" + o.Version, Name: "kube-apiserver"})
	if err != nil {
		return nil, err
	}
	dir, err := scratch.New()
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{dir: dir, binary: apiserver, arguments: o.Arguments}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = c.startEtcd(ctx, etcd)
	if err == nil {
		err = c.startAPIServer(ctx)
	}
	if err == nil && (o.Jobs || len(o.Controllers) > 0) {
		err = c.startWorkers(ctx, workshop, o)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// ForTest runs a control plane until t ends and returns its administrator's configuration. controllers are those that
// kube-controller-manager runs; without any, it does not run.
func ForTest(t testing.TB, controllers ...string) *rest.Config {
	t.Helper()
	return StartForTest(t, Options{Controllers: controllers}).Config()
}

// StartForTest runs a control plane until t ends.
func StartForTest(t testing.TB, o Options) *ControlPlane {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	o.Progress = func(line string) { t.Log(line) }
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start a control plane: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	return c
}

// Config returns a copy of the administrator's configuration, without client-side rate limits.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Folder has the CA as ca.crt and ca.key, and the certificate of the API server as server.crt and server.key.
func (c *ControlPlane) Folder() string { return c.dir.Path() }

// Stop ends both servers and removes their folder. It may be called more than once.
func (c *ControlPlane) Stop() error {
	for _, d := range append(c.workers, c.apiserver, c.etcd) {
		if d != nil {
			d.Stop()
		}
	}
	return c.dir.Remove()
}

// Pause suspends the API server with SIGSTOP: connections stay open and nobody answers. Resume lets it continue.
func (c *ControlPlane) Pause() error { return c.signal(syscall.SIGSTOP) }

// Resume lets a paused API server continue.
func (c *ControlPlane) Resume() error { return c.signal(syscall.SIGCONT) }

func (c *ControlPlane) signal(s syscall.Signal) error {
	if err := syscall.Kill(c.apiserver.PID(), s); err != nil {
		return fmt.Errorf("send %s to kube-apiserver: %w", s, err)
	}
	return nil
}

// Restart ends the API server, and restarts it with these arguments besides the required ones. Its address and
// its certificates stay.
func (c *ControlPlane) Restart(ctx context.Context, arguments ...string) error {
	address, err := url.Parse(c.config.Host)
	if err != nil {
		return err
	}
	c.apiserver.Stop()
	c.arguments = arguments
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return c.runAPIServer(ctx, address.Host)
}

// Etcd is the endpoint of etcd, which requires no certificate.
func (c *ControlPlane) Etcd() string { return "unix://" + c.etcdSocket() }

// etcdSocket is a Unix socket, so that etcd needs no free port.
func (c *ControlPlane) etcdSocket() string { return c.dir.File("etcd.sock") }

func (c *ControlPlane) startEtcd(ctx context.Context, binary string) error {
	// etcd requires host:port in the URLs that it advertises. In a unix URL this is a file in its working directory.
	const peer, advertised = "unix://peer:1", "unix://etcd:1"
	var err error
	c.etcd, err = daemon.Start(daemon.Command{Path: binary, Dir: c.dir.Path(), Log: c.dir.File("etcd.log"), Args: []string{
		"--name=testgrid", "--data-dir=" + c.dir.File("etcd"), "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls=unix://" + c.etcdSocket(), "--advertise-client-urls=" + advertised,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=testgrid=" + peer,
	}})
	if err != nil {
		return err
	}
	return c.etcd.WaitReady(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", c.etcdSocket())
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	ca, clientCert, clientKey, err := writeCerts(c.dir.Path())
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		address, err := daemon.FreeAddress()
		if err != nil {
			return err
		}
		c.config = &rest.Config{
			Host:            "https://" + address,
			TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: clientCert, KeyData: clientKey},
			QPS:             -1,
		}
		if err := c.runAPIServer(ctx, address); err == nil || attempt == attempts || ctx.Err() != nil {
			return err
		}
	}
}

func (c *ControlPlane) runAPIServer(ctx context.Context, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	file := c.dir.File
	server, err := daemon.Start(daemon.Command{Path: c.binary, Log: file("apiserver.log"), Args: append([]string{
		"--etcd-servers=unix://" + c.etcdSocket(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--tls-cert-file=" + file(serverCertFile), "--tls-private-key-file=" + file(serverKeyFile), "--client-ca-file=" + file(caFile),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + file(serverKeyFile),
		"--service-account-signing-key-file=" + file(serverKeyFile), "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC", "--allow-privileged=true",
		// With this plugin, Pods would need a ServiceAccount, which only a controller creates.
		"--disable-admission-plugins=ServiceAccount",
		// The reconciler refuses to publish a loopback address.
		"--endpoint-reconciler-type=none",
	}, c.arguments...)})
	if err != nil {
		return err
	}
	c.apiserver = server
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	err = server.WaitReady(ctx, func(ctx context.Context) error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		server.Stop()
		return fmt.Errorf("%w\netcd: %s", err, c.etcd.LogTail())
	}
	return nil
}
