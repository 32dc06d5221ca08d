package controlplane_test

import (
	"net"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
)

func TestServerStoresObjectsAndReportsVersion(t *testing.T) {
	client := clientFor(t, controlplane.ForTest(t))
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != controlplane.DefaultVersion() {
		t.Errorf("server says it is %s, want %s", version.GitVersion, controlplane.DefaultVersion())
	}
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Data: map[string]string{"text": "hello"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), want, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "greeting", metav1.GetOptions{})
	if err != nil || got.Data["text"] != "hello" {
		t.Errorf("read back %v, %v", got.Data, err)
	}
}

func TestPodsAreAdmittedWithoutControllers(t *testing.T) {
	client := clientFor(t, controlplane.ForTest(t))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:" + releases.Current("kubernetes").With["pause"]}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAnonymousUserCannotWrite(t *testing.T) {
	config := rest.AnonymousClientConfig(controlplane.ForTest(t))
	_, err := clientFor(t, config).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err == nil {
		t.Error("an anonymous client made a namespace")
	}
}

func TestStopIsRepeatable(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	c, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	address, err := url.Parse(c.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", address.Host); err == nil {
		conn.Close()
		t.Errorf("something still listens on %s", address.Host)
	}
}

func TestUnknownReleaseIsNamed(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	_, err := controlplane.Start(t.Context(), controlplane.Options{Version: "v0.0.1"})
	if err == nil {
		t.Fatal("started a release that does not exist")
	}
	const want = `the lab knows no component "kubernetes-v0.0.1"`
	if err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
