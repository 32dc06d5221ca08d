package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/preflight"
)

// stuckReasons are those for which a container waits that does not start by itself.
var stuckReasons = []string{"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// stuckPods finds pods that will not become ready: a node is done when all its pods are, so that the upgrade would stop at it.
func (c *Cluster) stuckPods(ctx context.Context, r *preflight.Reporter) {
	pods, err := c.admin.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Refusef("run the command again", "%v", err)
		return
	}
	var stuck []string
	for _, pod := range pods.Items {
		if why := stuckFor(pod); why != "" {
			stuck = append(stuck, fmt.Sprintf("%s/%s on %s (%s)", pod.Namespace, pod.Name, pod.Spec.NodeName, why))
		}
	}
	slices.Sort(stuck)
	switch {
	case len(stuck) == 0:
		r.Passf("none is stuck")
	case c.begun != nil: // it may have been in the middle of one
		r.Warnf("repair or delete them if they stay so", "do not start: %s", strings.Join(stuck, ", "))
	default:
		r.Refusef("repair or delete them, or scale what makes them to 0; what only lost the API, as after an undo, starts again within minutes", "do not start, and a node is done when all its pods are Ready: %s", strings.Join(stuck, ", "))
	}
}

// stuckFor returns why a pod of a node does not start, or "".
func stuckFor(pod corev1.Pod) string {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waits := status.State.Waiting; waits != nil && slices.Contains(stuckReasons, waits.Reason) {
			return waits.Reason
		}
	}
	return ""
}
