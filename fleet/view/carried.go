package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
)

// Carried is a cluster without a connection, and what the next parcel brings it.
type Carried struct {
	Name string `json:"name"`
	// Reported is when the cluster made the last report that the hub has read.
	Reported time.Time `json:"reported,omitzero"`
	// Works counts the works of the cluster, without those that are being deleted.
	Works int `json:"works"`
	// Waiting are works of which no report came back yet, and Removed those whose removal was not reported yet.
	Waiting []string `json:"waiting,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Failed are works that the cluster could not apply.
	Failed []string `json:"failed,omitempty"`
}

// Carried returns the clusters that are reached by parcels, by name.
func (v View) Carried(ctx context.Context) ([]Carried, error) {
	var clusters ocm.List[ocm.ManagedCluster]
	if err := v.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("read the clusters: %w", err)
	}
	list := []Carried{}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		if !inventory.IsCarried(c) {
			continue
		}
		row := Carried{Name: c.Name}
		var err error
		if row.Reported, err = v.LastSeen(ctx, c); err != nil {
			return nil, fmt.Errorf("read the Lease of cluster %s: %w", c.Name, err)
		}
		var works ocm.List[ocm.ManifestWork]
		if err := v.List(ctx, &works, client.InNamespace(c.Name)); err != nil {
			return nil, fmt.Errorf("read the works of cluster %s: %w", c.Name, err)
		}
		for k := range works.Items {
			row.add(&works.Items[k])
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b Carried) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// add adds a work to the list that its state belongs to.
func (c *Carried) add(w *ocm.ManifestWork) {
	if !w.DeletionTimestamp.IsZero() {
		c.Removed = append(c.Removed, w.Name)
		return
	}
	c.Works++
	switch applied := meta.FindStatusCondition(w.Status.Conditions, "Applied"); {
	case applied == nil || applied.ObservedGeneration != w.Generation:
		c.Waiting = append(c.Waiting, w.Name)
	case applied.Status != metav1.ConditionTrue:
		c.Failed = append(c.Failed, w.Name)
	}
}
