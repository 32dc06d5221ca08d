package oidc_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/issuer"
	"github.com/sealift/sealift/spec"
)

const manifest = `apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system}
spec:
  containers:
  - name: kube-apiserver
    image: registry.k8s.io/kube-apiserver:v1.36.3
    command: [kube-apiserver, --secure-port=6443]
`

// plane is a control plane whose kubelet is the test: it restarts the real API server with the flag of the manifest.
type plane struct {
	*controlplane.ControlPlane
	t        *testing.T
	admin    kubernetes.Interface
	follower oidc.Follower
	restarts int
}

func newPlane(t *testing.T) *plane {
	p := &plane{ControlPlane: controlplane.StartForTest(t, controlplane.Options{Controllers: []string{"clusterrole-aggregation-controller"}}), t: t}
	p.admin = kubernetes.NewForConfigOrDie(p.Config())
	host := oidc.Host{Host: files.Host{Rootfs: t.TempDir()}}
	writeFile(t, host.Path(kubeadm.APIServerManifest), manifest)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: kubeadm.ConfigMap}, Data: map[string]string{
		kubeadm.ConfigKey: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n"}}
	if _, err := p.admin.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.follower = oidc.Follower{Host: host, Client: p.admin,
		InTurn: func(ctx context.Context, work func(context.Context) error) error { return work(ctx) },
		Uses: func(ctx context.Context) (string, error) {
			if p.restarts == 0 { // the kubelet sees the manifest now
				p.restarts++
				if err := p.Restart(ctx, "--authentication-config="+host.Path(cluster.AuthenticationFile)); err != nil {
					return "", err
				}
			}
			return cluster.ReportedFile(ctx, p.Config(), "authentication")
		}}
	return p
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// set gives the cluster a login, and lets the agent follow.
func (p *plane) set(o *spec.OIDC) {
	p.t.Helper()
	if err := oidc.Apply(p.t.Context(), p.admin, o); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.follower.Pass(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// as is a client with a token.
func (p *plane) as(token string) kubernetes.Interface {
	config := rest.AnonymousClientConfig(p.Config())
	config.BearerToken, config.QPS = token, -1
	return kubernetes.NewForConfigOrDie(config)
}

// becomes waits until a request ends as expected: the API server reads files and bindings by watches.
func (p *plane) becomes(what string, ask func(context.Context) error, is func(error) bool) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer stop()
	var last error
	if err := poll.Until(ctx, 50*time.Millisecond, nil, func(ctx context.Context) (bool, error) {
		last = ask(ctx)
		return is(last), nil
	}); err != nil {
		p.t.Fatalf("%s: %v; %v", what, last, err)
	}
}

func works(err error) bool { return err == nil }

func listPods(c kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}
}

func deletePod(c kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.CoreV1().Pods("default").Delete(ctx, "none", metav1.DeleteOptions{})
	}
}

func login(i *issuer.Issuer) *spec.OIDC {
	o, err := spec.ReadOIDC(map[string]any{
		"issuers": []any{map[string]any{"url": i.URL(), "audiences": []any{"kubernetes", "console"}, "caCertificate": i.CA()}},
		"admins":  []any{"oidc:platform"}, "operators": []any{"oidc:operators"}, "viewers": []any{"oidc:staff"},
	})
	if err != nil {
		panic(err)
	}
	return o
}

// TestPeopleLogIn gives a running cluster a login, changes it and takes it away. The API server restarts once, for the first login.
func TestPeopleLogIn(t *testing.T) {
	p, i := newPlane(t), issuer.Start(t)
	person := func(name string, groups ...string) kubernetes.Interface {
		return p.as(i.Token(t, map[string]any{"sub": name, "aud": "kubernetes", "groups": groups}))
	}
	viewer, operator, admin := person("vera", "staff"), person("otto", "operators"), person("anna", "platform")
	p.becomes("before", listPods(viewer), apierrors.IsUnauthorized)

	p.set(login(i))
	p.keepsForConsole(login(i))
	p.becomes("a viewer lists", listPods(viewer), works)
	p.becomes("a viewer deletes", deletePod(viewer), apierrors.IsForbidden)
	p.becomes("an operator deletes", deletePod(operator), apierrors.IsNotFound)
	p.becomes("an operator binds roles", func(ctx context.Context) error {
		_, err := operator.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
		return err
	}, apierrors.IsForbidden)
	p.becomes("an admin", func(ctx context.Context) error {
		_, err := admin.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
		return err
	}, works)
	p.refuses(i)

	without := login(i)
	without.Viewers = nil
	p.set(without)
	p.keepsForConsole(without)
	p.becomes("a group that was taken out", listPods(viewer), apierrors.IsForbidden)
	p.becomes("an admin still", deletePod(admin), apierrors.IsNotFound)

	p.carries(without, admin)
	p.set(nil)
	p.keepsForConsole(nil)
	p.becomes("without a login", listPods(admin), apierrors.IsUnauthorized)
	if p.restarts != 1 {
		t.Errorf("the API server restarted %d times", p.restarts)
	}
	config, err := kubeadm.ReadConfig(t.Context(), p.admin)
	if err != nil || !strings.Contains(config.Text, cluster.AuthenticationFile) {
		t.Errorf("upgrades would drop the flag: %v\n%s", err, config.Text)
	}
}

