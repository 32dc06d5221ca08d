package rotation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/kube"
)

// Holder is a workload whose pods may have the old CA, and tokens of the old key, in their memory; or one such pod that belongs to no
// workload that can be restarted.
type Holder struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (h Holder) String() string { return fmt.Sprintf("%s %s/%s", h.Kind, h.Namespace, h.Name) }

// The kinds that can be restarted.
const (
	deployment  = "Deployment"
	daemonSet   = "DaemonSet"
	statefulSet = "StatefulSet"
)

func (h Holder) restarts() bool {
	return slices.Contains([]string{deployment, daemonSet, statefulSet}, h.Kind)
}

// holders finds the pods that were started before a time and ask the API, and names what made them.
func holders(ctx context.Context, client kubernetes.Interface, before time.Time) (all []Holder, err error) {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	for _, p := range pods.Items {
		if !holds(&p, before) {
			continue
		}
		h, err := ownerOf(ctx, client, &p)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b Holder) int { return cmp.Compare(a.String(), b.String()) })
	return all, nil
}

func holds(p *corev1.Pod, before time.Time) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || !p.CreationTimestamp.Time.Before(before) {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

func ownerOf(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) (Holder, error) {
	h := Holder{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return h, nil
	}
	if owner.Kind == "ReplicaSet" {
		set, err := client.AppsV1().ReplicaSets(p.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return h, nil
		}
		if err != nil {
			return h, err
		}
		owner = metav1.GetControllerOf(set)
	}
	if owner != nil {
		if of := (Holder{owner.Kind, p.Namespace, owner.Name}); of.restarts() {
			return of, nil
		}
	}
	return h, nil
}

// restart restarts the workloads that hold something old, and waits until none does.
func (r *Rotation) restart(ctx context.Context) error {
	var left []Holder
	err := kube.Poll(ctx, r.pause, func(ctx context.Context) error {
		client, err := r.client()
		if err == nil {
			left, err = holders(ctx, client, *r.state.Signed)
		}
		if err != nil || len(left) == 0 {
			return err
		}
		for _, h := range left {
			if err := restartWorkload(ctx, client, h, r.state.Signed.Format(time.RFC3339)); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return kube.NotYet(errors.New("their pods still run"))
	})
	if err != nil {
		return fmt.Errorf("these have not been restarted: %v: %w; see 'kubectl rollout status'", left, err)
	}
	return nil
}

// restartWorkload does what 'kubectl rollout restart' does. The same time again changes nothing.
func restartWorkload(ctx context.Context, client kubernetes.Interface, h Holder, at string) (err error) {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, at)
	apps, o := client.AppsV1(), metav1.PatchOptions{}
	switch h.Kind {
	case deployment:
		_, err = apps.Deployments(h.Namespace).Patch(ctx, h.Name, types.StrategicMergePatchType, patch, o)
	case daemonSet:
		_, err = apps.DaemonSets(h.Namespace).Patch(ctx, h.Name, types.StrategicMergePatchType, patch, o)
	case statefulSet:
		_, err = apps.StatefulSets(h.Namespace).Patch(ctx, h.Name, types.StrategicMergePatchType, patch, o)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
