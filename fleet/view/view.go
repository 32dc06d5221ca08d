// Package view reports on a fleet: its clusters, the progress of add-ons, the effect of a change, and the reason for the state
// of an add-on on a cluster. It reads and changes nothing.
package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/rollout"
)

// View reads a hub.
type View struct {
	inventory.Reader
	// Namespace has the hub's own objects.
	Namespace string
	Now       func() time.Time
	// Note is called for each omitted object that the user may not read. Nil ignores it.
	Note func(what string, err error)
}

// Cluster is a cluster of the fleet.
type Cluster struct {
	Name string `json:"name"`
	// Available is True, False or Unknown.
	Available  string    `json:"available"`
	LastSeen   time.Time `json:"lastSeen,omitzero"`
	Version    string    `json:"version,omitempty"`
	Set        string    `json:"set,omitempty"`
	AddOns     int       `json:"addOns"` // -1 if the user may not read them
	Occasional bool      `json:"occasional,omitempty"`
	Carried    bool      `json:"carried,omitempty"`
	// Asleep means that an occasional cluster is out of contact since LastSeen.
	Asleep  bool   `json:"asleep,omitempty"`
	Message string `json:"message,omitempty"`
}

// Clusters returns all clusters by name.
func (v View) Clusters(ctx context.Context) ([]Cluster, error) {
	var clusters ocm.List[ocm.ManagedCluster]
	if err := v.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("read the clusters: %w", err)
	}
	var addOns ocm.List[ocm.ManagedClusterAddOn]
	hidden := v.List(ctx, &addOns)
	if hidden != nil && (v.Note == nil || !apierrors.IsForbidden(hidden)) {
		return nil, fmt.Errorf("read the add-ons of the clusters: %w", hidden)
	}
	if hidden != nil {
		v.Note("the add-ons of clusters", hidden)
	}
	count := make(map[string]int)
	for _, a := range addOns.Items {
		count[a.Namespace]++
	}
	list := []Cluster{}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		row := Cluster{
			Name: c.Name, Available: "Unknown", Version: c.Status.Version.Kubernetes, Set: cmp.Or(c.Labels[ocm.ClusterSetLabel], ocm.DefaultClusterSet),
			AddOns: count[c.Name], Occasional: inventory.IsOccasional(c), Carried: inventory.IsCarried(c), Asleep: inventory.IsAsleep(c),
		}
		if hidden != nil {
			row.AddOns = -1
		}
		if state := meta.FindStatusCondition(c.Status.Conditions, inventory.Available); state != nil {
			row.Available, row.Message = string(state.Status), state.Message
		}
		if state := meta.FindStatusCondition(c.Status.Conditions, seal.Verified); state != nil && state.Status == metav1.ConditionFalse {
			row.Message = state.Message
		}
		var err error
		if row.LastSeen, err = v.LastSeen(ctx, c); err != nil {
			return nil, fmt.Errorf("read the Lease of cluster %s: %w", c.Name, err)
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// AddOn is an add-on of the fleet.
type AddOn struct {
	Name     string `json:"name"`
	Clusters int    `json:"clusters"`
	// Available, Unhealthy and Unknown count its clusters.
	Available int  `json:"available"`
	Unhealthy int  `json:"unhealthy"`
	Unknown   int  `json:"unknown"`
	Paused    bool `json:"paused,omitempty"`
	// Placements have the progress of the rollouts.
	Placements []Progress `json:"placements,omitempty"`
	// Rows has each cluster, for one add-on only.
	Rows []Row `json:"rows,omitempty"`
}

// Progress is the progress over one placement.
type Progress struct {
	Placement string `json:"placement"`
	Done      bool   `json:"done"`
	Message   string `json:"message"`
}

// Row is an add-on on one cluster.
type Row struct {
	Cluster string `json:"cluster"`
	// Status is the rollout's.
	Status    rollout.Status `json:"status"`
	Wave      string         `json:"wave,omitempty"`
	Reason    rollout.Reason `json:"waitsFor,omitempty"`
	Until     time.Time      `json:"until,omitzero"`
	Available string         `json:"available"`
	Message   string         `json:"message,omitempty"`
	LastSeen  time.Time      `json:"lastSeen,omitzero"`
	// Skipped means that the cluster is asleep since LastSeen: it holds no slot, and no wave waits for it. OCM's status is Skip.
	Skipped bool `json:"skipped,omitempty"`
}

// AddOns returns all add-ons by name, without their clusters.
func (v View) AddOns(ctx context.Context) ([]AddOn, error) {
	var all ocm.List[ocm.ClusterManagementAddOn]
	if err := v.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("read the add-ons: %w", err)
	}
	var installed ocm.List[ocm.ManagedClusterAddOn]
	if err := v.List(ctx, &installed); err != nil {
		return nil, fmt.Errorf("read the add-ons of the clusters: %w", err)
	}
	list := []AddOn{}
	for i := range all.Items {
		known := &inventory.AddOn{ClusterManagementAddOn: &all.Items[i]}
		for k := range installed.Items {
			if installed.Items[k].Name == known.Name {
				known.Installed = append(known.Installed, &installed.Items[k])
			}
		}
		list = append(list, summary(known))
	}
	slices.SortFunc(list, func(a, b AddOn) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func summary(known *inventory.AddOn) AddOn {
	a := AddOn{Name: known.Name, Clusters: len(known.Installed), Paused: known.Annotations[inventory.Paused] == "true"}
	for _, i := range known.Installed {
		switch state := meta.FindStatusCondition(i.Status.Conditions, "Available"); {
		case state == nil || state.Status == metav1.ConditionUnknown:
			a.Unknown++
		case state.Status == metav1.ConditionTrue:
			a.Available++
		default:
			a.Unhealthy++
		}
	}
	for _, p := range known.Status.InstallProgressions {
		row := Progress{Placement: p.Namespace + "/" + p.Name}
		if state := meta.FindStatusCondition(p.Conditions, "Progressing"); state != nil {
			row.Done, row.Message = state.Status == metav1.ConditionFalse, state.Message
		}
		a.Placements = append(a.Placements, row)
	}
	return a
}

// decided is an add-on with the hub's current decision.
type decided struct {
	*inventory.AddOn
	input  configuration.Input
	result configuration.Result
}

// read reads one add-on.
func (v View) read(ctx context.Context, name string) (*inventory.AddOn, error) {
	var cma ocm.ClusterManagementAddOn
	if err := v.Get(ctx, types.NamespacedName{Name: name}, &cma); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, fmt.Errorf("there is no ClusterManagementAddOn %q; 'sealift fleet status' lists those that exist", name)
		}
		return nil, fmt.Errorf("read add-on %s: %w", name, err)
	}
	known, err := v.Reader.AddOn(ctx, &cma)
	if err != nil {
		return nil, fmt.Errorf("read add-on %s: %w", name, err)
	}
	return known, nil
}

