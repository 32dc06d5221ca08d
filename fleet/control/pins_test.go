package control

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/hub"
)

// configStore has one ConfigMap, and no add-ons.
type configStore struct {
	client.Client
	stored *corev1.ConfigMap
}

func (s *configStore) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if s.stored == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	}
	s.stored.DeepCopyInto(o.(*corev1.ConfigMap)) //nolint:forcetypeassert // nothing else is read
	return nil
}

func (s *configStore) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return nil
}

func (s *configStore) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.stored = o.DeepCopyObject().(*corev1.ConfigMap) //nolint:forcetypeassert // nothing else is written
	s.stored.ResourceVersion = "1"
	return nil
}

func (s *configStore) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	return s.Create(ctx, o)
}

// TestStoredPinsHold uses two that looked up images of one template at once, for different configurations.
func TestStoredPinsHold(t *testing.T) {
	s := &configStore{}
	i := newImages(&controllers{Client: s, direct: s, hub: &hub.Hub{Namespace: "fleet"}})
	a := &agent{template: &unstructured.Unstructured{}, hash: "h"}
	a.template.SetName("tools")
	a.template.SetUID("uid")
	for _, digests := range []map[string]string{{"first": "1"}, {"first": "2", "second": "2"}} {
		if err := i.write(t.Context(), a, pins{Digests: digests}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"first": "1", "second": "2"}
	stored, found, err := i.read(t.Context(), a)
	if known, _ := i.known.get(a.key()); err != nil || !found || !maps.Equal(stored.Digests, want) || !maps.Equal(known.Digests, want) {
		t.Errorf("stored are %v, known %v, %v", stored, known, err)
	}
}
