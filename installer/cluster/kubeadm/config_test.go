package kubeadm_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// The configurations of a cluster, as kubeadm 1.28 and 1.36 write them.
const (
	config128 = `apiServer:
  extraArgs:
    authorization-mode: Node,RBAC
    profiling: "false"
  timeoutForControlPlane: 4m0s
apiVersion: kubeadm.k8s.io/v1beta3
certificatesDir: /etc/kubernetes/pki
clusterName: kubernetes
controlPlaneEndpoint: 10.10.0.100:6443
controllerManager: {}
dns: {}
etcd:
  local:
    dataDir: /var/lib/etcd
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.28.5
networking:
  dnsDomain: cluster.local
  podSubnet: 10.32.0.0/20
  serviceSubnet: 10.96.0.0/22
scheduler: {}
`
	config136 = `apiServer:
  certSANs:
  - lb.example
  extraArgs:
  - name: authorization-mode
    value: Node,RBAC
  - name: profiling
    value: "false"
apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
certificateValidityPeriod: 8760h0m0s
certificatesDir: /etc/kubernetes/pki
clusterName: kubernetes
controlPlaneEndpoint: 10.10.0.100:6443
controllerManager: {}
dns: {}
encryptionAlgorithm: RSA-2048
etcd:
  local:
    dataDir: /var/lib/etcd
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking:
  dnsDomain: cluster.local
  podSubnet: 10.32.0.0/20
  serviceSubnet: 10.96.0.0/22
proxy: {}
scheduler: {}
`
)

func TestConfigurationsOfBothVersionsAreRead(t *testing.T) {
	for version, text := range map[string]string{"v1.28.5": config128, "v1.36.3": config136} {
		c, err := kubeadm.ParseConfig([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if c.Text != text || c.KubernetesVersion != version || c.ClusterName != "kubernetes" || c.ControlPlaneEndpoint != "10.10.0.100:6443" ||
			c.Networking.PodSubnet != "10.32.0.0/20" || c.Networking.ServiceSubnet != "10.96.0.0/22" || c.Networking.DNSDomain != "cluster.local" {
			t.Errorf("%s: %+v", version, c)
		}
		if want := []string{"--authorization-mode=Node,RBAC", "--profiling=false"}; !slices.Equal(c.APIServer.ExtraArgs.Args(), want) {
			t.Errorf("%s: arguments %q instead of %q", version, c.APIServer.ExtraArgs.Args(), want)
		}
	}
	if _, err := kubeadm.ParseConfig([]byte("apiServer: {extraArgs: text}")); err == nil || !strings.Contains(err.Error(), "kubeadm's configuration of the cluster") {
		t.Errorf("arguments that are neither a list nor a map: %v", err)
	}
}

func TestServerConfigurationFollowsVersion(t *testing.T) {
	edit := func(s *kubeadm.Server) error {
		s.Name("new.example", "lb.example")
		return errors.Join(s.AddArgument("profiling", "true"), s.AddArgument("v", "2"), s.AddFolder("keys", "/keys"))
	}
	const volume = "  extraVolumes:\n  - hostPath: /keys\n    mountPath: /keys\n    name: keys\n    pathType: Directory\n    readOnly: true\n"
	for _, row := range [][3]string{
		{config128, "apiServer:\n  extraArgs:\n    authorization-mode: Node,RBAC\n    profiling: \"false\"\n",
			"apiServer:\n  certSANs:\n  - new.example\n  extraArgs:\n    authorization-mode: Node,RBAC\n    profiling: \"false\"\n    v: \"2\"\n" + volume},
		{config136, config136[:strings.Index(config136, "apiVersion")],
			"apiServer:\n  certSANs:\n  - new.example\n  extraArgs:\n  - name: authorization-mode\n    value: Node,RBAC\n  - name: profiling\n    value: \"false\"\n  - name: v\n    value: \"2\"\n" + volume},
	} {
		got, err := kubeadm.EditServer(row[0], edit)
		if want := strings.Replace(row[0], row[1], row[2], 1); err != nil || got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
		}
		if again, err := kubeadm.EditServer(got, edit); err != nil || again != got {
			t.Errorf("the second time it changes: %v\n%s", err, again)
		}
	}
	for _, wrong := range []string{"{", "kind: Pod", "kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\napiServer: {extraArgs: {a: b}}",
		"kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta3\napiServer: {extraArgs: [{name: a, value: b}]}"} {
		if got, err := kubeadm.EditServer(wrong, edit); err == nil {
			t.Errorf("%q became %q", wrong, got)
		}
	}
	const commented = "# by hand\nkind: ClusterConfiguration\n"
	if got, err := kubeadm.EditServer(commented, func(s *kubeadm.Server) error { s.Name("", "x"); return nil }); err != nil || got != commented {
		t.Errorf("without a change, the text becomes %q, %v", got, err)
	}
}

// configMap serves kubeadm's ConfigMap. Another client changes it before the first update.
type configMap struct {
	mu      sync.Mutex
	text    string
	updates int
	missing bool
}

func (c *configMap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	status := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
	}
	if c.missing {
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	if r.Method == http.MethodPut {
		if c.updates++; c.updates == 1 {
			c.text = strings.Replace(c.text, "clusterName: kubernetes", "clusterName: other", 1)
			status(http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		var sent corev1.ConfigMap
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &sent); err != nil {
			status(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		c.text = sent.Data[kubeadm.ConfigKey]
	}
	_ = json.NewEncoder(w).Encode(corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: kubeadm.ConfigMap, Namespace: metav1.NamespaceSystem}, Data: map[string]string{kubeadm.ConfigKey: c.text}})
}

func TestConcurrentConfigurationEditsAreMerged(t *testing.T) {
	served := &configMap{text: config136}
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	edit := func(text string) (string, error) {
		return strings.Replace(text, "10.10.0.100:6443", "lb.example:6443", 1), nil
	}
	for range 2 {
		if err := kubeadm.EditConfig(t.Context(), client, edit); err != nil {
			t.Fatal(err)
		}
	}
	c, err := kubeadm.ReadConfig(t.Context(), client)
	if err != nil || c.ControlPlaneEndpoint != "lb.example:6443" || c.ClusterName != "other" || served.updates != 2 {
		t.Errorf("after %d updates: %v\n%s", served.updates, err, c.Text)
	}
	broken := errors.New("broken")
	if err := kubeadm.EditConfig(t.Context(), client, func(string) (string, error) { return "", broken }); !errors.Is(err, broken) || served.updates != 2 {
		t.Errorf("an edit that fails: %v, %d updates", err, served.updates)
	}
	served.missing = true
	_, err = kubeadm.ReadConfig(t.Context(), client)
	if editErr := kubeadm.EditConfig(t.Context(), client, edit); !apierrors.IsNotFound(err) || !apierrors.IsNotFound(editErr) {
		t.Errorf("without a configuration: %v, %v", err, editErr)
	}
}
