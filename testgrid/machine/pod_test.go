package machine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/machine"
)

// TestUnbootablePodsAreRemoved uses an image without systemd: its pods end at once. Pods that boot are for testgrid/airgap to show.
func TestUnbootablePodsAreRemoved(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	plane := controlplane.StartForTest(t, controlplane.Options{Jobs: true})
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	const namespace = "machines"
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err := errors.Join(err, controlplane.MakeNode(t.Context(), client, "node-1", nil, 10)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []*corev1.Pod
	node := &controlplane.Kubelet{Client: client, Namespace: namespace, Run: func(_ context.Context, pod *corev1.Pod) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, pod)
		return errors.New("no such file: /sbin/init")
	}}
	node.Start(t)
	hosts, err := machine.Parse("hosts.yaml", []byte("systems: {x: {kubernetes: {image: example.org/host:1, namespace: "+namespace+"}}}\n"),
		machine.Options{Connect: func(string) (*rest.Config, error) { return plane.Config(), nil }})
	k := kind(t, hosts, err)
	if err := hosts.CheckPods([]string{"x"}); err == nil || !strings.Contains(err.Error(), "pods themselves") {
		t.Errorf("got %v", err)
	}
	_, err = k.Make(t.Context(), machine.Request{System: "x", Count: 2, CPU: 3, Memory: 1 << 30, Airgap: true, Owner: "one"})
	if err == nil || !strings.Contains(err.Error(), "ended before it was up: Error with exit code 1") || !strings.Contains(err.Error(), "does the image example.org/host:1 have systemd?") {
		t.Errorf("got %v", err)
	}
	left := func() (names []string) {
		pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			names = append(names, pod.Name)
		}
		return names
	}
	if names := left(); len(names) > 0 {
		t.Errorf("pods are left: %q", names)
	}
	mu.Lock()
	for _, pod := range seen {
		first := pod.Spec.Containers[0]
		if !*first.SecurityContext.Privileged || first.Resources.Requests.Cpu().Value() != 3 || first.Resources.Requests.Memory().Value() != 1<<30 || len(first.VolumeMounts) != 4 || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("the pod is %+v", pod.Spec)
		}
	}
	mu.Unlock()

	for name, labels := range map[string]map[string]string{"mine": {"sealift.dev/testgrid-owner": "one"}, "theirs": {"sealift.dev/testgrid-owner": "two"}, "other": nil} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: "elsewhere", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		owner string
		want  []string
	}{{"one", []string{"other", "theirs"}}, {"", []string{"other"}}} {
		if err := k.Clean(t.Context(), row.owner); err != nil {
			t.Fatal(err)
		}
		if names := left(); !slices.Equal(names, row.want) {
			t.Errorf("after the clean-up of %q: %q, want %q", row.owner, names, row.want)
		}
	}
}
