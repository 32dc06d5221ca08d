package registry_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/mirror"
	"github.com/sealift/sealift/installer/cluster/registry"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

const mark = "# The control planes, which 'sealift node agent' keeps up to date: containerd.mirror of the Installer.\n"

// node is what Mirror needs of a host.
func node(t *testing.T) registry.Mirror {
	t.Helper()
	m := registry.Mirror{Folder: filepath.Join(t.TempDir(), "certs.d"), CA: filepath.Join(t.TempDir(), "ca.crt"), Certificate: filepath.Join(t.TempDir(), "kubelet.pem")}
	for _, name := range []string{m.CA, m.Certificate} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestMirrorFollowsControlPlanes uses a cluster whose control planes come and go.
func TestMirrorFollowsControlPlanes(t *testing.T) {
	m := node(t)
	entry := func(url, capabilities, more string) string {
		return "\n[host.\"https://" + url + "\"]\n  capabilities = [" + capabilities + "]\n  ca = \"" + m.CA + "\"\n  client = [[\"" + m.Certificate + "\", \"" + m.Certificate + "\"]]\n  dial_timeout = \"3s\"\n" + more
	}
	hosts := func(addresses ...string) (text string) {
		for _, address := range addresses {
			text += entry(address, `"pull", "resolve"`, "")
		}
		for _, address := range addresses {
			text += entry(address+"/v2", `"pull"`, "  header = { Sealift-Direct = \"true\" }\n")
		}
		return text
	}
	port := int32(6443)
	for _, step := range []struct {
		when      string
		addresses []string
		want      []string // in any order that nodes may have
		changes   bool
	}{
		{"this host alone", []string{"127.0.0.1"}, nil, false},
		{"another one", []string{"127.0.0.1", "203.0.113.201"}, []string{hosts("203.0.113.201:6445")}, true},
		{"the same", []string{"203.0.113.201", "127.0.0.1"}, []string{hosts("203.0.113.201:6445")}, false},
		{"of IPv6", []string{"127.0.0.1", "2001:db8::1"}, []string{hosts("[2001:db8::1]:6445")}, true},
		{"two", []string{"203.0.113.201", "203.0.113.202"}, []string{hosts("203.0.113.201:6445", "203.0.113.202:6445"), hosts("203.0.113.202:6445", "203.0.113.201:6445")}, true},
		{"this host alone again", []string{"127.0.0.1"}, nil, true},
	} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Ports: []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: step.addresses}}}
		changed, err := registry.FollowControlPlanes(t.Context(), fake.NewClientset(slice), m)
		if err != nil || changed != step.changes {
			t.Errorf("%s: changed is %t, %v", step.when, changed, err)
		}
		text := contents(t, filepath.Dir(m.Folder))["certs.d/_default/hosts.toml"]
		matches := len(step.want) == 0 && text == ""
		for _, want := range step.want {
			matches = matches || text == mark+want
		}
		if !matches {
			t.Errorf("%s: the file is\n%s", step.when, text)
		}
	}
	before := contents(t, m.Folder)
	if _, err := registry.FollowControlPlanes(t.Context(), fake.NewClientset(), m); err == nil {
		t.Error("a cluster without API servers is not an error")
	}
	if diff := cmp.Diff(before, contents(t, m.Folder)); diff != "" {
		t.Error(diff)
	}
}

// TestMirrorWritesNoUnusableFile uses a host that is not a node yet, and one whose administrator wrote the file.
func TestMirrorWritesNoUnusableFile(t *testing.T) {
	servers := []string{"203.0.113.201:6445"}
	m := node(t)
	if err := os.Remove(m.Certificate); err != nil {
		t.Fatal(err)
	}
	if changed, err := m.Set(servers); changed || err == nil {
		t.Errorf("without a certificate: %t, %v", changed, err)
	}
	if _, err := os.Stat(m.Folder); err == nil {
		t.Error("containerd cannot read the file")
	}
	m = node(t)
	const text = "server = \"https://mirror.example.com\"\n"
	has(t, m.Folder, "_default", text)
	if changed, err := m.Set(servers); changed || err == nil || !strings.Contains(err.Error(), "is not from Sealift") {
		t.Errorf("somebody else's: %t, %v", changed, err)
	}
	if changed, err := m.Set(nil); changed || err != nil {
		t.Errorf("somebody else's, removed: %t, %v", changed, err)
	}
	if diff := cmp.Diff(map[string]string{"_default/": "", "_default/hosts.toml": text}, contents(t, m.Folder)); diff != "" {
		t.Error(diff)
	}
}

