package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKubeletIsReadyWhenStaticPodsAre(t *testing.T) {
	pod := func(name, source string, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kubernetes.io/config.source": source}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready}}}}
	}
	started := pod("etcd-a", "file", corev1.ConditionTrue)
	started.Status = corev1.PodStatus{} // as a freshly started kubelet lists it
	for _, row := range []struct {
		pods []corev1.Pod
		want string
	}{
		{nil, "the kubelet has not read their manifests yet"},
		{[]corev1.Pod{pod("web", "api", corev1.ConditionTrue)}, "the kubelet has not read their manifests yet"},
		{[]corev1.Pod{started, pod("kube-apiserver-a", "file", corev1.ConditionFalse), pod("kube-scheduler-a", "file", corev1.ConditionTrue)}, "etcd-a, kube-apiserver-a"},
		{[]corev1.Pod{pod("etcd-a", "file", corev1.ConditionTrue), pod("web", "api", corev1.ConditionFalse)}, ""},
	} {
		if got := unready(row.pods); got != row.want {
			t.Errorf("%q instead of %q", got, row.want)
		}
	}
}
