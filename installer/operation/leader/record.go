package leader

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Record is the name of a ConfigMap in kube-system that describes work on all nodes, so that every control plane knows of it. It
// has no secrets.
type Record string

// The records. They are removed when the work ends, except the one of upgrades, which stays.
const (
	UpgradeRecord      Record = "sealift-upgrade"
	CARecord           Record = "sealift-rotation"
	KeysRecord         Record = "sealift-encryption"
	LoadBalancerRecord Record = "sealift-load-balancer"
)

// Read returns the data of the record; known is false if there is none.
func (r Record) Read(ctx context.Context, client kubernetes.Interface) (data map[string]string, known bool, err error) {
	found, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, string(r), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("ConfigMap kube-system/%s: %w", r, err)
	}
	return found.Data, true, nil
}

// Write makes the record, or replaces its data.
func (r Record) Write(ctx context.Context, client kubernetes.Interface, data map[string]string) error {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: string(r)}, Data: data}
	_, err := maps.Create(ctx, own, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(ctx, own, metav1.UpdateOptions{})
	}
	return err
}

// Forget removes the record.
func (r Record) Forget(ctx context.Context, client kubernetes.Interface) error {
	err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, string(r), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
