package peer_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/mirror"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/cluster/registry"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

const (
	ref       = "registry.example.com/team/model:1"
	layers    = 3
	layerSize = 2 << 20 // of images of clusters whose bytes are not counted
)

// cluster is a control plane with an image, and nodes without it, all on this host.
type cluster struct {
	pki       string
	authority identity.Authority
	server    *service // of the control plane
	hosts     string   // host:port of it
	log       fixture.Buffer

	mu    sync.Mutex
	nodes map[string]*node
}

// node is a worker with its containerd.
type node struct {
	name       string
	containerd *containerd.Containerd
	runtime    *runtime.Runtime
	server     *service
	hosts      string // folder of containerd's settings
	// blob replaces what its server has, if a test sets it.
	blob func(ctx context.Context, sha256 string) (peer.Blob, error)
	// hello replaces the check of a client, if a test sets it.
	hello func(tls.ConnectionState) error
}

// service is a listener that counts what it sends.
type service struct {
	net.Listener
	sent  atomic.Int64 // bytes, with those of TLS
	limit atomic.Int64 // of a connection: it closes after so many bytes; 0 for none
	stop  func()
}

func (s *service) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	return &counted{c, s, 0}, err
}

type counted struct {
	net.Conn
	of   *service
	sent int64
}

func (c *counted) Write(data []byte) (int, error) {
	if limit := c.of.limit.Load(); limit > 0 && c.sent > limit {
		_ = c.Close()
		return 0, errors.New("killed")
	}
	n, err := c.Conn.Write(data)
	c.sent += int64(n)
	c.of.sent.Add(int64(n))
	return n, err
}

// newCluster runs a control plane whose containerd has the image ref, with random layers.
func newCluster(t *testing.T, layerSize int64) *cluster {
	t.Helper()
	c := &cluster{pki: fixture.CA(t), nodes: make(map[string]*node)}
	var err error
	if c.authority, err = identity.ReadAuthority(c.pki); err != nil {
		t.Fatal(err)
	}
	r := connect(t, containerd.ForTest(t))
	file := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.WriteImage(t, file, ref, image(t, layerSize))
	archive, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	layout, err := runtime.OpenLayout(archive, archive.Index.Packages[0].Dir()+"/images")
	if err == nil {
		_, err = r.Load(t.Context(), layout, func(string) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&c.log, nil))
	anyNode := func(context.Context, string, time.Time) error { return nil }
	spread := &peer.Spread{Own: "control-plane", Authority: c.authority, Log: log, Node: anyNode, Address: func(name, _ string) string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.nodes[name].server.Addr().String()
	}}
	s := &share.Server{Log: log, Images: mirror.Server{Content: r, Log: log, Spread: spread.Send}, Node: anyNode}
	l := listen(t)
	c.server, c.hosts = l, l.Addr().String()
	l.serve(t, share.Mixed(l, c.authority.Server("control-plane", "127.0.0.1")), s)
	return c
}

func (s *service) serve(t *testing.T, l net.Listener, of *share.Server) {
	t.Helper()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- share.Serve(ctx, l, of.Handler()) }()
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
}

func listen(t *testing.T) *service {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &service{Listener: l}
}

func connect(t *testing.T, socket string) *runtime.Runtime {
	t.Helper()
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// image makes an image of this host's platform with layers of one size in bytes.
func image(t *testing.T, layerSize int64) v1.Image {
	t.Helper()
	i, err := random.Image(layerSize, layers)
	if err != nil {
		t.Fatal(err)
	}
	config, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", "amd64"
	if i, err = mutate.ConfigFile(i, config); err != nil {
		t.Fatal(err)
	}
	return i
}

// join adds a node that pulls from the control plane, and gives blobs to others.
func (c *cluster) join(t *testing.T, name string) *node {
	t.Helper()
	n := &node{name: name, containerd: containerd.StartForTest(t), server: listen(t), hosts: t.TempDir()}
	n.runtime = connect(t, n.containerd.Socket)
	m := registry.Mirror{Folder: n.hosts, CA: filepath.Join(c.pki, "ca.crt"), Certificate: fixture.ClientCertificate(t, c.pki, "system:node:"+name, "system:nodes")}
	if _, err := m.Set([]string{c.hosts}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&c.log, nil))
	n.blob = func(ctx context.Context, sha256 string) (peer.Blob, error) { return n.runtime.Blob(ctx, sha256) }
	n.hello = func(tls.ConnectionState) error { return nil }
	trusted := func() ([]*x509.Certificate, error) { return c.authority.Trusted, nil }
	config := peer.TLS(trusted, share.KubeletCertificate(fixture.KubeletServing(t, c.pki, name)))
	of := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := of(hello)
		if err == nil {
			config.VerifyConnection = func(state tls.ConnectionState) error { return n.hello(state) }
		}
		return config, err
	}
	n.server.serve(t, share.Mixed(n.server, config), &share.Server{Log: log, Node: func(context.Context, string, time.Time) error { return nil }, Peer: &peer.Server{
		Node: name, Log: log, Trusted: trusted,
		Blob: func(ctx context.Context, sha256 string) (peer.Blob, error) { return n.blob(ctx, sha256) },
	}})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[name] = n
	return n
}

