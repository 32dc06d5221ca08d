package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/testing/controlplane"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// renew renews everything at a time, and returns how the certificates were and how they are.
func (h host) renew(t *testing.T, now time.Time) (before, after map[string]Entry) {
	t.Helper()
	entries, err := h.list(now)
	if err != nil {
		t.Fatal(err)
	}
	before = h.must(t, now)
	all, err := renewals(h, entries, now)
	if err == nil {
		err = h.issue(all, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return before, h.must(t, now)
}

func (h host) read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(h.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRenewalChangesOnlyExpiry(t *testing.T) {
	h := controlPlane(t)
	later := time.Now().AddDate(0, 14, 0) // all but the CAs have ended
	mode, err := os.Stat(h.Path("/etc/kubernetes/pki/apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := h.renew(t, later)
	renewed := 0
	for name, now := range after {
		old := before[name]
		if now.Problem != "" || now.Kind != old.Kind {
			t.Errorf("%s: %+v", name, now)
		}
		if now.cert == nil || now.Kind == CA {
			if old.cert != nil && !now.cert.Equal(old.cert) {
				t.Errorf("%s, which is a CA, has changed", name)
			}
			continue
		}
		renewed++
		if *old.Days >= 0 || *now.Days != 365 && *now.Days != 364 {
			t.Errorf("%s had %d days and has %d", name, *old.Days, *now.Days)
		}
		a, b := old.cert, now.cert
		addresses := func(c *x509.Certificate) (all []string) {
			for _, ip := range c.IPAddresses {
				all = append(all, ip.String())
			}
			return all
		}
		if !bytes.Equal(a.RawSubject, b.RawSubject) || !bytes.Equal(a.RawIssuer, b.RawIssuer) || !bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo) ||
			!slices.Equal(a.DNSNames, b.DNSNames) || !slices.Equal(addresses(a), addresses(b)) || a.KeyUsage != b.KeyUsage || !slices.Equal(a.ExtKeyUsage, b.ExtKeyUsage) ||
			!bytes.Equal(a.AuthorityKeyId, b.AuthorityKeyId) || a.IsCA != b.IsCA || a.SerialNumber.Cmp(b.SerialNumber) == 0 {
			t.Errorf("%s changed:\n%+v\n%+v", name, a, b)
		}
	}
	if renewed != 12 {
		t.Errorf("%d were renewed, not 12", renewed)
	}
	if info, err := os.Stat(h.Path("/etc/kubernetes/pki/apiserver.crt")); err != nil || info.Mode() != mode.Mode() {
		t.Errorf("the mode is %v, was %v: %v", info.Mode(), mode.Mode(), err)
	}
}

func TestOnlyExpiredCertificatesAreRenewed(t *testing.T) {
	h := controlPlane(t)
	later := time.Now().AddDate(0, 14, 0)
	if files, err := RenewEnded(h.Rootfs, time.Now()); err != nil || len(files) > 0 {
		t.Errorf("none has ended: %v, %v", files, err)
	}
	files, err := RenewEnded(h.Rootfs, later)
	if err != nil || !slices.Contains(files, "/etc/kubernetes/pki/apiserver.crt") || !slices.Contains(files, kubeadm.AdminKubeconfig) {
		t.Errorf("renewed %v, %v", files, err)
	}
	for name, e := range h.must(t, later) {
		if e.Kind != CA && e.Ended(later) && len(e.UsedBy) > 0 {
			t.Errorf("%s has ended: %+v", name, e)
		}
	}
	if files, err := RenewEnded(h.Rootfs, later); err != nil || len(files) > 0 {
		t.Errorf("again: %v, %v", files, err)
	}
}

// TestEtcdAndItsClientsUseRenewedCertificates lets a real etcd serve with them, and a client show one.
func TestEtcdAndItsClientsUseRenewedCertificates(t *testing.T) {
	h := controlPlane(t)
	h.renew(t, time.Now())
	folder := h.Path(kubeadm.Folder)
	s, err := cluster.OpenEtcdSnapshot(t.Context(), cluster.EtcdAddress{Endpoint: kubeadmtest.Etcd(t, folder), PKI: filepath.Join(folder, "pki/etcd")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := io.Copy(io.Discard, s); err != nil {
		t.Error(err)
	}
	config, err := clientcmd.LoadFromFile(h.Path(kubeadm.AdminKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	if _, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData); err != nil {
		t.Error(err)
	}
}

// rotatedClient stores the kubelet's certificate in files, like a rotating kubelet.
func (h host) rotatedClient(t *testing.T) (dated, current string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(h.Path("/etc/kubernetes/kubelet.conf"))
	if err != nil {
		t.Fatal(err)
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	dated, current = kubeletFolder+"/kubelet-client-2026.pem", kubeletFolder+"/kubelet-client-current.pem"
	if err := os.MkdirAll(h.Path(kubeletFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path(dated), append(user.ClientCertificateData, user.ClientKeyData...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(dated), h.Path(current)); err != nil {
		t.Fatal(err)
	}
	user.ClientCertificateData, user.ClientKeyData, user.ClientCertificate, user.ClientKey = nil, nil, current, current
	if err := clientcmd.WriteToFile(*config, h.Path("/etc/kubernetes/kubelet.conf")); err != nil {
		t.Fatal(err)
	}
	return dated, current
}

func TestKubeletCertificateIsRenewedInPlace(t *testing.T) {
	h := controlPlane(t)
	dated, current := h.rotatedClient(t)
	_, after := h.renew(t, time.Now().AddDate(2, 0, 0))
	if e := after["kubelet.conf"]; *e.Days < 364 || e.Problem != "" {
		t.Errorf("%+v", e)
	}
	if link, err := os.Readlink(h.Path(current)); err != nil || link != filepath.Base(dated) {
		t.Errorf("the link is %q, %v", link, err)
	}
}

func TestUnrenewableCertificatesAreRefusedFirst(t *testing.T) {
	for _, row := range []struct {
		why, want string
		damage    func(host) error
		years     int
	}{
		{"the key of a CA is elsewhere", "/etc/kubernetes/pki/etcd/ca.key, is not on this host", func(h host) error { return os.Remove(h.Path("/etc/kubernetes/pki/etcd/ca.key")) }, 0},
		{"a CA has ended", "and sealift cannot renew a CA yet", func(host) error { return nil }, 11},
		{"a worker", "run the command on a control plane", func(h host) error { return os.RemoveAll(h.Path(kubeadm.PKI)) }, 0},
	} {
		h, now := controlPlane(t), time.Now().AddDate(row.years, 0, 0)
		if err := row.damage(h); err != nil {
			t.Fatal(err)
		}
		entries, err := h.list(now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := renewals(h, entries, now); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

func TestStaticPodsAreRestartedInOrder(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	other := "kind: Pod\nmetadata: {name: vip}\nspec: {containers: [{args: [--kubeconfig=/etc/kubernetes/admin.conf]}]}\n"
	foreign := "kind: Pod\nmetadata: {name: alone}\n"
	for name, text := range map[string]string{"a-vip": other, "alone": foreign} {
		if err := os.WriteFile(h.Path(manifestOf(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := h.list(now)
	if err != nil {
		t.Fatal(err)
	}
	all, err := renewals(h, entries, now)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := h.manifests()
	if err != nil {
		t.Fatal(err)
	}
	pods := podsOf(filesOf(all), manifests)
	if want := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "a-vip"}; !slices.Equal(pods, want) {
		t.Errorf("got %v, want %v", pods, want)
	}
	for _, pod := range pods {
		before := h.read(t, manifestOf(pod))
		if err := h.restart(pod, "1"); err != nil {
			t.Fatal(err)
		}
		first := h.read(t, manifestOf(pod))
		if err := h.restart(pod, "1"); err != nil || !bytes.Equal(h.read(t, manifestOf(pod)), first) {
			t.Errorf("%s is restarted twice: %v", pod, err)
		}
		manifest, err := h.manifest(pod)
		if err != nil || manifest.GetAnnotations()[renewedAnnotation] != "1" {
			t.Fatalf("%s: %v, %v", pod, manifest, err)
		}
		annotations := manifest.GetAnnotations()
		delete(annotations, renewedAnnotation)
		if manifest.SetAnnotations(annotations); len(annotations) == 0 {
			manifest.SetAnnotations(nil)
		}
		rest, err := yaml.Marshal(manifest.Object)
		if err != nil {
			t.Fatal(err)
		}
		var a, b map[string]any
		if yaml.Unmarshal(before, &a) != nil || yaml.Unmarshal(rest, &b) != nil || !equal(t, a, b) {
			t.Errorf("%s changed:\n%s\n%s", pod, before, rest)
		}
	}
}

func equal(t *testing.T, a, b any) bool {
	t.Helper()
	one, err := yaml.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := yaml.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(one, two)
}

// TestPodIsReadyOnlyWithNewManifest shows a real API server what a kubelet would.
func TestPodIsReadyOnlyWithNewManifest(t *testing.T) {
	config := controlplane.ForTest(t)
	h := host{files.Host{Rootfs: t.TempDir()}}
	if err := os.MkdirAll(h.Path(manifestFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path(manifestOf("etcd")), []byte("kind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := controlplane.WriteKubeconfig(h.Path(kubeadm.AdminKubeconfig), config); err != nil {
		t.Fatal(err)
	}
	pods := clientset.NewForConfigOrDie(config).CoreV1().Pods(metav1.NamespaceSystem)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "etcd-host-1", Annotations: map[string]string{renewedAnnotation: "1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waits := func(generation, why string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := h.waitPod(ctx, "etcd", "host-1", generation)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("generation %s: got %v, want %q", generation, err, why)
		}
	}
	waits("1", "not ready")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waits("1", "")
	waits("2", "has not started it again yet")
}

func TestInterruptedRenewalIsResumedWithinDay(t *testing.T) {
	now := time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)
	first := generation(nil, now)
	record := func(step string, outcome lifecycle.Outcome) lifecycle.Record {
		return lifecycle.Record{Step: step, Outcome: outcome, Inputs: first}
	}
	begun := []lifecycle.Record{record(issueStep, lifecycle.Started), record(issueStep, lifecycle.Finished), record("certs/etcd", lifecycle.Failed)}
	finished := append(slices.Clone(begun), record(LastStep, lifecycle.Started), record(LastStep, lifecycle.Finished))
	for _, row := range []struct {
		why     string
		records []lifecycle.Record
		after   time.Duration
		resumes bool
	}{
		{"interrupted", begun, time.Hour, true},
		{"the last step was interrupted", finished[:4], time.Hour, true},
		{"finished", finished, time.Hour, false},
		{"long ago", begun, 25 * time.Hour, false},
		{"the clock was set back", begun, -time.Hour, false},
	} {
		if got := generation(row.records, now.Add(row.after)); (got == first) != row.resumes {
			t.Errorf("%s: got %s after %s", row.why, got, first)
		}
	}
}
