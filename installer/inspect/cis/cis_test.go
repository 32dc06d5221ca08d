package cis_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/inspect/cis"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// kubeletConfiguration is written by kubeadm.
const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
rotateCertificates: true
streamingConnectionIdleTimeout: 0s
`

// node has the files that kubeadm makes on a control plane.
func node(t *testing.T) cis.Host {
	t.Helper()
	h := cis.Host{Name: kubeadm.Node, Rootfs: strings.TrimSuffix(kubeadm.Copy(t), "etc/kubernetes")}
	write(t, h, "/var/lib/kubelet/config.yaml", kubeletConfiguration)
	write(t, h, "/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--node-ip=10.10.0.1"`)
	return h
}

func write(t *testing.T, h cis.Host, name, text string) {
	t.Helper()
	path := filepath.Join(h.Rootfs, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, h cis.Host) map[string]cis.Result {
	t.Helper()
	r, err := cis.Look(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]cis.Result{}
	for _, one := range r.Results {
		all[one.ID] = one
		if one.Title == "" || one.Status == cis.Met && one.Found == "" || one.Status != cis.Met && one.Reason == "" {
			t.Errorf("it does not explain itself: %+v", one)
		}
	}
	if len(all) != len(r.Results) {
		t.Error("two checks have one number")
	}
	t.Logf("%d met, %d not met, %d not applicable", r.Count(cis.Met), r.Count(cis.NotMet), r.Count(cis.NotApplicable))
	return all
}

// sections has the number of checks of each section of the benchmark.
var sections = map[string]int{"1.1": 21, "1.2": 30, "1.3": 7, "1.4": 2, "2": 7, "3.1": 3, "3.2": 2, "4.1": 10, "4.2": 13, "5.1": 13, "5.2": 13, "5.3": 2, "5.4": 2, "5.5": 1, "5.7": 4}

func TestEveryCheckOfBenchmarkIsReported(t *testing.T) {
	counts := map[string]int{}
	for id := range look(t, node(t)) {
		if !regexp.MustCompile(`^[1-5](\.\d+){1,2}$`).MatchString(id) {
			t.Errorf("%q is no number of the benchmark", id)
		}
		counts[id[:strings.LastIndex(id, ".")]]++
	}
	if !maps.Equal(counts, sections) {
		t.Errorf("got %v, want %v", counts, sections)
	}
}

// TestPlainKubeadmClusterIsChecked has a cluster that nobody has hardened.
func TestPlainKubeadmClusterIsChecked(t *testing.T) {
	all := look(t, node(t))
	for status, ids := range map[cis.Status][]string{
		cis.Met: {"1.1.1", "1.1.2", "1.1.13", "1.1.19", "1.1.21", "1.2.2", "1.2.4", "1.2.6", "1.2.7", "1.2.8", "1.2.10", "1.2.13", "1.2.15", "1.2.23", "1.2.24",
			"1.2.26", "1.2.27", "1.3.3", "1.3.4", "1.3.7", "1.4.2", "4.1.5", "4.1.9", "4.2.1", "4.2.2", "4.2.3", "4.2.7", "4.2.10"},
		cis.NotMet: {"1.1.20", "1.2.1", "1.2.3", "1.2.5", "1.2.11", "1.2.16", "1.2.17", "1.2.18", "1.2.28", "1.2.30", "1.3.1", "1.3.2", "1.4.1", "3.2.1", "3.2.2",
			"4.1.7", "4.2.9", "4.2.11", "4.2.12", "4.2.13"},
		cis.NotApplicable: {"1.1.7", "1.2.12", "1.2.29", "2.1", "3.1.2", "4.1.3", "5.1.1", "5.2.1", "5.4.2"},
	} {
		for _, id := range ids {
			if all[id].Status != status {
				t.Errorf("want %s: %+v", status, all[id])
			}
		}
	}
	if all["1.1.20"].Found == "" || !strings.Contains(all["1.1.20"].Found, "0644 /etc/kubernetes/pki/") {
		t.Errorf("%+v", all["1.1.20"])
	}
}

// TestEachSettingIsChecked changes one thing after the other.
func TestEachSettingIsChecked(t *testing.T) {
	h := node(t)
	pods := filepath.Join(h.Rootfs, "etc/kubernetes/manifests")
	argument := func(component, line string) func() error {
		return func() error {
			name := filepath.Join(pods, component+".yaml")
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			changed := strings.Replace(string(text), "    - "+component+"\n", "    - "+component+"\n    - "+line+"\n", 1)
			return os.WriteFile(name, []byte(changed), 0o600)
		}
	}
	kubelet := func(line string) func() error {
		return func() error {
			return os.WriteFile(filepath.Join(h.Rootfs, "var/lib/kubelet/config.yaml"), []byte(kubeletConfiguration+line+"\n"), 0o600)
		}
	}
	before := look(t, h)
	for _, row := range []struct {
		id     string
		want   cis.Status
		change func() error
	}{
		{"1.1.1", cis.NotMet, func() error { return os.Chmod(filepath.Join(pods, "kube-apiserver.yaml"), 0o644) }},
		{"1.1.2", cis.NotMet, func() error { return os.Chown(filepath.Join(pods, "kube-apiserver.yaml"), 1, 1) }},
		{"1.1.21", cis.NotMet, func() error { return os.Chmod(filepath.Join(h.Rootfs, "etc/kubernetes/pki/etcd/ca.key"), 0o640) }},
		{"1.2.2", cis.NotMet, argument("kube-apiserver", "--token-auth-file=/x")},
		{"1.2.6", cis.NotMet, func() error {
			name := filepath.Join(pods, "kube-apiserver.yaml")
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, []byte(strings.Replace(string(text), "    - --authorization-mode=Node,RBAC\n", "", 1)), 0o600)
		}},
		{"1.2.16", cis.Met, argument("kube-apiserver", "--profiling=false")},
		{"1.2.18", cis.Met, argument("kube-apiserver", "--audit-log-maxage=30")},
		{"1.2.19", cis.NotMet, argument("kube-apiserver", "--audit-log-maxbackup=9")},
		{"1.2.30", cis.Met, argument("kube-apiserver", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")},
		{"1.3.7", cis.NotMet, func() error {
			name := filepath.Join(pods, "kube-controller-manager.yaml")
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, []byte(strings.Replace(string(text), "--bind-address=127.0.0.1", "--bind-address=0.0.0.0", 1)), 0o600)
		}},
		{"1.4.1", cis.Met, argument("kube-scheduler", "--profiling=false")},
		{"4.2.4", cis.NotMet, kubelet("readOnlyPort: 10255")},
		{"4.2.11", cis.Met, kubelet("serverTLSBootstrap: true")},
		{"4.2.12", cis.Met, kubelet("tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]")},
		{"4.2.12", cis.NotMet, kubelet("tlsCipherSuites: [TLS_RSA_WITH_3DES_EDE_CBC_SHA]")},
		{"4.2.13", cis.Met, kubelet("podPidsLimit: 4096")},
		{"4.2.13", cis.Met, kubelet("podPidsLimit: 1000000")},
		{"4.2.7", cis.NotMet, func() error {
			return os.WriteFile(filepath.Join(h.Rootfs, "var/lib/kubelet/kubeadm-flags.env"), []byte(`KUBELET_KUBEADM_ARGS="--hostname-override=other"`), 0o600)
		}},
	} {
		if err := row.change(); err != nil {
			t.Fatal(err)
		}
		got := look(t, h)[row.id]
		if got.Status != row.want || got.Found == before[row.id].Found {
			t.Errorf("%s: got %+v, before %+v", row.id, got, before[row.id])
		}
	}
}

// encrypted is the configuration of an API server that encrypts Secrets with the provider inserted for %.
const encrypted = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: [%, {identity: {}}]}]\n"

