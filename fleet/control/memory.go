package control

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/scene"
)

// memory keeps what rollouts remember, in a ConfigMap of the hub's namespace for each add-on. Only the hub that decides
// writes it. It reads it once and then knows what it wrote.
type memory struct {
	*controllers

	mu    sync.Mutex
	known map[string]*corev1.ConfigMap
}

func newMemory(c *controllers) *memory {
	return &memory{controllers: c, known: make(map[string]*corev1.ConfigMap)}
}

// recall returns what is remembered of an add-on.
func (m *memory) recall(ctx context.Context, addOn string) (scene.States, error) {
	m.mu.Lock()
	kept := m.known[addOn]
	m.mu.Unlock()
	if kept == nil {
		kept = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: scene.StatesName(addOn), Namespace: m.hub.Namespace}}
		err := m.hub.GetAPIReader().Get(ctx, types.NamespacedName{Namespace: kept.Namespace, Name: kept.Name}, kept)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read what is remembered of the rollout of %s: %w", addOn, err)
		}
		m.keep(addOn, kept)
	}
	all, errs := scene.ReadStates(kept.Data)
	for _, err := range errs {
		m.log.WarnContext(ctx, "a rollout begins again: what was remembered of it cannot be read", "addon", addOn, "error", err)
	}
	return all, nil
}

// remember stores the states of the placements that the add-on has.
func (m *memory) remember(ctx context.Context, addOn *ocm.ClusterManagementAddOn, all scene.States) error {
	data, err := all.Data(addOn)
	if err != nil {
		return err
	}
	m.mu.Lock()
	kept := m.known[addOn.Name]
	m.mu.Unlock()
	if maps.Equal(kept.Data, data) {
		return nil
	}
	next := kept.DeepCopy()
	next.Data = data
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: ocm.AddOnVersion.String(), Kind: "ClusterManagementAddOn", Name: addOn.Name, UID: addOn.UID}}
	if kept.ResourceVersion == "" {
		err = m.Create(ctx, next)
	} else {
		err = m.Update(ctx, next)
	}
	if err != nil {
		m.forget(addOn.Name) // somebody else may have written it
		return fmt.Errorf("remember the rollout of %s: %w", addOn.Name, err)
	}
	m.keep(addOn.Name, next)
	return nil
}

func (m *memory) keep(addOn string, kept *corev1.ConfigMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[addOn] = kept
}

// forget makes the next recall read again.
func (m *memory) forget(addOn string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, addOn)
}