// decide computes the hub's current decision.
func (v View) decide(ctx context.Context, known *inventory.AddOn, lookup *inventory.Lookup) (*decided, error) {
	var kept corev1.ConfigMap
	err := v.Get(ctx, types.NamespacedName{Namespace: v.Namespace, Name: inventory.StatesName(known.Name)}, &kept)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the hub's state of the rollout of %s: %w", known.Name, err)
	}
	states, _ := inventory.ReadStates(kept.Data) // the hub logs what cannot be read, and begins again as we do
	d := &decided{AddOn: known}
	if d.input, err = v.Input(ctx, known, states, lookup); err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", known.Name, err)
	}
	d.result = configuration.Decide(d.input, v.Now())
	return d, nil
}

// AddOn returns one add-on with its clusters.
func (v View) AddOn(ctx context.Context, name string) (AddOn, error) {
	d, err := v.readDecided(ctx, name)
	hidden := v.Note != nil && apierrors.IsForbidden(err)
	if hidden {
		v.Note("what decides about rollouts, so waves, and what clusters wait for, are missing", err)
		d, err = v.readInstalled(ctx, name)
	}
	if err != nil {
		return AddOn{}, err
	}
	known := d.AddOn
	a := summary(known)
	for _, i := range known.Installed {
		row := Row{Cluster: i.Namespace, Status: rollout.Succeeded, Available: "Unknown"}
		if hidden {
			row.Status = reported(i)
		}
		if p, decision := d.of(i.Namespace); decision != nil {
			row.Status, row.Reason, row.Until, row.Wave = decision.Status, decision.Reason, decision.Until, p.Plan.Spec.Waves[decision.Wave].Name
			row.Skipped = decision.Asleep && decision.Status != rollout.Succeeded
		}
		if state := meta.FindStatusCondition(i.Status.Conditions, "Available"); state != nil {
			row.Available = string(state.Status)
		}
		row.Message = message(i)
		if c := known.Clusters[i.Namespace]; c != nil {
			if row.LastSeen, err = v.LastSeen(ctx, c); err != nil {
				return AddOn{}, err
			}
		}
		a.Rows = append(a.Rows, row)
	}
	slices.SortFunc(a.Rows, func(x, y Row) int { return cmp.Compare(x.Cluster, y.Cluster) })
	return a, nil
}

