package pki

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
)

// worker makes the files that a worker has.
func worker(t *testing.T) host {
	t.Helper()
	h := controlPlane(t)
	h.rotatedClient(t)
	ca := h.read(t, "/etc/kubernetes/pki/ca.crt")
	for _, folder := range []string{"/etc/kubernetes/pki", manifestFolder} {
		if err := os.RemoveAll(h.Path(folder)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"admin", "super-admin", "scheduler", "controller-manager"} {
		if err := os.Remove(h.Path(kubeadm.Folder + "/" + name + ".conf")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(h.Path("/etc/kubernetes/pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path("/etc/kubernetes/pki/ca.crt"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestWorkerNeedsTokenOnlyAfterExpiry(t *testing.T) {
	h, now := worker(t), time.Now()
	const token = "abcdef.0123456789abcdef"
	for _, row := range []struct {
		why, token, refused string
		serving             bool // the kubelet signs its serving certificate itself
		days                int
		steps               []string
	}{
		{"nothing to do", "", "nothing to renew", false, 0, nil},
		{"its kubelet signs its serving certificate", "", "", true, 0, []string{kubeletStep, LastStep}},
		{"off for too long", "", "'sealift token create --renew host-1'", true, 400, nil},
		{"off for too long, with a token", token, "", true, 400, []string{bootstrapStep, kubeletStep, LastStep}},
		{"its clock is behind", "", "set the clock", true, -400, nil},
		{"its clock is behind, with a token", token, "set the clock", false, -400, nil},
		{"interrupted after the kubelet had its certificate", token, "", false, 0, []string{kubeletStep, LastStep}},
	} {
		if err := os.RemoveAll(h.Path(kubeletServing)); err != nil {
			t.Fatal(err)
		}
		if row.serving {
			if err := os.WriteFile(h.Path(kubeletServing), h.read(t, kubeletFolder+"/kubelet-client-current.pem"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := &Renewal{host: h, options: Options{Token: row.token}}
		err := r.look(now.AddDate(0, 0, row.days))
		if row.refused != "" {
			if err == nil || !strings.Contains(err.Error(), row.refused) {
				t.Errorf("%s: %v", row.why, err)
			}
			continue
		}
		var steps []string
		for _, s := range r.Plan() {
			steps = append(steps, s.ID)
		}
		if err != nil || !slices.Equal(steps, row.steps) || r.node != "host-1" {
			t.Errorf("%s: %v on %s, %v", row.why, steps, r.node, err)
		}
	}
}

func TestTokenReplacesExpiredCertificate(t *testing.T) {
	h := worker(t)
	if err := h.writeBootstrap("abcdef.0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(h.Path(kubeadm.BootstrapKubeconfig)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	own, err := clientcmd.LoadFromFile(h.Path(kubeadm.KubeletKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	made, err := clientcmd.LoadFromFile(h.Path(kubeadm.BootstrapKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	context := made.Contexts[made.CurrentContext]
	user, server := made.AuthInfos[context.AuthInfo], made.Clusters[context.Cluster]
	if user.Token != "abcdef.0123456789abcdef" || user.ClientCertificate != "" || server.Server != own.Clusters[context.Cluster].Server || len(server.CertificateAuthorityData) == 0 {
		t.Errorf("%+v, %+v", user, server)
	}
	if !h.clientValid(time.Now()) || h.clientValid(time.Now().AddDate(2, 0, 0)) {
		t.Error("the end of the kubelet's certificate is not seen")
	}
}

func TestServingCertificateExpiryIsRead(t *testing.T) {
	h, now := worker(t), time.Now()
	if h.servingEnded(now) {
		t.Error("a kubelet without one waits for it")
	}
	if err := os.Symlink("kubelet-client-2026.pem", h.Path(kubeletRotated)); err != nil {
		t.Fatal(err)
	}
	if h.servingEnded(now) || !h.servingEnded(now.AddDate(2, 0, 0)) {
		t.Error("its end is not seen")
	}
}

func TestWorkerRenewalIsResumed(t *testing.T) {
	now := time.Now()
	first := generation(nil, now)
	for _, step := range []string{bootstrapStep, kubeletStep} {
		begun := []lifecycle.Record{{Step: step, Outcome: lifecycle.Finished, Inputs: first}}
		if got := generation(begun, now.Add(time.Hour)); got != first {
			t.Errorf("%s: %s", step, got)
		}
	}
}

// TestTokenIsTriedBeforeFirstChange asks a real API server that knows bootstrap tokens.
func TestTokenIsTriedBeforeFirstChange(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	plane := controlplane.StartForTest(t, controlplane.Options{Arguments: []string{"--enable-bootstrap-token-auth=true"}})
	h, client := host{files.Host{Rootfs: t.TempDir()}}, clientset.NewForConfigOrDie(plane.Config())
	if err := os.MkdirAll(h.Path(kubeadm.Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := controlplane.WriteKubeconfig(h.Path(kubeadm.KubeletKubeconfig), plane.Config()); err != nil {
		t.Fatal(err)
	}
	good, err := token.Create(t.Context(), client, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	// the API server reads tokens by a watch
	tries := func(token, refused string) {
		t.Helper()
		var err error
		for range 100 {
			if err = h.checkToken(t.Context(), token); err == nil && refused == "" || err != nil && refused != "" && strings.Contains(err.Error(), refused) {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("got %v, want %q", err, refused)
	}
	tries("abcdef.0123456789abcdef", "Unauthorized")
	tries(good, "may not ask for a node's certificate")
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:kubelet-bootstrap"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tries(good, "")
}
