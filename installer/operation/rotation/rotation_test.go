package rotation

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/internal/testing/short"
)

// errKilled ends a run like a power loss.
var errKilled = errors.New("killed")

// lead runs a part of a rotation on the first control plane to its end, or until it is killed.
func (c *realCluster) lead(state string, o Options) (r *Rotation, dead bool, err error) {
	c.t.Helper()
	journal, err := lifecycle.OpenJournal(state)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	c.dead, c.kill = false, cancel
	defer func() {
		cancel()
		if err := journal.Close(); err != nil {
			c.t.Error(err)
		}
		if c.dead {
			dead, err = true, nil
		}
	}()
	r = &Rotation{options: o, own: "0", rootfs: c.planes[0].rootfs, nodes: c, pause: 100 * time.Millisecond,
		fetch:   func(context.Context, string) (s authority.State, ok bool, err error) { return s, false, nil },
		Session: &node.Session{Log: node.NewLog(c.t.TempDir(), lifecycle.RotatingCAs, nil), Journal: journal},
		client:  func() (kubernetes.Interface, error) { return c.planes[0].client("super-admin.conf") }}
	if err := r.begin(ctx, c, time.Now()); err != nil {
		return r, false, err
	}
	if err := r.Check(); err != nil {
		return r, false, err
	}
	return r, false, r.lead(ctx, func(lifecycle.Event) {})
}

// killed runs a part, and kills it after n moments.
func (c *realCluster) killed(state string, o Options, kills int) (r *Rotation) {
	c.t.Helper()
	for n := range kills + 1 {
		c.killAt = c.count + 1 + n%4
		if n == kills {
			c.killAt = 0
		}
		last, dead, err := c.lead(state, o)
		if err != nil || dead != (n < kills) {
			c.t.Fatalf("run %d: killed %v, %v", n+1, dead, err)
		}
		r = last
	}
	return r
}

