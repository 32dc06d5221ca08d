// Package ensure creates objects that have to exist, and edits ConfigMaps, with typed clients, which the engine does not link.
package ensure

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Namespace makes a namespace unless there is one.
func Namespace(ctx context.Context, client corev1client.NamespacesGetter, name string) error {
	_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
