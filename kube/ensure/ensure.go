// Package ensure creates objects that have to exist, and edits ConfigMaps, with typed clients, which the engine does not link.
package ensure

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

// Namespace makes a namespace unless there is one.
func Namespace(ctx context.Context, client corev1client.NamespacesGetter, name string) error {
	_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// EditConfigMap changes the data of a ConfigMap. edit reports whether it changed the data that it gets; it is called again if the
// ConfigMap changes in the meantime. Without a ConfigMap, the error is the API's (apierrors.IsNotFound).
func EditConfigMap(ctx context.Context, client corev1client.ConfigMapsGetter, namespace, name string, edit func(data map[string]string) (changed bool, err error)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if found.Data == nil {
			found.Data = map[string]string{}
		}
		if changed, err := edit(found.Data); err != nil || !changed {
			return err
		}
		_, err = client.ConfigMaps(namespace).Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}
