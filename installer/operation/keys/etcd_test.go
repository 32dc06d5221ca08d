package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
)

// plane is a control plane whose API server has the keys of a host.
type plane struct {
	*controlplane.ControlPlane
	encryption.Host
	client kubernetes.Interface
	etcd   *clientv3.Client
}

// arguments are those that an install writes into the manifest of the API server.
func (p plane) arguments() (list []string) {
	for _, a := range cluster.Encryption().Flags {
		list = append(list, "--"+a[0]+"="+strings.Replace(a[1], cluster.EncryptionFile, p.Path(cluster.EncryptionFile), 1))
	}
	return list
}

func newPlane(t *testing.T, h encryption.Host, encrypts bool) plane {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	p := plane{Host: h}
	var o controlplane.Options
	if encrypts {
		o.Arguments = p.arguments()
	}
	var err error
	if p.ControlPlane, err = controlplane.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	if p.client, err = kubernetes.NewForConfig(p.Config()); err != nil {
		t.Fatal(err)
	}
	if p.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{p.Etcd()}, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.etcd.Close() })
	return p
}

// raw is the content of an object on disk.
func (p plane) raw(t *testing.T, key string) []byte {
	t.Helper()
	found, err := p.etcd.Get(t.Context(), "/registry/"+key)
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", key, found, err)
	}
	return found.Kvs[0].Value
}

