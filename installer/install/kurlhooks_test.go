package install

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

const realSpec = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4}
spec:
  certManager: {version: 1.21.0}
  contour: {version: 1.32.1, httpPort: 30080, httpsPort: 30443} # this API server has Kubernetes' own range of node ports
  metricsServer: {version: 0.8.1}
  goldpinger: {version: 3.11.2-1.1.2}
`

// TestKurlHooksSucceed runs the hooks of kURL's own files with a real API server. No node runs the pods there, so
// the test reports Deployments and Services as ready instead of a cluster's controllers.
func TestKurlHooksSucceed(t *testing.T) {
	i := kurlInstall(t, realSpec, realAddOns(t, "cert-manager/1.21.0", "contour/1.32.1", "metrics-server/0.8.1", "goldpinger/3.11.2-1.1.2"))
	config, err := clientcmd.BuildConfigFromFlags("", i.hooks.variables["KUBECONFIG"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kurl"}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	reported := make(chan error, 1)
	go func() { reported <- reportReady(ctx, client) }()
	var journal []lifecycle.State
	for _, suffix := range []string{"_pre_init", "", "_post_init", "_outro"} {
		i.runHooks(t, suffix, &journal)
	}
	stop()
	if err := <-reported; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for object, want := range map[string]string{
		"deployment/cert-manager -n cert-manager":                 "quay.io/jetstack/cert-manager-controller:v1.21.0",
		"deployment/contour -n projectcontour":                    "ghcr.io/projectcontour/contour:v1.32.1",
		"deployment/metrics-server -n kube-system":                "registry.k8s.io/metrics-server/metrics-server:v0.8.1",
		"daemonset/goldpinger -n kurl":                            "bloomberg/goldpinger:3.11.2",
		"secret/kurl-goldpinger-supportbundle-spec -n kurl":       "",
		"customresourcedefinition/certificates.cert-manager.io":   "",
		"configmap/contour -n projectcontour":                     "",
		"apiservice/v1beta1.metrics.k8s.io":                       "",
		"mutatingwebhookconfiguration/cert-manager-webhook":       "",
		"clusterrolebinding/metrics-server:system:auth-delegator": "",
	} {
		args := append([]string{"--kubeconfig", i.hooks.variables["KUBECONFIG"], "get", "-o", "jsonpath={.spec.template.spec.containers[0].image}"}, strings.Fields(object)...)
		out, err := exec.CommandContext(t.Context(), filepath.Join(kubectl(t), "kubectl"), args...).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", object, out, err, want)
		}
	}
}

// reportReady reports all Deployments as running, and all Services as having an endpoint, until ctx ends.
func reportReady(ctx context.Context, client clientset.Interface) error {
	for {
		deployments, err := client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range deployments.Items {
			if n := *d.Spec.Replicas; d.Status.ReadyReplicas != n || d.Status.ObservedGeneration != d.Generation {
				d.Status.ObservedGeneration = d.Generation
				d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n, n, n
				_, _ = client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{}) // tried again below
			}
		}
		services, err := client.CoreV1().Services("kurl").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, s := range services.Items {
			endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, //nolint:staticcheck // kURL's functions read these
				Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}, Ports: []corev1.EndpointPort{{Port: 80}}}}}
			_, _ = client.CoreV1().Endpoints(s.Namespace).Create(ctx, endpoints, metav1.CreateOptions{}) // may already exist
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