func TestAuditPolicyAndEncryptionAreRead(t *testing.T) {
	h := node(t)
	name := filepath.Join(h.Rootfs, "etc/kubernetes/manifests/kube-apiserver.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, h, "/etc/kubernetes/manifests/kube-apiserver.yaml", strings.Replace(string(text), "    - kube-apiserver\n",
		"    - kube-apiserver\n    - --audit-policy-file=/etc/kubernetes/audit.yaml\n    - --encryption-provider-config=/etc/kubernetes/encryption.yaml\n", 1))
	for _, row := range []struct {
		audit, encryption string
		policy, provider  cis.Status
	}{
		{"rules: [{level: Metadata}]", "{secretbox: {keys: []}}", cis.Met, cis.Met},
		{"rules: [{level: Metadata, verbs: [create]}]", "{aesgcm: {keys: []}}", cis.NotMet, cis.NotMet},
		{"rules: [{level: None}]", "{aescbc: {keys: []}}", cis.NotMet, cis.Met},
	} {
		write(t, h, "/etc/kubernetes/audit.yaml", row.audit)
		write(t, h, "/etc/kubernetes/encryption.yaml", strings.Replace(encrypted, "%", row.encryption, 1))
		if all := look(t, h); all["3.2.2"].Status != row.policy || all["1.2.29"].Status != row.provider || all["1.2.28"].Status != cis.Met {
			t.Errorf("%+v: %+v, %+v", row, all["3.2.2"], all["1.2.29"])
		}
	}
	write(t, h, "/etc/kubernetes/audit.yaml", "rules: [")
	if _, err := cis.Look(t.Context(), h); err == nil || !strings.Contains(err.Error(), "audit.yaml") {
		t.Errorf("a damaged policy: %v", err)
	}
}