// keepsForConsole shows that the console of this control plane reads the login, with the groups, from its file.
func (p *plane) keepsForConsole(o *spec.OIDC) {
	p.t.Helper()
	text, err := os.ReadFile(p.follower.Host.Path(node.LoginFile))
	if o == nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.t.Errorf("without a login, the console reads %s, %v", text, err)
		}
		return
	}
	if kept, parseErr := spec.ParseOIDC(text); err != nil || parseErr != nil || !reflect.DeepEqual(kept, o) {
		p.t.Errorf("the console reads %s, %v, %v", text, err, parseErr)
	}
}

// carries shows that a control plane which joins gets the file of the others, and that a restore brings back the login that etcd then has.
func (p *plane) carries(o *spec.OIDC, admin kubernetes.Interface) {
	p.t.Helper()
	own, err := os.ReadFile(p.follower.Host.Path(cluster.AuthenticationFile))
	if err != nil {
		p.t.Fatal(err)
	}
	if joining, err := oidc.File(p.t.Context(), p.admin); err != nil || joining != string(own) {
		p.t.Errorf("a control plane that joins gets %v\n%s", err, joining)
	}
	if err := p.admin.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(p.t.Context(), oidc.ConfigMap, metav1.DeleteOptions{}); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.follower.Pass(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.keepsForConsole(nil)
	p.becomes("restored from before the login", listPods(admin), apierrors.IsUnauthorized)
	p.set(o)
	p.becomes("restored with the login", listPods(admin), works)
}

// refuses shows tokens that give nothing.
func (p *plane) refuses(i *issuer.Issuer) {
	p.t.Helper()
	for name, claims := range map[string]map[string]any{
		"another audience": {"sub": "anna", "aud": "wiki", "groups": []string{"platform"}},
		"an ended token":   {"sub": "anna", "aud": "kubernetes", "groups": []string{"platform"}, "exp": time.Now().Add(-time.Hour).Unix()},
		"another issuer":   {"sub": "anna", "aud": "kubernetes", "groups": []string{"platform"}, "iss": "https://other.example"},
	} {
		if err := listPods(p.as(i.Token(p.t, claims)))(p.t.Context()); !apierrors.IsUnauthorized(err) {
			p.t.Errorf("%s: %v", name, err)
		}
	}
	forged := issuer.Start(p.t)
	if err := listPods(p.as(forged.Token(p.t, map[string]any{"sub": "anna", "aud": "kubernetes", "groups": []string{"platform"}, "iss": i.URL()})))(p.t.Context()); !apierrors.IsUnauthorized(err) {
		p.t.Errorf("signed by somebody else: %v", err)
	}
}

// TestIssuerRevealsNoClusterNames: without a prefix, an issuer could name the masters.
func TestIssuerRevealsNoClusterNames(t *testing.T) {
	p, i := newPlane(t), issuer.Start(t)
	o := login(i)
	o.Issuers[0].Claims.UsernamePrefix, o.Issuers[0].Claims.GroupsPrefix = "", ""
	o.Viewers = []string{"staff"}
	p.set(o)
	p.becomes("a plain name", listPods(p.as(i.Token(t, map[string]any{"sub": "vera", "aud": "kubernetes", "groups": []string{"staff"}}))), works)
	for _, claims := range []map[string]any{
		{"sub": "vera", "groups": []string{"staff", "system:masters"}}, {"sub": "system:admin", "groups": []string{"staff"}}, {"sub": "sealift:control-plane:a", "groups": []string{"staff"}},
		{"sub": "vera", "groups": []string{"staff", "kubeadm:cluster-admins"}}, {"sub": "kubeadm:x"},
	} {
		claims["aud"] = "kubernetes"
		if err := listPods(p.as(i.Token(t, claims)))(t.Context()); !apierrors.IsUnauthorized(err) {
			t.Errorf("%v: %v", claims, err)
		}
	}
}

// TestAbsentIssuerLocksNobodyElseOut starts an API server whose issuer is away.
func TestAbsentIssuerLocksNobodyElseOut(t *testing.T) {
	p, i := newPlane(t), issuer.Start(t)
	o := login(i)
	i.Stop()
	p.set(o)
	if _, err := p.admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a certificate: %v", err)
	}
	if err := p.admin.RbacV1().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error(); err != nil {
		t.Errorf("the API server is not ready: %v", err)
	}
	if err := oidc.Apply(t.Context(), p.admin, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.follower.Pass(t.Context()); err != nil { // taking it away does not need the issuer
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.follower.Host.Path(cluster.AuthenticationFile))
	if err != nil {
		t.Fatal(err)
	}
	p.becomes("the file without an issuer", func(ctx context.Context) error {
		used, err := p.follower.Uses(ctx)
		if err == nil && used != oidc.Digest(text) {
			err = http.ErrNotSupported
		}
		return err
	}, works)
}

func TestUnusableServerIsRefused(t *testing.T) {
	for flag, named := range map[string]string{
		"--oidc-issuer-url=https://a.example": "--oidc-issuer-url", "--authentication-config=/etc/own.yaml": "/etc/own.yaml",
	} {
		host := oidc.Host{Host: files.Host{Rootfs: t.TempDir()}}
		writeFile(t, host.Path(kubeadm.APIServerManifest), strings.Replace(manifest, "--secure-port=6443", flag, 1))
		if err := host.Check(); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if err := (oidc.Host{Host: files.Host{Rootfs: t.TempDir()}}).Check(); err != nil {
		t.Errorf("a new host: %v", err)
	}
}