// valid checks whether an API server accepts a token.
func (p *plane) valid(t *testing.T, token string) bool {
	t.Helper()
	client, err := p.client("super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Authenticated
}

func (p *plane) token(t *testing.T) string {
	t.Helper()
	client, err := p.client("super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func create(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// populate makes what kubeadm makes in a cluster, and what holds old certificates and tokens.
func populate(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	isController := true
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	labels := map[string]string{"app": "proxy"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{ServiceAccountName: "proxy", Containers: []corev1.Container{{Name: "a", Image: "a"}},
		Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}}}
	var all []error
	made := func(_ any, err error) { all = append(all, err) }
	ctx, o := t.Context(), metav1.CreateOptions{}
	made(client.CoreV1().ConfigMaps("kube-public").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("cluster-info"),
		Data: map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\nclusters: [{name: '', cluster: {server: 'https://x:6443', certificate-authority-data: b2xk}}]\n"}}, o))
	made(client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta("robot")}, o))
	made(client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
		ObjectMeta: metav1.ObjectMeta{Name: "robot", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}}}, o))
	made(client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta("kubeadm:node-autoapprove-certificate-rotation"),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}}}, o))
	made(client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta("host-1")}, o))
	set, err := client.AppsV1().DaemonSets("kube-system").Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta("kube-proxy"),
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, o)
	made(set, err)
	made(client.CoreV1().Pods("kube-system").Create(ctx, &corev1.Pod{Spec: template.Spec, ObjectMeta: metav1.ObjectMeta{Name: "proxy-1", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: daemonSet, Name: set.Name, UID: set.UID, Controller: &isController}}}}, o))
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// serves makes a Secret with a certificate of a server in the cluster.
func (c *realCluster) serves(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	secret, err := pki.Server{Namespace: "default", Secret: "store", Names: []string{"store.default.svc"}}.Certificate(c.planes[0].rootfs, nil, time.Now())
	if err == nil {
		_, err = client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// servesWithBoth checks that clients with the old CA and clients with the new one trust that server.
func servesWithBoth(t *testing.T, client kubernetes.Interface, part authority.Part) {
	t.Helper()
	secret, err := client.CoreV1().Secrets("default").Get(t.Context(), "store", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	for which, roots := range map[string]string{"old": part.Old, "new": part.New} {
		o := x509.VerifyOptions{DNSName: "store.default.svc", Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
		o.Roots.AppendCertsFromPEM([]byte(roots))
		o.Intermediates.AppendCertsFromPEM(secret.Data[corev1.TLSCertKey])
		if _, err := pair.Leaf.Verify(o); err != nil {
			t.Errorf("a client that trusts the %s CA: %v", which, err)
		}
	}
}

// eventually waits for the controller manager.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}

func (c *realCluster) secretToken(t *testing.T) string {
	t.Helper()
	client, err := c.planes[0].client("super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	token := ""
	eventually(t, "the token in a Secret", func() bool {
		s, err := client.CoreV1().Secrets("default").Get(t.Context(), "robot", metav1.GetOptions{})
		if err == nil {
			token = string(s.Data[corev1.ServiceAccountTokenKey])
		}
		return token != ""
	})
	return token
}

// roots are the CAs that pods of new namespaces trust.
func (c *realCluster) roots(t *testing.T, want []byte) {
	t.Helper()
	client, err := c.planes[0].client("super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "kube-root-ca.crt", func() bool {
		m, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && m.Data["ca.crt"] == string(want)
	})
}

// TestClusterIsRotatedDuringWrites kills both parts of the rotation repeatedly. A client that knows only the old CA works until
// the end, and nothing that was written is lost.
func TestClusterIsRotatedDuringWrites(t *testing.T) {
	t.Parallel()
	short.Skip(t, "two kube-apiservers")
	c := newRealCluster(t)
	c.startController("")
	client, err := c.planes[0].client("super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	populate(t, client)
	c.serves(t, client)
	before := &plane{rootfs: t.TempDir()} // a copy of super-admin.conf elsewhere
	text, err := os.ReadFile(filepath.Join(c.planes[1].rootfs, "etc/kubernetes/super-admin.conf"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(before.rootfs, "etc/kubernetes"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(before.rootfs, "etc/kubernetes/super-admin.conf"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	asksAsBefore := func() error {
		old, err := before.client("super-admin.conf")
		if err != nil {
			return err
		}
		_, err = old.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	}
	oldToken, oldSecret := c.planes[0].token(t), c.secretToken(t)
	ctx, stop := context.WithCancel(t.Context())
	w, ended := &writes{}, make(chan struct{})
	go func() { w.write(ctx, c, create); close(ended) }()
	state := t.TempDir()

	if r := c.killed(state, Options{}, 8); len(r.Holders) != 1 {
		t.Errorf("from before are %v", r.Holders)
	}
	s, ok, err := authority.Read(c.planes[0].rootfs)
	if err != nil || !ok || s.Signed == nil || !s.Signed.Equal(s.Signed.Truncate(time.Second)) || len(s.Parts) != 4 {
		t.Fatalf("the state is %+v, %v", s.Stage, err)
	}
	part, _ := s.Part(authority.Cluster)
	c.roots(t, part.Bundle(authority.Sign))
	if err := asksAsBefore(); err != nil {
		t.Errorf("a client from before: %v", err)
	}
	servesWithBoth(t, client, part)
	newToken := c.planes[1].token(t)
	for n, p := range c.planes {
		if !p.valid(t, oldToken) || !p.valid(t, newToken) || !p.valid(t, oldSecret) {
			t.Errorf("API server %d does not take every token", n)
		}
	}
	if r, _, err := c.lead(state, Options{Finish: true}); err == nil || len(r.Holders) != 1 || !strings.Contains(err.Error(), "DaemonSet kube-system/kube-proxy") {
		t.Errorf("a pod from before runs: %v", err)
	}
	go func() { // the controller of DaemonSets
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			set, err := client.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
			if err == nil && len(set.Spec.Template.Annotations) > 0 {
				_ = client.CoreV1().Pods("kube-system").Delete(ctx, "proxy-1", *metav1.NewDeleteOptions(0))
				return
			}
		}
	}()
	c.killed(state, Options{Finish: true, Restart: true}, 4)

	stop()
	<-ended
	taken, repeated := w.all()
	t.Logf("%d writes; %d requests were repeated; %d moments", len(taken), repeated, c.count)
	after, err := c.planes[1].client("super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range taken {
		if _, err := after.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("lost: %v", err)
		}
	}
	c.rotated(t, s, after, asksAsBefore)
	for n, p := range c.planes {
		if p.valid(t, oldToken) || p.valid(t, oldSecret) || !p.valid(t, newToken) || !p.valid(t, c.secretToken(t)) {
			t.Errorf("API server %d takes other tokens than those of the new key", n)
		}
	}
}

// rotated checks that nothing old is left.
func (c *realCluster) rotated(t *testing.T, s authority.State, client kubernetes.Interface, asksAsBefore func() error) {
	t.Helper()
	part, _ := s.Part(authority.Cluster)
	if err := asksAsBefore(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a client from before: %v", err)
	}
	c.roots(t, []byte(part.New))
	for _, rootfs := range []string{c.planes[0].rootfs, c.planes[1].rootfs, c.worker} {
		if text, err := os.ReadFile(filepath.Join(rootfs, part.Trusted())); err != nil || string(text) != part.New {
			t.Errorf("%s has\n%s, %v", rootfs, text, err)
		}
	}
	kubelet, err := cluster.Client(filepath.Join(c.worker, kubeadm.KubeletKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.CoreV1().Nodes().Get(t.Context(), "host-1", metav1.GetOptions{}); err != nil {
		t.Errorf("the kubelet of the worker: %v", err)
	}
	info, err := client.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
	if err != nil || bytes.Contains([]byte(info.Data["kubeconfig"]), []byte("b2xk")) {
		t.Errorf("cluster-info: %v, %v", info.Data, err)
	}
	front, _ := s.Part(authority.FrontProxy)
	eventually(t, "the front proxy's CA", func() bool {
		of, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		return err == nil && strings.Contains(of.Data["requestheader-client-ca-file"], strings.TrimSpace(front.New))
	})
	if _, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), record.ConfigMap, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the record: %v", err)
	}
	if _, ok, err := authority.Read(c.planes[0].rootfs); ok || err != nil {
		t.Errorf("the state is there, %v", err)
	}
}