func TestWorkerSkipsControlPlaneChecks(t *testing.T) {
	h := node(t)
	if err := os.RemoveAll(filepath.Join(h.Rootfs, "etc/kubernetes/manifests")); err != nil {
		t.Fatal(err)
	}
	for id, one := range look(t, h) {
		if section := id[:1]; section != "4" && one.Status != cis.NotApplicable {
			t.Errorf("%+v", one)
		}
	}
	if _, err := cis.Look(t.Context(), cis.Host{Rootfs: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "is no node of a cluster") {
		t.Errorf("a bare host: %v", err)
	}
}

// TestPoliciesAreReadFromAPIServer asks a real API server.
func TestPoliciesAreReadFromAPIServer(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(controlplane.ForTest(t))
	h := node(t)
	h.API = client
	fresh := look(t, h)
	for _, id := range []string{"3.1.2", "3.1.3", "5.1.1", "5.1.2", "5.1.3", "5.1.8", "5.1.13", "5.4.1", "5.7.4"} {
		if fresh[id].Status != cis.Met {
			t.Errorf("of a fresh cluster: %+v", fresh[id])
		}
	}
	for _, id := range []string{"5.2.1", "5.2.6", "5.3.1", "5.3.2"} {
		if fresh[id].Status != cis.NotMet || id[:3] != "5.3" && fresh[id].Found != "default" {
			t.Errorf("of a fresh cluster: %+v", fresh[id])
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, c := t.Context(), metav1.CreateOptions{}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}}}, c)
	must(err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "mallory"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "default"}}}, c)
	must(err)
	_, err = client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i",
		Env: []corev1.EnvVar{{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}}}}}}}, c)
	must(err)
	_, err = client.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef"}}, c)
	must(err)
	_, err = client.CoreV1().Namespaces().Patch(ctx, "default", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`), metav1.PatchOptions{})
	must(err)
	changed := look(t, h)
	for id, found := range map[string]string{
		"3.1.3": "bootstrap-token-abcdef", "5.1.1": "mallory", "5.1.2": "all", "5.1.3": "all", "5.1.4": "all", "5.1.8": "all", "5.1.5": "rights of default/default",
		"5.2.6": "default", "5.4.1": "default/p", "5.7.3": "default/p", "5.7.4": "default/p",
	} {
		if one := changed[id]; one.Status != cis.NotMet || !strings.Contains(one.Found, found) {
			t.Errorf("%+v does not name %s", one, found)
		}
	}
	for _, id := range []string{"5.2.1", "5.2.2", "5.2.13"} {
		if changed[id].Status != cis.Met {
			t.Errorf("%+v", changed[id])
		}
	}
	if ids := slices.Sorted(maps.Keys(changed)); len(ids) != 130 {
		t.Errorf("%d checks", len(ids))
	}
}