// pull pulls the image into the node's containerd.
func (n *node) pull(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, n.containerd.Ctr, "--address", n.containerd.Socket, "--namespace", "k8s.io", "images", "pull", "--hosts-dir", n.hosts, ref).CombinedOutput()
	return string(out), err
}

func (n *node) pulls(t *testing.T) {
	t.Helper()
	if out, err := n.pull(t.Context()); err != nil {
		t.Fatalf("%s: %v\n%s", n.name, err, out)
	}
}

// TestNodesGiveImageToEachOther starts an image on three nodes at once, beside the control plane that has it.
func TestNodesGiveImageToEachOther(t *testing.T) {
	const imageSize = layers * 12 << 20
	c := newCluster(t, imageSize/layers)
	nodes := []*node{c.join(t, "a"), c.join(t, "b"), c.join(t, "c")}
	var pulling sync.WaitGroup
	for _, n := range nodes {
		pulling.Go(func() {
			if out, err := n.pull(t.Context()); err != nil {
				t.Errorf("%s: %v\n%s", n.name, err, out)
			}
		})
	}
	pulling.Wait()
	total := c.server.sent.Load()
	all := map[string]int64{"the control plane": total}
	for _, n := range nodes {
		all[n.name] = n.server.sent.Load()
		total += all[n.name]
	}
	for name, sent := range all {
		t.Logf("%s sent %.3f of the image", name, float64(sent)/imageSize)
		if sent > 2*imageSize {
			t.Errorf("%s sent %d bytes, more than twice the image", name, sent)
		}
	}
	if total > imageSize*305/100 {
		t.Errorf("%d bytes in all for three times %d", total, imageSize)
	}
	if t.Failed() {
		t.Log(c.log.String())
	}
}

// TestPullOutlivesPeer has a node that had the image, and fails in several ways when another node pulls.
func TestPullOutlivesPeer(t *testing.T) {
	c := newCluster(t, layerSize)
	for name, row := range map[string]struct {
		fail func(n *node)
		gave bool // whether the node gave a part
	}{
		"is away":                 {func(n *node) { n.server.stop() }, false},
		"is behind a firewall":    {func(n *node) { n.hello = controlPlanesOnly }, false},
		"is killed in the middle": {func(n *node) { n.server.limit.Store(layerSize / 2) }, true},
		"trusts no control plane": {func(n *node) { n.hello = func(tls.ConnectionState) error { return errors.New("unknown CA") } }, false},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := c.join(t, "first "+name), c.join(t, "second "+name)
			first.pulls(t)
			row.fail(first)
			before := first.server.sent.Load()
			second.pulls(t)
			if gave := first.server.sent.Load()-before > layerSize/4; gave != row.gave {
				t.Errorf("the failed node gave a part: %t", gave)
			}
		})
	}
}

// controlPlanesOnly ends the connections of nodes.
func controlPlanesOnly(state tls.ConnectionState) error {
	if party, _ := identity.Client(&state); party != identity.Member {
		return errors.New("a firewall")
	}
	return nil
}

// TestLyingPeerIsForgotten has a node that gives other content. The next pull gets everything from the control plane.
func TestLyingPeerIsForgotten(t *testing.T) {
	c := newCluster(t, layerSize)
	liar, honest := c.join(t, "liar"), c.join(t, "honest")
	liar.pulls(t)
	has := liar.blob
	liar.blob = func(ctx context.Context, sha256 string) (peer.Blob, error) {
		blob, err := has(ctx, sha256)
		if err != nil {
			return nil, err
		}
		defer blob.Close()
		return lie{bytes.NewReader(make([]byte, blob.Size()))}, nil
	}
	if out, err := honest.pull(t.Context()); err == nil || !strings.Contains(out, "unexpected commit digest") {
		t.Fatalf("%v\n%s", err, out)
	}
	if dropped, err := honest.runtime.DropFaulty(t.Context(), time.Now()); err != nil || len(dropped) > 0 {
		t.Errorf("deleted at once: %v, %v", dropped, err)
	}
	dropped, err := honest.runtime.DropFaulty(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(dropped) == 0 {
		t.Errorf("%v, %v", dropped, err)
	}
	sent := liar.server.sent.Load()
	honest.pulls(t)
	if more := liar.server.sent.Load() - sent; more > layerSize {
		t.Errorf("%d bytes came from the liar again", more)
	}
	if !strings.Contains(c.log.String(), "had no success") {
		t.Error(c.log.String())
	}
}

type lie struct{ *bytes.Reader }

func (lie) Close() error { return nil }
