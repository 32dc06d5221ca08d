package restore

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/testing/controlplane"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// drillHost is a control plane with objects, which encrypts Secrets.
type drillHost struct {
	host
	member member
	client kubernetes.Interface
	etcd   *clientv3.Client
}

func newDrillHost(t *testing.T, objects int) drillHost {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	folder := kubeadmtest.Folder(t)
	kubeadmtest.EtcdManifest(t, folder)
	h := drillHost{host: host{files.Host{Rootfs: strings.TrimSuffix(folder, kubeadm.Folder)}}}
	h.encrypt(t)
	plane := controlplane.StartForTest(t, controlplane.Options{Arguments: []string{"--encryption-provider-config=" + h.Path(cluster.EncryptionFile)}})
	var err error
	if h.client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		t.Fatal(err)
	}
	if h.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{plane.Etcd()}, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.etcd.Close() })
	for n := range objects {
		meta := metav1.ObjectMeta{Name: fmt.Sprint("o", n)}
		_, err := h.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"a": meta.Name}}, metav1.CreateOptions{})
		if err == nil {
			_, err = h.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	manifest, err := h.manifest(kubeadm.EtcdManifest, nil)
	if err == nil {
		h.member, err = parseMember(manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// encrypt makes the keys, and the manifest that names them.
func (h drillHost) encrypt(t *testing.T) {
	t.Helper()
	keys, err := encryption.Config{Keys: []encryption.Key{{Name: "key-1-a", Secret: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}.Encode()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(h.Path(cluster.EncryptionFile)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(h.Path(cluster.EncryptionFile), keys, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(h.Path(kubeadm.APIServerManifest))
	if err == nil {
		with := strings.Replace(string(text), "- kube-apiserver\n", "- kube-apiserver\n    - --encryption-provider-config="+cluster.EncryptionFile+"\n", 1)
		err = os.WriteFile(h.Path(kubeadm.APIServerManifest), []byte(with), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// save saves a snapshot of the objects, by an etcd with kubeadm's certificates that has a copy of them.
func (h drillHost) save(t *testing.T) *snapshot.Content {
	t.Helper()
	stream, err := h.etcd.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "db"))
	if err == nil {
		_, err = io.Copy(f, stream)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := dataFolder{path: filepath.Join(t.TempDir(), "etcd"), generation: "copy"}
	if err := d.make(t.Context(), etcdutl{kubeadmtest.Etcdutl(t), member{Name: kubeadmtest.Node, Peers: kubeadmtest.Peer}, io.Discard}, f, true); err != nil {
		t.Fatal(err)
	}
	if err := d.exchange(); err != nil {
		t.Fatal(err)
	}
	folder := h.Path(kubeadm.Folder)
	at := cluster.EtcdAddress{Endpoint: kubeadmtest.EtcdWithData(t, folder, d.path), PKI: filepath.Join(folder, "pki/etcd")}
	return etcdHost{host: h.host, etcd: at}.save(t)
}

// program returns the lab's builds for the images of the snapshot.
func program(t *testing.T, h drillHost) func(_ context.Context, image, path, to string) error {
	return func(ctx context.Context, image, path, to string) error {
		name := filepath.Base(path)
		if want := map[bool]string{true: ":" + controlplane.DefaultVersion(), false: h.member.Image}[name == "kube-apiserver"]; !strings.HasSuffix(image, want) {
			return fmt.Errorf("%s is asked for in %s", name, image)
		}
		built, err := lab.Workshop(t).File(ctx, upstream.Program(name))
		if err != nil {
			return err
		}
		return os.Symlink(built, to)
	}
}

// TestDrillRestoresEveryObject uses a snapshot with encrypted Secrets, and leaves nothing.
func TestDrillRestoresEveryObject(t *testing.T) {
	t.Parallel()
	const count = 50
	h := newDrillHost(t, count)
	o := DrillOptions{Dir: t.TempDir(), Program: program(t, h), Output: t.Output()}
	plant(t, filepath.Join(o.Dir, "sealift-drill.123", "etcd/member/snap/db")) // by a drill that was killed
	d, err := RunDrill(t.Context(), o, h.save(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Err() != nil || d.Kinds["secrets"] != count || d.Kinds["configmaps"] < count || !d.Encrypted || len(d.Unlisted) > 0 || d.Whole < d.API || d.API < d.Etcd {
		t.Errorf("the drill found %+v", d)
	}
	t.Logf("%d objects: etcd after %.1f s, the API after %.1f s, all read after %.1f s", d.Objects, d.Etcd, d.API, d.Whole)
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	// an object that no API server knows, because its definition is gone
	if _, err := h.etcd.Put(t.Context(), objectPrefix+"example.org/things/default/lost", "{}"); err != nil {
		t.Fatal(err)
	}
	d, err = RunDrill(t.Context(), o, h.save(t))
	if err != nil || d.Err() == nil || !slices.Equal(d.Unserved, []string{"example.org/things/default/lost"}) || len(d.Differ) > 0 {
		t.Errorf("with an object that nobody serves: %+v, %v", d, err)
	}
}

// TestDrillComparesByDigest changes the restored etcd before it is compared.
func TestDrillComparesByDigest(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	for _, name := range []string{"same", "changed", "gone"} {
		c.put(t, "configmaps/default/"+name, "1")
	}
	s := &sandbox{dir: t.TempDir(), from: c.save(t), output: t.Output()}
	t.Cleanup(s.stop)
	was, err := readDigests(fmt.Sprintf("/proc/self/fd/%d", s.from.Etcd.Fd()))
	if err == nil {
		err = s.read()
	}
	if err == nil {
		err = s.programs(t.Context(), program(t, drillHost{member: s.member}))
	}
	if err == nil {
		err = s.makeData(t.Context())
	}
	if err == nil {
		err = s.startEtcd(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if names, err := s.differ(t.Context(), was); err != nil || len(names) > 0 {
		t.Errorf("at first %v differ, %v", names, err)
	}
	client, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, name := range []string{"changed", "more"} {
		if _, err := client.Put(t.Context(), objectPrefix+"configmaps/default/"+name, "2"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Delete(t.Context(), objectPrefix+"configmaps/default/gone"); err != nil {
		t.Fatal(err)
	}
	names, err := s.differ(t.Context(), was)
	slices.Sort(names)
	if want := []string{"configmaps/default/changed", "configmaps/default/gone", "configmaps/default/more"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v differ, want %v, %v", names, want, err)
	}
}

func TestKernelKillsDrillFirst(t *testing.T) {
	s := &sandbox{dir: t.TempDir(), output: io.Discard}
	defer s.stop()
	p, err := s.start("sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.cmd.Process.Pid))
	if err != nil || strings.TrimSpace(string(text)) != "1000" {
		t.Errorf("got %q, %v", text, err)
	}
}
