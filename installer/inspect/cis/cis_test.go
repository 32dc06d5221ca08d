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
	h := cis.Host{Name: kubeadm.Node, Kubernetes: "1.37.2", Rootfs: strings.TrimSuffix(kubeadm.Copy(t), "etc/kubernetes")}
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

// sections has the number of checks of each section of the editions.
var sections = map[string]map[string]int{
	"1.8":   {"1.1": 21, "1.2": 30, "1.3": 7, "1.4": 2, "2": 7, "3.1": 3, "3.2": 2, "4.1": 10, "4.2": 13, "5.1": 13, "5.2": 13, "5.3": 2, "5.4": 2, "5.5": 1, "5.7": 4},
	"2.0.1": {"1.1": 21, "1.2": 30, "1.3": 7, "1.4": 2, "2": 7, "3.1": 3, "3.2": 2, "4.1": 10, "4.2": 14, "4.3": 1, "5.1": 13, "5.2": 12, "5.3": 2, "5.4": 2, "5.5": 1, "5.6": 4},
}

func TestEveryCheckOfBenchmarkIsReported(t *testing.T) {
	for _, e := range cis.Editions() {
		h, want := node(t), sections["2.0.1"]
		if h.Edition = e; e.Version == "1.8" {
			want = sections["1.8"]
		}
		counts := map[string]int{}
		for id := range look(t, h) {
			if !regexp.MustCompile(`^[1-5](\.\d+){1,2}$`).MatchString(id) || cis.SectionTitle(cis.Section(id)) == "" {
				t.Errorf("%s: %q is not a number of the benchmark, or its section has no title", e.Version, id)
			}
			counts[cis.Section(id)]++
		}
		if !maps.Equal(counts, want) {
			t.Errorf("%s: got %v, want %v", e.Version, counts, want)
		}
	}
}

func TestKubernetesChoosesEdition(t *testing.T) {
	for kubernetes, want := range map[string][2]string{
		"1.31.4": {"1.8", "written for Kubernetes 1.26; this node has 1.31.4"}, "1.32.0": {"1.12", ""}, "1.33.9": {"1.12", ""},
		"1.34.4": {"2.0.1", ""}, "1.35.4": {"2.0.1", ""}, "1.36.3": {"2.0.1", "written for Kubernetes 1.34 to 1.35; this node has 1.36.3"},
		"1.37.2": {"2.0.1", "written for Kubernetes 1.34 to 1.35; this node has 1.37.2"}, "1.40.0-rc.1": {"2.0.1", "written for Kubernetes 1.34 to 1.35; this node has 1.40.0-rc.1"},
	} {
		if e := cis.EditionOf(kubernetes); e.Version != want[0] || e.Note(kubernetes) != want[1] {
			t.Errorf("%s: edition %s, %q", kubernetes, e.Version, e.Note(kubernetes))
		}
	}
	if _, err := cis.EditionNamed("9"); err == nil || !strings.Contains(err.Error(), "known: 1.8, 1.12, 2.0.1") {
		t.Errorf("an edition that there is not: %v", err)
	}
	page, err := os.ReadFile("../../../docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range cis.Editions() {
		if row := " | " + e.Version + " | " + e.First; !strings.Contains(string(page), row) {
			t.Errorf("docs/hardening.md has no row with %q", row)
		}
	}
	h := node(t)
	h.Edition, _ = cis.EditionNamed("1.8")
	old := look(t, h)
	now := look(t, node(t))
	for was, is := range map[string]string{"1.2.13": "1.2.12", "1.2.30": "1.2.29", "5.2.10": "5.2.9", "5.7.4": "5.6.4", "4.2.13": "4.2.13"} {
		if old[was].Title != now[is].Title || old[was].Status != now[is].Status {
			t.Errorf("%s of 1.8 is not %s of 2.0.1: %+v, %+v", was, is, old[was], now[is])
		}
	}
	if old["1.1.20"].Status != cis.NotMet || now["1.1.20"].Status != cis.Met {
		t.Errorf("certificates that everybody may read: %+v, %+v", old["1.1.20"], now["1.1.20"])
	}
}