func encode(t *testing.T, c encryption.Config) []byte {
	t.Helper()
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const plain = "correct-horse-battery"

func (p plane) create(t *testing.T, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": plain + name}}
	if _, err := p.client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// read returns an error unless the API server can decrypt a Secret.
func (p plane) read(t *testing.T, name string) error {
	t.Helper()
	got, err := p.client.CoreV1().Secrets("default").Get(t.Context(), name, metav1.GetOptions{})
	if err == nil && string(got.Data["password"]) != plain+name {
		t.Errorf("Secret %s has %q", name, got.Data["password"])
	}
	return err
}

// TestNoSecretIsPlainInEtcd reads the disk. The keys that a restore puts together read it.
func TestNoSecretIsPlainInEtcd(t *testing.T) {
	t.Parallel()
	fixture.Unapproved(t, fips.Secrets)
	h := encryption.Host{Host: files.Host{Rootfs: t.TempDir()}}
	first := made(t, h)
	p := newPlane(t, h, true)
	p.create(t, "a")
	value := p.raw(t, "secrets/default/a")
	if want := "k8s:enc:secretbox:v1:" + first.Keys[0].Name + ":"; !bytes.HasPrefix(value, []byte(want)) || bytes.Contains(value, []byte(plain)) {
		t.Errorf("etcd has %q", value)
	}
	database, err := p.etcd.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	var whole bytes.Buffer
	if _, err := whole.ReadFrom(database); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(whole.Bytes(), []byte("k8s:enc:secretbox")) || bytes.Contains(whole.Bytes(), []byte(plain)) {
		t.Error("etcd's database has the Secret as plain text, or not at all")
	}
	// written by a restore on a host with other keys: with only those, the API server would not even become ready
	both, _, err := encryption.Merge(encode(t, encryption.Config{Keys: []encryption.Key{encryption.NewKey(first)}}), encode(t, first))
	if err == nil {
		err = files.WriteMode(h.Path(cluster.EncryptionFile), 0o600, both)
	}
	if err == nil {
		err = p.Restart(t.Context(), p.arguments()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.read(t, "a"); err != nil {
		t.Errorf("with the keys of the snapshot besides: %v", err)
	}
}

// realServer is the one API server of a plane, and of a rotation that is killed.
type realServer struct {
	plane
	*moments
	t       *testing.T
	reloads bool   // rereads a changed file on its own, once a minute; otherwise it is restarted
	started string // the file with which it was started last
}

func (s *realServer) List(context.Context) ([]cluster.Node, error) {
	return []cluster.Node{{Name: "self", Ready: true, Roles: []string{"control-plane"}}}, s.pass()
}

// Apply implements operation.Nodes.
func (s *realServer) Apply(ctx context.Context, _ string, _ operation.Request) error {
	if err := s.pass(); err != nil {
		return err
	}
	text, err := os.ReadFile(s.Path(cluster.EncryptionFile))
	if err != nil || string(text) == s.started || s.reloads && s.started != "" {
		return err
	}
	s.started = string(text)
	return errors.Join(s.Restart(context.WithoutCancel(ctx), s.arguments()...), s.pass())
}

func (s *realServer) Uses(ctx context.Context, _ string) (string, error) {
	if err := s.pass(); err != nil {
		return "", err
	}
	return cluster.ReportedFile(ctx, s.Config(), "encryption")
}

// Rewrite may be killed before each Secret.
func (s *realServer) Rewrite(ctx context.Context) error {
	config := s.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				if err := s.pass(); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return rewrite(ctx, client, s.t.Output())
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (s *realServer) Values(ctx context.Context, see func(key, value []byte) error) error {
	return cluster.EachValue(ctx, s.etcd, secretsPrefix, see)
}

func (s *realServer) Remember(context.Context) error { return s.pass() }

// rotate runs a rotation and kills it after n moments.
func (s *realServer) rotate(state string, kills int) {
	s.t.Helper()
	for n := range kills + 1 {
		s.killAt = s.count + 1 + n*n%11
		if n == kills {
			s.killAt = 0
		}
		dead, err := lead(s.t, s.moments, "self", s.Host, state, s, time.Second)
		if err != nil || dead != (n < kills) {
			s.t.Fatalf("run %d: killed %v, %v", n+1, dead, err)
		}
	}
}

// TestAPIServerEnablesAndRotatesEncryption under a reader that never stops. The rotations are killed ten times.
func TestAPIServerEnablesAndRotatesEncryption(t *testing.T) {
	t.Parallel()
	const count = 20
	s := &realServer{plane: newPlane(t, encryption.Host{Host: files.Host{Rootfs: t.TempDir()}}, false), moments: &moments{check: func() {}}, t: t, reloads: true}
	for n := range count {
		s.create(t, fmt.Sprint("s", n))
	}
	if !bytes.Contains(s.raw(t, "secrets/default/s7"), []byte(plain)) {
		t.Fatal("the Secret is encrypted before encryption is turned on")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		reads := 0
		for n := 0; ctx.Err() == nil; n++ {
			_, err := s.client.CoreV1().Secrets("default").Get(ctx, fmt.Sprint("s", n%count), metav1.GetOptions{})
			if err == nil {
				reads++
			} else if reason := apierrors.ReasonForError(err); reason == metav1.StatusReasonInternalError || reason == metav1.StatusReasonNotFound {
				t.Errorf("a Secret could not be read: %v", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		ended <- reads
	}()
	prefixed := func(number int) (key string) {
		t.Helper()
		c, _, err := s.Host.Read()
		if err != nil || len(c.Keys) != 1 || c.Keys[0].Number() != number || c.PlainFirst {
			t.Fatalf("the file has %v, %v", c, err)
		}
		all := 0
		err = s.Values(t.Context(), func(name, value []byte) error {
			all++
			if !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:"+c.Keys[0].Name+":")) || bytes.Contains(value, []byte(plain)) {
				t.Errorf("etcd has %s as %q", name, value)
			}
			return nil
		})
		if err != nil || all < count {
			t.Errorf("etcd has %d Secrets, %v", all, err)
		}
		return c.Keys[0].Name
	}
	state := t.TempDir()
	s.rotate(state, 3)
	first := prefixed(1)
	s.reloads = false
	s.rotate(state, 7)
	if second := prefixed(2); second == first {
		t.Error("the key is the same")
	}
	for n := range count {
		if err := s.read(t, fmt.Sprint("s", n)); err != nil {
			t.Error(err)
		}
	}
	stop()
	t.Logf("%d Secrets were read meanwhile, %d moments", <-ended, s.count)
}
