package control

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
)

// rolloutStates keeps the states of rollouts, in a ConfigMap of the hub's namespace for each add-on. Only the hub that decides writes
// it. Its memory saves all but one read of each ConfigMap, and all but one write per rememberLater of rediscoverable state ("-only
// fleet" of internal/testing/bench counts both).
type rolloutStates struct {
	*controllers
	memory[string, *remembered]
}

// remembered has the stored and the current states of an add-on's rollouts.
type remembered struct {
	config *corev1.ConfigMap
	stored inventory.States // in the ConfigMap
	states inventory.States // now
	wrote  time.Time
}

// rememberLater is how long the hub may wait before it stores state that it could rediscover.
const rememberLater = 10 * time.Second

// recall returns the states of an add-on's rollouts.
func (m *rolloutStates) recall(ctx context.Context, addOn string) (inventory.States, error) {
	kept, found := m.get(addOn)
	if !found {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: inventory.StatesName(addOn), Namespace: m.hub.Namespace}}
		err := m.hub.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(config), config)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read the state of the rollout of %s: %w", addOn, err)
		}
		all, errs := inventory.ReadStates(config.Data)
		for _, err := range errs {
			m.log.WarnContext(ctx, "a rollout begins again: what was remembered of it cannot be read", "addon", addOn, "error", err)
		}
		kept = &remembered{config: config, stored: all, states: all}
		m.put(addOn, kept)
	}
	return kept.states, nil
}

// remember stores the states of the add-on's placements: starts at once, since they are applied next, the end of a rollout too,
// and everything else within rememberLater. It returns when to call it again.
func (m *rolloutStates) remember(ctx context.Context, addOn *ocm.ClusterManagementAddOn, placements []configuration.Progress) (again time.Duration, err error) {
	known, _ := m.get(addOn.Name) // recall was called before
	kept := *known
	kept.states = maps.Clone(kept.states)
	now := false
	for _, p := range placements {
		kept.states[p.Placement.ConfigObject] = p.Rollout.State
		now = now || p.Rollout.Phase != rollout.Progressing || p.Rollout.MustStore(kept.stored[p.Placement.ConfigObject])
	}
	data, err := kept.states.Data(addOn)
	if err != nil {
		return 0, err
	}
	if maps.Equal(kept.config.Data, data) {
		m.put(addOn.Name, &kept)
		return 0, nil
	}
	if wait := time.Until(kept.wrote.Add(rememberLater)); wait > 0 && !now {
		m.put(addOn.Name, &kept)
		return wait, nil
	}
	next := kept.config.DeepCopy()
	next.Data = data
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: ocm.AddOnVersion.String(), Kind: "ClusterManagementAddOn", Name: addOn.Name, UID: addOn.UID}}
	if err := m.store(ctx, next); err != nil {
		m.forget(addOn.Name) // another writer may have written it
		return 0, fmt.Errorf("store the state of the rollout of %s: %w", addOn.Name, err)
	}
	m.put(addOn.Name, &remembered{config: next, stored: kept.states, states: kept.states, wrote: time.Now()})
	return 0, nil
}
