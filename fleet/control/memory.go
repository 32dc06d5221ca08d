package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
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

// states has the state of each placement of an add-on.
type states map[ocm.ConfigObject]rollout.State

// recall returns what is remembered of an add-on.
func (m *memory) recall(ctx context.Context, addOn string) (states, error) {
	m.mu.Lock()
	kept := m.known[addOn]
	m.mu.Unlock()
	if kept == nil {
		kept = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rollout." + addOn, Namespace: m.hub.Namespace}}
		err := m.hub.GetAPIReader().Get(ctx, types.NamespacedName{Namespace: kept.Namespace, Name: kept.Name}, kept)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read what is remembered of the rollout of %s: %w", addOn, err)
		}
		m.keep(addOn, kept)
	}
	all := make(states)
	for key, text := range kept.Data {
		var state rollout.State
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			m.log.WarnContext(ctx, "a rollout begins again: what was remembered of it cannot be read", "addon", addOn, "placement", key, "error", err)
			continue
		}
		namespace, name, _ := strings.Cut(key, ".") // a namespace has no dot
		all[ocm.ConfigObject{Namespace: namespace, Name: name}] = state
	}
	return all, nil
}

// remember stores the states of the placements that the add-on has.
func (m *memory) remember(ctx context.Context, addOn *ocm.ClusterManagementAddOn, all states) error {
	data := make(map[string]string)
	for _, p := range addOn.Spec.InstallStrategy.Placements {
		state, found := all[p.ConfigObject]
		if !found || len(state.Targets) == 0 {
			continue // a state without targets says nothing
		}
		text, err := json.Marshal(state)
		if err != nil {
			return err
		}
		data[p.Namespace+"."+p.Name] = string(text)
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
	var err error
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
