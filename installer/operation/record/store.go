package record

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

// ConfigMap is the name of the one with the Records, in kube-system. Each key is a kind, its value a Record in JSON. It is removed with
// the last Record.
const ConfigMap = "sealift-operations"

// Store has the Records of a cluster. Client has the rights of an administrator.
type Store struct{ Client kubernetes.Interface }

// Read returns all Records, including those that an earlier sealift wrote.
func (s Store) Read(ctx context.Context) (All, error) {
	k, err := s.read(ctx)
	return k.all, err
}

// Change changes the Records. change is called again with the current ones if they change in the meantime. Nothing is written if it
// returns an error or changes nothing. The Records of earlier sealifts that it changes become Records of this one.
func (s Store) Change(ctx context.Context, change func(All) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		k, err := s.read(ctx)
		if err != nil {
			return err
		}
		before := maps.Clone(k.all)
		if err := change(k.all); err != nil {
			return err
		}
		if reflect.DeepEqual(before, k.all) {
			return nil
		}
		if err := s.remove(ctx, k.stale); err != nil { // before the Record goes that replaced them
			return err
		}
		data, replaced := map[string]string{}, slices.Collect(maps.Values(k.earlier))
		for kind, r := range k.all {
			if name := k.earlier[kind]; name != "" && reflect.DeepEqual(before[kind], r) {
				replaced = slices.DeleteFunc(replaced, func(n string) bool { return n == name })
				continue // it is not changed
			}
			text, err := json.Marshal(r)
			if err != nil {
				return err
			}
			data[kind] = string(text)
		}
		if err := s.write(ctx, k.found, data); err != nil {
			return err
		}
		return s.remove(ctx, replaced)
	})
}

func (s Store) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := s.maps().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove ConfigMap %s/%s: %w", metav1.NamespaceSystem, name, err)
		}
	}
	return nil
}

func (s Store) maps() corev1client.ConfigMapInterface {
	return s.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
}

// write replaces the ConfigMap that was found, nil for none. A conflict is the API's error.
func (s Store) write(ctx context.Context, found *corev1.ConfigMap, data map[string]string) (err error) {
	switch {
	case found == nil && len(data) == 0:
	case found == nil:
		_, err = s.maps().Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMap, Labels: map[string]string{"app.kubernetes.io/managed-by": "sealift"}}, Data: data}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = apierrors.NewConflict(corev1.Resource("configmaps"), ConfigMap, err)
		}
	case len(data) == 0:
		err = s.maps().Delete(ctx, ConfigMap, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &found.ResourceVersion}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
	default:
		found.Data = data
		_, err = s.maps().Update(ctx, found, metav1.UpdateOptions{})
	}
	return err
}

// kept is the stored state of a cluster: all Records, their ConfigMap, nil for none, and the ConfigMaps of an earlier sealift: by
// the kinds of their Records, and those for which there is a Record already.
type kept struct {
	all     All
	found   *corev1.ConfigMap
	earlier map[string]string
	stale   []string
}

func (s Store) read(ctx context.Context) (k kept, err error) {
	k = kept{all: All{}, earlier: map[string]string{}}
	if k.found, err = s.get(ctx, ConfigMap); err != nil {
		return k, err
	}
	if k.found != nil {
		for kind, text := range k.found.Data {
			var r Record
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return k, fmt.Errorf("ConfigMap %s/%s: %s: %w; remove that key, and run the command again", metav1.NamespaceSystem, ConfigMap, kind, err)
			}
			r.Kind = kind
			k.all[kind] = r
		}
	}
	for kind, e := range earlier {
		m, err := s.get(ctx, e.name)
		if err != nil {
			return k, err
		}
		if m == nil {
			continue
		}
		if _, is := k.all[kind]; is {
			k.stale = append(k.stale, e.name)
			continue
		}
		r, known, err := e.convert(m.Data)
		if err != nil {
			return k, fmt.Errorf("ConfigMap %s/%s: %w", metav1.NamespaceSystem, e.name, err)
		}
		if known {
			r.Kind = kind
			k.all[kind], k.earlier[kind] = r, e.name
		}
	}
	return k, nil
}

func (s Store) get(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	found, err := s.maps().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", metav1.NamespaceSystem, name, err)
	}
	return found, nil
}
