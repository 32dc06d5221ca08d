package upgrade

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/preflight"
)

// TestStuckPodsAreNamed has pods that start, that end again and again, that are on no node, and that are done.
func TestStuckPodsAreNamed(t *testing.T) {
	c, client := opened(t)
	check := preflight.Check{Name: "pods", Probe: c.stuckPods}
	wantResult(t, results(t, check), preflight.Pass, "none is stuck")
	waits := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
	}
	done := waits("CrashLoopBackOff")
	done.Phase = corev1.PodFailed
	init := corev1.PodStatus{InitContainerStatuses: waits("CrashLoopBackOff").ContainerStatuses}
	for name, row := range map[string]struct {
		node   string
		status corev1.PodStatus
	}{
		"starts": {"host-1", waits("ContainerCreating")}, "crashes": {"host-1", waits("CrashLoopBackOff")}, "nowhere": {"", waits("ImagePullBackOff")},
		"done": {"host-1", done}, "init": {"host-2", init},
	} {
		pods := client.CoreV1().Pods("default")
		made, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: row.node, Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status = row.status
		if _, err := pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wantResult(t, results(t, check), preflight.Fail, "all its pods are Ready: default/crashes on host-1 (CrashLoopBackOff), default/init on host-2 (CrashLoopBackOff)")
	c.begun = &State{}
	wantResult(t, results(t, check), preflight.Warn, "do not start: default/crashes on host-1 (CrashLoopBackOff)")
}