// TestPlainKubeadmClusterIsChecked uses a cluster that nobody has hardened.
func TestPlainKubeadmClusterIsChecked(t *testing.T) {
	all := look(t, node(t))
	for status, ids := range map[cis.Status][]string{
		cis.Met: {"1.1.1", "1.1.2", "1.1.13", "1.1.19", "1.1.20", "1.1.21", "1.2.2", "1.2.4", "1.2.6", "1.2.7", "1.2.8", "1.2.10", "1.2.12", "1.2.14", "1.2.22", "1.2.23",
			"1.2.25", "1.2.26", "1.3.3", "1.3.4", "1.3.7", "1.4.2", "4.1.5", "4.1.7", "4.1.9", "4.2.1", "4.2.2", "4.2.3", "4.2.7", "4.2.10"},
		cis.NotMet: {"1.2.1", "1.2.3", "1.2.5", "1.2.11", "1.2.15", "1.2.16", "1.2.17", "1.2.27", "1.2.29", "1.2.30", "1.3.1", "1.3.2", "1.4.1", "3.2.1", "3.2.2",
			"4.2.9", "4.2.11", "4.2.12", "4.2.13", "4.2.14"},
		cis.NotApplicable: {"1.1.7", "1.2.28", "2.1", "3.1.2", "4.1.3", "4.3.1", "5.1.1", "5.2.1", "5.4.2"},
	} {
		for _, id := range ids {
			if all[id].Status != status {
				t.Errorf("want %s: %+v", status, all[id])
			}
		}
	}
	if !strings.Contains(all["1.1.20"].Found, "0644 /etc/kubernetes/pki/") {
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
		{"1.2.15", cis.Met, argument("kube-apiserver", "--profiling=false")},
		{"1.2.17", cis.Met, argument("kube-apiserver", "--audit-log-maxage=30")},
		{"1.2.18", cis.NotMet, argument("kube-apiserver", "--audit-log-maxbackup=9")},
		{"1.2.29", cis.Met, argument("kube-apiserver", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")},
		{"1.2.30", cis.Met, argument("kube-apiserver", "--service-account-extend-token-expiration=false")},
		{"1.1.20", cis.NotMet, func() error { return os.Chmod(filepath.Join(h.Rootfs, "etc/kubernetes/pki/ca.crt"), 0o664) }},
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
		{"4.2.14", cis.Met, kubelet("seccompDefault: true")},
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
		if all := look(t, h); all["3.2.2"].Status != row.policy || all["1.2.28"].Status != row.provider || all["1.2.27"].Status != cis.Met {
			t.Errorf("%+v: %+v, %+v", row, all["3.2.2"], all["1.2.28"])
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
	if _, err := cis.Look(t.Context(), cis.Host{Rootfs: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "is not a node of a cluster") {
		t.Errorf("a bare host: %v", err)
	}
}

// TestPoliciesAreReadFromAPIServer asks a real API server.
func TestPoliciesAreReadFromAPIServer(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(controlplane.ForTest(t))
	h := node(t)
	h.API = client
	fresh := look(t, h)
	for _, id := range []string{"3.1.2", "3.1.3", "5.1.1", "5.1.2", "5.1.3", "5.1.8", "5.1.13", "5.4.1", "5.6.4"} {
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
	proxy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy"}, Data: map[string]string{"config.conf": "metricsBindAddress: \"\"\n"}}
	proxy, err = client.CoreV1().ConfigMaps("kube-system").Create(ctx, proxy, c)
	must(err)
	if one := look(t, h)["4.3.1"]; one.Status != cis.Met {
		t.Errorf("kube-proxy's default: %+v", one)
	}
	proxy.Data["config.conf"] = "metricsBindAddress: 0.0.0.0:10249\n"
	_, err = client.CoreV1().ConfigMaps("kube-system").Update(ctx, proxy, metav1.UpdateOptions{})
	must(err)
	changed := look(t, h)
	for id, found := range map[string]string{
		"3.1.3": "bootstrap-token-abcdef", "5.1.1": "mallory", "5.1.2": "all", "5.1.3": "all", "5.1.4": "all", "5.1.8": "all", "5.1.5": "rights of default/default",
		"5.2.6": "default", "5.4.1": "default/p", "5.6.3": "default/p", "5.6.4": "default/p", "4.3.1": "0.0.0.0:10249",
	} {
		if one := changed[id]; one.Status != cis.NotMet || !strings.Contains(one.Found, found) {
			t.Errorf("%+v does not name %s", one, found)
		}
	}
	for _, id := range []string{"5.2.1", "5.2.2", "5.2.12"} {
		if changed[id].Status != cis.Met {
			t.Errorf("%+v", changed[id])
		}
	}
	if ids := slices.Sorted(maps.Keys(changed)); len(ids) != 131 {
		t.Errorf("%d checks", len(ids))
	}
}
