package install

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

func TestClusterMatchesKurlResult(t *testing.T) {
	i := kurlInstall(t, goldpingerSpec, realAddOns(t, "goldpinger/3.11.2-1.1.2"))
	config := controlplane.ForTest(t)
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(name, config); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node"}}}
	if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := i.newKurlState(config, "sha256:aa")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second install is on the same cluster
		s.values["DOCKER_REGISTRY_IP"] = ""
		if err := s.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.values["DOCKER_REGISTRY_IP"] = "10.96.0.7"
		if err := s.finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	get := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(kubectl(t), "kubectl"), append([]string{"--kubeconfig", name, "get", "-o"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", args, out)
		}
		return string(out)
	}
	for _, row := range []struct{ path, object, want string }{
		{".metadata.name", "namespace kurl", "kurl"},
		{".spec.goldpinger.version", "installers.cluster.kurl.sh 1a2b3c4", "3.11.2-1.1.2"},
		{`.metadata.labels.velero\.io/exclude-from-backup`, "installer 1a2b3c4", "true"},
		{".data.docker_registry_ip", "-n kube-system configmap kurl-config", "10.96.0.7"},
		{".data.ca_hash", "-n kube-system configmap kurl-config", "sha256:aa"},
		{".data.addons-goldpinger", "-n kurl configmap kurl-current-config", "eyJ2ZXJzaW9uIjoiMy4xMS4yLTEuMS4yIn0="},
		{".data.addons-goldpinger", "-n kurl configmap kurl-last-config", "eyJ2ZXJzaW9uIjoiMy4xMS4yLTEuMS4yIn0="},
		{`.metadata.labels.troubleshoot\.io/kind`, "-n kurl secret kurl-supportbundle-spec", "support-bundle"},
		{".metadata.labels", "node node", `{"node-role.kubernetes.io/master":""}`},
	} {
		if got := get(append([]string{"jsonpath={" + row.path + "}"}, strings.Fields(row.object)...)...); got != row.want {
			t.Errorf("%s of %s is %q, want %q", row.path, row.object, got, row.want)
		}
	}
	found, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("kube-system").Get(t.Context(), "kurl-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(found.Object, "data")
	keys := strings.Fields("additional_no_proxy_addresses airgap bootstrap_token bootstrap_token_expiration ca_hash cert_key docker_registry_ip ha installer_id kubernetes_api_address kubernetes_cis_compliance kurl_install_directory kurl_url pod_cidr service_cidr upload_certs_expiration")
	if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, keys) {
		t.Errorf("kurl-config has the keys %v, want %v", got, keys)
	}
}

const goldpingerSpec = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4}
spec:
  goldpinger: {version: 3.11.2-1.1.2}
`
