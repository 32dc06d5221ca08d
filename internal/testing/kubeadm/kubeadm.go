// Package kubeadm gives tests the files of a control plane, made by a real kubeadm, and a real etcd that uses its
// certificates. It needs no host.
package kubeadm

import (
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// Node is the name of the control plane, Address its address, and Pods the network of the cluster's pods.
const (
	Node    = "host-1"
	Address = "10.10.0.1"
	Pods    = "10.32.0.0/20"
)

// config is the cluster's configuration. With a version kubeadm asks no server for one.
var config = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: ` + Address + `}
nodeRegistration: {name: ` + Node + `}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: ` + controlplane.DefaultVersion() + `
networking: {podSubnet: ` + Pods + `}
`

// Program returns the path of kubeadm.
func Program(t testing.TB) string {
	t.Helper()
	return built(t, "kubeadm")
}

func built(t testing.TB, name string) string {
	t.Helper()
	path, err := lab.Workshop(t).File(t.Context(), upstream.Program(name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Folder makes the keys, certificates, kubeconfigs and manifests of a control plane, as kubeadm does in /etc/kubernetes.
// The folder is removed with the test.
func Folder(t testing.TB) string {
	t.Helper()
	program, dir := Program(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubeadm.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, phase := range []string{"certs", "kubeconfig", "control-plane"} {
		cmd := exec.CommandContext(t.Context(), program, "init", "phase", phase, "all", "--config", "/kubeadm.yaml", "--rootfs", dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubeadm init phase %s: %v\n%s", phase, err, out)
		}
	}
	return filepath.Join(dir, "etc/kubernetes")
}

// EtcdManifest adds the manifest of etcd's pod to a Folder.
func EtcdManifest(t testing.TB, folder string) {
	t.Helper()
	dir := strings.TrimSuffix(folder, "/etc/kubernetes")
	cmd := exec.CommandContext(t.Context(), Program(t), "init", "phase", "etcd", "local", "--config", "/kubeadm.yaml", "--rootfs", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubeadm init phase etcd: %v\n%s", err, out)
	}
}

// original is the folder that Copy copies, made once for all tests of a process.
var original struct {
	once  sync.Once
	files []file
}

type file struct {
	name string
	mode fs.FileMode
	text []byte
}

// Copy is Folder with the keys and certificates of every other Copy in this process. Making keys takes seconds.
func Copy(t testing.TB) string {
	t.Helper()
	_ = Program(t) // skips each test that cannot have it, not only the first
	original.once.Do(func() {
		folder := Folder(t)
		if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			original.files = append(original.files, file{strings.TrimPrefix(path, folder), info.Mode().Perm(), text})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
	folder := filepath.Join(t.TempDir(), "etc/kubernetes")
	for _, f := range original.files {
		name := filepath.Join(folder, f.name)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, f.text, f.mode)
		}
		if err == nil {
			err = os.Chmod(name, f.mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Peer is the URL at which members of Etcd would reach it.
const Peer = "unix://peer:1"

// Etcd runs an etcd with the certificates of a Folder until t ends, and returns its endpoint. It begins without data.
func Etcd(t testing.TB, folder string) (endpoint string) { return EtcdWithData(t, folder, "") }

// EtcdWithData is Etcd with the data of a folder.
func EtcdWithData(t testing.TB, folder, data string) (endpoint string) {
	t.Helper()
	program := built(t, "etcd")
	dir, err := scratch.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Remove(); err != nil {
			t.Error(err)
		}
	})
	address, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if data == "" {
		data = dir.File("data")
	}
	pki := filepath.Join(folder, "pki/etcd")
	d, err := daemon.Start(daemon.Command{Path: program, Dir: dir.Path(), Log: dir.File("etcd.log"), Args: []string{
		"--name=" + Node, "--data-dir=" + data, "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls=https://" + address, "--advertise-client-urls=https://" + address,
		"--listen-peer-urls=" + Peer, "--initial-advertise-peer-urls=" + Peer, "--initial-cluster=" + Node + "=" + Peer,
		"--client-cert-auth", "--trusted-ca-file=" + filepath.Join(pki, "ca.crt"),
		"--cert-file=" + filepath.Join(pki, "server.crt"), "--key-file=" + filepath.Join(pki, "server.key"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := d.WaitReady(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		t.Fatal(err)
	}
	return "https://" + address
}

// Etcdutl returns the path of etcdutl, of the same version as Etcd.
func Etcdutl(t testing.TB) string {
	t.Helper()
	return built(t, "etcdutl")
}

// EtcdClient connects to an etcd with the certificates in a folder, such as the one of Etcd.
func EtcdClient(t testing.TB, endpoint, folder string) *clientv3.Client {
	t.Helper()
	tls, err := transport.TLSInfo{TrustedCAFile: filepath.Join(folder, "ca.crt"),
		CertFile: filepath.Join(folder, "healthcheck-client.crt"), KeyFile: filepath.Join(folder, "healthcheck-client.key")}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: tls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
