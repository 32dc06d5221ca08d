package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host"
)

// kurlObjects are the Installer that kURL leaves in a cluster, with its kind.
const kurlObjects = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: installers.cluster.kurl.sh}
spec:
  group: cluster.kurl.sh
  scope: Namespaced
  names: {kind: Installer, listKind: InstallerList, plural: installers, singular: installer}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: kurl}
---
apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4, namespace: default}
spec: {kubernetes: {version: 1.35.4}, containerd: {version: 2.2.1}, flannel: {version: 0.26.7}}
`

// planOfAdopt plans on a cluster of kURL whose only node is this host, and then adopts it.
func planOfAdopt(t *testing.T) {
	h := newPlanHost(t)
	if code, out := h.sealift("", "adopt", "--plan", "--root", "node"); code != app.ExitRefused || !strings.Contains(out, "not a node of a cluster") {
		t.Errorf("on a host of no cluster: exit code %d\n%s", code, out)
	}
	kubeconfig := settled(t)
	if code, out := h.sealift(kurlObjects, "apply", "-f", "-", "--set", "kurl", "--kubeconfig", kubeconfig); code != app.ExitDone {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	h.made(err)
	client, err := kubernetes.NewForConfig(config)
	h.made(err)
	name, err := host.Name()
	h.made(err)
	own, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}, metav1.CreateOptions{})
	h.made(err)
	own.Status.NodeInfo.KubeletVersion, own.Status.NodeInfo.ContainerRuntimeVersion = "v1.35.4", "containerd://2.2.1"
	own.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), own, metav1.UpdateOptions{})
	h.made(err)
	for place, data := range map[string]map[string]string{
		"kube-system/kubeadm-config": {"ClusterConfiguration": "kubernetesVersion: v1.35.4\ncontrolPlaneEndpoint: 10.0.0.1:6443\nnetworking: {podSubnet: 10.32.0.0/20, serviceSubnet: 10.96.0.0/22}\n"},
		"kube-system/kurl-config":    {"installer_id": "1a2b3c4"},
		"kurl/kurl-current-config":   {"addons-flannel": "eyJ2ZXJzaW9uIjoiMC4yNi43In0="},
	} {
		namespace, name, _ := strings.Cut(place, "/")
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		h.made(err)
	}
	text, err := os.ReadFile(kubeconfig)
	h.made(err)
	h.write("etc/kubernetes/admin.conf", string(text))
	h.write("etc/kubernetes/kubelet.conf", string(text))
	h.write("etc/kubernetes/manifests/kube-apiserver.yaml", "metadata:\n  annotations:\n    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 127.0.0.1:6443\n")
	h.write("var-lib/kurl/addons/flannel/0.26.7/install.sh", "")
	for _, format := range []string{"text", "json"} {
		out := h.planned("", []string{"adopt", "--plan", "--yes", "--root", "node", "-o", format}, func() map[string]string { return everything(t, kubeconfig) })
		for _, want := range []string{"made by kURL, with the Installer 1a2b3c4", "10.32.0.0/20", "/var/lib/kurl", "flannel/install", "kubernetes/init", "node/agent", "kubernetes/approval"} {
			if !strings.Contains(out, want) {
				t.Errorf("the plan lacks %q:\n%s", want, out)
			}
		}
	}
	h.adopted(kubeconfig)
}

// adopted adopts the node. The start of a service fails at first; the same command resumes, and then has nothing to do.
func (h *planHost) adopted(kubeconfig string) {
	h.Helper()
	h.write("usr-local/bin/systemctl", "#!/bin/sh\ncase \"$* $(ls /usr/local/broken 2>&1)\" in 'enable sealift-agent.service /usr/local/broken') exit 1;; esac\n")
	h.write("usr-local/broken", "")
	h.made(os.MkdirAll(filepath.Join(h.dir, "etc/systemd/system"), 0o755))
	adopt := []string{"adopt", "--yes", "--root", "node"}
	if code, out := h.sealift("", adopt...); code != app.ExitFailed || !strings.Contains(out, "step node/agent") || !strings.Contains(out, "continue with: sudo sealift adopt") {
		h.Errorf("with a service that does not start: exit code %d\n%s", code, out)
	}
	h.made(os.Remove(filepath.Join(h.dir, "usr-local/broken")))
	if code, out := h.sealift("", adopt...); code != app.ExitDone || !strings.Contains(out, "this node is adopted") || strings.Contains(out, "node/share: serve") {
		h.Errorf("when it starts: exit code %d\n%s", code, out)
	}
	after := everything(h.T, kubeconfig)
	if code, out := h.sealift("", adopt...); code != app.ExitDone || !strings.Contains(out, "nothing to do") || !maps.Equal(after, everything(h.T, kubeconfig)) {
		h.Errorf("once more: exit code %d\n%s", code, out)
	}
	if after["object v1 configmaps kube-system/addon-flannel"] == "" {
		h.Error("nobody owns flannel")
	}
	if _, out := h.sealift("", "status", "--root", "node"); !strings.Contains(out, "node     installed") || !strings.Contains(out, "flannel") || !strings.Contains(out, "1.35.4") || strings.Contains(out, "by this node itself") {
		h.Errorf("status:\n%s", out)
	}
	if _, out := h.sealift("", "reset", "--plan", "--root", "node"); !strings.Contains(out, "sealift-agent.service") || !strings.Contains(out, "/etc/kubernetes") {
		h.Errorf("a reset would do:\n%s", out)
	}
	for name, want := range map[string]string{"state/installer.yaml": "flannel", "state/run.json": "1a2b3c4", "state/journal.jsonl": `"operation":"adopt","step":"kubernetes/init"`} {
		if text, err := os.ReadFile(filepath.Join(h.dir, "work/node", name)); err != nil || !strings.Contains(string(text), want) {
			h.Errorf("%s lacks %q: %v\n%s", name, want, err, text)
		}
	}
}
