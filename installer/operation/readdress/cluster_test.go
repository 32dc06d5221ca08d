package readdress

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// What kubeadm writes to a cluster whose nodes reach the API at the address of its control plane.
const (
	clusterConfiguration = `apiServer:
  certSANs:
  - 10.10.0.1
  - 10.10.0.11
apiVersion: kubeadm.k8s.io/v1beta4
controlPlaneEndpoint: 10.10.0.1:6443
etcd:
  local:
    dataDir: /var/lib/etcd
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking:
  dnsDomain: cluster.local
  podSubnet: 10.32.0.0/20
  serviceSubnet: 10.96.0.0/12
`
	clusterInfo = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: TA==
    server: https://10.10.0.1:6443
  name: ""
kind: Config
`
)

// TestClusterLearnsNewAddress uses a real API server.
func TestClusterLearnsNewAddress(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	configs := map[string]string{"kube-system/kubeadm-config": clusterConfiguration, "kube-public/cluster-info": clusterInfo, "kube-system/kube-proxy": "clusterCIDR: 10.32.0.0/20\n"}
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespacePublic} {
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for name, text := range configs {
		namespace, name, _ := strings.Cut(name, "/")
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": text}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	tell := func(line string) { told = append(told, line) }
	for range 2 { // the second time nothing is left to do
		if err := configure(ctx, client, change, tell); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 {
		t.Errorf("changed are %q", told)
	}
	for name, text := range configs {
		namespace, name, _ := strings.Cut(name, "/")
		config, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.NewReplacer("10.10.0.1\n", "10.20.0.7\n", "10.10.0.1:", "10.20.0.7:").Replace(text); config.Data["text"] != want {
			t.Errorf("%s has\n%s", name, config.Data["text"])
		}
	}

	node := makeNode(t, client, change.From.String())
	if err := nodeHas(ctx, client, node.Name, change.To); err == nil || !strings.Contains(err.Error(), "has not told the new address") {
		t.Errorf("before: %v", err)
	}
	node.Status.Addresses[0].Address = change.To.String()
	if node, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := nodeHas(ctx, client, node.Name, change.To); err == nil || !strings.Contains(err.Error(), "not Ready") {
		t.Errorf("not Ready: %v", err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := nodeHas(ctx, client, node.Name, change.To); err != nil {
		t.Error(err)
	}
	podsOfTheHostAreRestarted(t, client, node.Name)
}

func makeNode(t *testing.T, client kubernetes.Interface, address string) *corev1.Node {
	t.Helper()
	n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}}, metav1.CreateOptions{})
	if err == nil {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// podsOfTheHostAreRestarted makes pods of each kind: only those that something makes again, and that have the old address, go.
func podsOfTheHostAreRestarted(t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	owned := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x", UID: "1"}}
	for name, row := range map[string]struct {
		hostNetwork bool
		owners      []metav1.OwnerReference
		address     string
		annotations map[string]string
	}{
		"proxy":   {true, owned, "10.10.0.1", nil},
		"again":   {true, owned, "10.20.0.7", nil},
		"network": {false, owned, "10.32.0.4", nil},
		"alone":   {true, nil, "10.10.0.1", nil},
		"static":  {true, owned, "10.10.0.1", map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: row.owners, Annotations: row.annotations},
			Spec: corev1.PodSpec{NodeName: node, HostNetwork: row.hostNetwork, Containers: []corev1.Container{{Name: "x", Image: "x"}}, TerminationGracePeriodSeconds: new(int64)}}
		pods := client.CoreV1().Pods(metav1.NamespaceDefault)
		p, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
		if err == nil {
			p.Status.PodIP, p.Status.PodIPs = row.address, []corev1.PodIP{{IP: row.address}}
			_, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	if err := restartPods(context.WithoutCancel(t.Context()), client, node, change.From, func(line string) { told = append(told, line) }); err != nil {
		t.Fatal(err)
	}
	left, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range left.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"again", "alone", "network", "static"}) || len(told) != 2 {
		t.Errorf("left are %v; told: %q", names, told)
	}
}