// TestNodePullsFromControlPlane uses a control plane with an image, and the containerd of another node.
func TestNodePullsFromControlPlane(t *testing.T) {
	const ref = "registry.example.com/team/greeting:1"
	pki := fixture.CA(t)
	server, _ := controlPlane(t, pki, ref)
	worker := containerd.StartForTest(t)
	pull := func(certificate string) (string, error) {
		m := registry.Mirror{Folder: t.TempDir(), CA: filepath.Join(pki, "ca.crt"), Certificate: certificate}
		if _, err := m.Set([]string{"127.0.0.1:1", server}); err != nil { // nobody answers at the first
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, worker.Ctr, "--address", worker.Socket, "--namespace", "k8s.io", "images", "pull", "--hosts-dir", m.Folder, ref).CombinedOutput()
		return string(out), err
	}
	for name, certificate := range map[string]string{
		"a removed node":     fixture.ClientCertificate(t, pki, "system:node:removed", "system:nodes"),
		"a person":           fixture.ClientCertificate(t, pki, "somebody", "users"),
		"another cluster's":  fixture.ClientCertificate(t, fixture.CA(t), "system:node:host-1", "system:nodes"),
		"an administrator's": fixture.ClientCertificate(t, pki, "kubernetes-admin", "system:masters"),
	} {
		if out, err := pull(certificate); err == nil {
			t.Errorf("%s: pulled\n%s", name, out)
		}
	}
	if out, err := pull(fixture.ClientCertificate(t, pki, "system:node:host-1", "system:nodes")); err != nil {
		t.Errorf("a node: %v\n%s", err, out)
	}
}

// TestKubeletPullsFromControlPlane pulls as the kubelet does, by tag and by digest, and compares the digest that it sees.
func TestKubeletPullsFromControlPlane(t *testing.T) {
	const ref = "registry.example.com/team/greeting:1"
	pki := fixture.CA(t)
	server, digest := controlPlane(t, pki, ref)
	m := registry.Mirror{Folder: t.TempDir(), CA: filepath.Join(pki, "ca.crt"), Certificate: fixture.ClientCertificate(t, pki, "system:node:host-1", "system:nodes")}
	if _, err := m.Set([]string{server}); err != nil {
		t.Fatal(err)
	}
	c := containerd.StartWithKubernetesForTest(t, m.Folder)
	conn, err := grpc.NewClient("unix://"+c.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	images := cri.NewImageServiceClient(conn)
	byDigest := "registry.example.com/team/greeting@" + digest
	for _, asked := range []string{ref, byDigest} {
		spec := &cri.ImageSpec{Image: asked}
		if _, err := images.PullImage(t.Context(), &cri.PullImageRequest{Image: spec}); err != nil {
			t.Fatalf("pull %s: %v", asked, err)
		}
		got, err := images.ImageStatus(t.Context(), &cri.ImageStatusRequest{Image: spec})
		if err != nil || !slices.Equal(got.GetImage().GetRepoDigests(), []string{byDigest}) || !slices.Equal(got.GetImage().GetRepoTags(), []string{ref}) {
			t.Errorf("%s: %v, %v", asked, got, err)
		}
	}
}

// controlPlane serves the image ref of its containerd, and returns its address and the image's digest.
func controlPlane(t *testing.T, pki, ref string) (address, digest string) {
	t.Helper()
	r, err := runtime.Connect(t.Context(), containerd.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	file := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.Write(t, file, ref)
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
	authority, err := identity.ReadAuthority(pki)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := &share.Server{Images: mirror.Server{Content: r, Log: log}, Log: log, Node: func(_ context.Context, node string, _ time.Time) error {
		if node == "removed" {
			return share.ErrMember
		}
		return nil
	}}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- share.Serve(ctx, share.Mixed(l, authority.Server("host-0", "127.0.0.1")), s.Handler())
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), layout.Images[0].Target.Digest.String()
}
