package controlplane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
)

// TestIndexedJobCompletes uses a node with room for two pods, and a Job of five indexes. The test plays the kubelet.
func TestIndexedJobCompletes(t *testing.T) {
	t.Parallel()
	short.Skip(t, "a kube-apiserver")
	c := controlplane.StartForTest(t, controlplane.Options{Jobs: true})
	client := clientFor(t, c.Config())
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2"), corev1.ResourceCPU: resource.MustParse("2")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	made, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Spec.Taints = nil // not-ready, which the admission adds and a controller would remove
	if made, err = client.CoreV1().Nodes().Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	made.Status = node.Status
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	indexes, parallel, mode := int32(5), int32(5), batchv1.IndexedCompletion
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "grid"}, Spec: batchv1.JobSpec{Completions: &indexes, Parallelism: &parallel, CompletionMode: &mode,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "test", Image: "example.org/test:1"}}}}}}
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	most := 0
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		running, err := finishPods(ctx, client)
		most = max(most, running)
		if err != nil {
			return false, err
		}
		job, err := client.BatchV1().Jobs("default").Get(ctx, "grid", metav1.GetOptions{})
		return err == nil && job.Status.CompletedIndexes == "0-4", err
	})
	if err != nil || most == 0 || most > 2 {
		t.Errorf("the Job did not end, or %d pods were on a node for two: %v", most, err)
	}
}

// finishPods ends the pods that have a node, as a kubelet would, and counts them.
func finishPods(ctx context.Context, client *kubernetes.Clientset) (running int, err error) {
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		running++
		pod.Status.Phase = corev1.PodSucceeded
		_, updateErr := client.CoreV1().Pods("default").UpdateStatus(ctx, &pod, metav1.UpdateOptions{})
		err = errors.Join(err, updateErr)
	}
	return running, err
}