// readDecided reads one add-on, and computes the hub's current decision.
func (v View) readDecided(ctx context.Context, name string) (*decided, error) {
	known, err := v.read(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.decide(ctx, known, v.Lookup(ctx))
}

// readInstalled reads one add-on for a user who may not read the inputs of the hub's decision, such as placements. Clusters that the user
// may not read either are missing.
func (v View) readInstalled(ctx context.Context, name string) (*decided, error) {
	known := &inventory.AddOn{ClusterManagementAddOn: &ocm.ClusterManagementAddOn{}, Clusters: make(map[string]*ocm.ManagedCluster)}
	if err := v.Get(ctx, types.NamespacedName{Name: name}, known.ClusterManagementAddOn); err != nil {
		return nil, fmt.Errorf("read add-on %s: %w", name, err)
	}
	var installed ocm.List[ocm.ManagedClusterAddOn]
	if err := v.List(ctx, &installed, client.MatchingFields{inventory.Name: name}); err != nil {
		return nil, fmt.Errorf("read add-on %s on the clusters: %w", name, err)
	}
	for i := range installed.Items {
		known.Installed = append(known.Installed, &installed.Items[i])
	}
	var clusters ocm.List[ocm.ManagedCluster]
	if err := v.List(ctx, &clusters); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("read the clusters: %w", err)
	}
	for i := range clusters.Items {
		known.Clusters[clusters.Items[i].Name] = &clusters.Items[i]
	}
	return &decided{AddOn: known}, nil
}

// reported returns the status of an add-on on a cluster by its own conditions.
func reported(a *ocm.ManagedClusterAddOn) rollout.Status {
	switch state := meta.FindStatusCondition(a.Status.Conditions, "Progressing"); {
	case state == nil:
		return rollout.Waiting
	case state.Status == metav1.ConditionTrue || strings.HasPrefix(state.Reason, "WaitingFor"):
		return rollout.Working
	case state.Reason == "Completed":
		return rollout.Succeeded
	}
	return rollout.Failed
}

// of returns the decision about a cluster, and its placement.
func (d *decided) of(cluster string) (*configuration.Progress, *rollout.Decision) {
	for i := range d.result.Placements {
		p := &d.result.Placements[i]
		for k := range p.Rollout.Targets {
			if p.Rollout.Targets[k].Name == cluster {
				return p, &p.Rollout.Targets[k]
			}
		}
	}
	return nil, nil
}

// message describes what an add-on on a cluster is doing, or its failure.
func message(a *ocm.ManagedClusterAddOn) string {
	var parts []string
	for _, kind := range []string{"RegistrationApplied", "ManifestApplied", "Available", "Progressing"} {
		c := meta.FindStatusCondition(a.Status.Conditions, kind)
		switch {
		case c == nil:
		case kind == "Progressing" && c.Reason != "Completed", kind != "Progressing" && c.Status != metav1.ConditionTrue:
			parts = append(parts, c.Message)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.TrimSuffix(parts[0], ".")
}
