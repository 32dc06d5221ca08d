package view

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/rollout"
)

// few is a hub as seen by a user who may only read ManagedClusters and ClusterManagementAddOns, or ManagedClusterAddOns too.
type few struct{ addOns bool }

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
}

func (few) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *ocm.ClusterManagementAddOn:
		if o.Name = key.Name; o.Name == "hello" {
			o.Spec.InstallStrategy = ocm.InstallStrategy{Type: ocm.InstallPlacements, Placements: []ocm.InstallPlacement{{ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "all"}}}}
			return nil
		}
		return apierrors.NewNotFound(schema.GroupResource{Resource: "clustermanagementaddons"}, key.Name)
	case *coordinationv1.Lease:
		return forbidden("leases")
	case *corev1.ConfigMap:
		return forbidden("configmaps")
	}
	return forbidden("placements")
}

func (f few) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *ocm.List[ocm.ManagedCluster]:
		list.Items = []ocm.ManagedCluster{
			{ObjectMeta: metav1.ObjectMeta{Name: "oslo", CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}},
			{ObjectMeta: metav1.ObjectMeta{Name: "rome", CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}},
		}
		return nil
	case *ocm.List[ocm.ClusterManagementAddOn]:
		list.Items = []ocm.ClusterManagementAddOn{{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: ocm.ClusterManagementAddOnSpec{
			InstallStrategy: ocm.InstallStrategy{Type: ocm.InstallPlacements, Placements: []ocm.InstallPlacement{{ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "all"}}}}}}}
		return nil
	case *ocm.List[ocm.ManagedClusterAddOn]:
		if f.addOns {
			list.Items = []ocm.ManagedClusterAddOn{{ObjectMeta: metav1.ObjectMeta{Namespace: "oslo", Name: "hello"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "oslo", Name: "other"}}}
			if o := (&client.ListOptions{}).ApplyOptions(options); o.FieldSelector != nil {
				list.Items = list.Items[:1]
			}
			return nil
		}
	}
	return forbidden("managedclusteraddons")
}

// TestUnreadableFieldsAreLeftOut lists clusters and add-ons for users who may not read Leases, placements, or the hub's state.
func TestUnreadableFieldsAreLeftOut(t *testing.T) {
	var notes []string
	view := func(f few) View {
		notes = nil
		note := func(what string, err error) {
			if !apierrors.IsForbidden(err) {
				t.Error(err)
			}
			notes = append(notes, what)
		}
		return View{Reader: inventory.Reader{Reader: Limited(f, note)}, Now: time.Now, Note: note}
	}
	list, err := view(few{}).Clusters(t.Context())
	if err != nil || len(list) != 2 || list[0].AddOns != -1 || !list[0].LastSeen.IsZero() {
		t.Errorf("clusters are %+v, %v", list, err)
	}
	if want := []string{"the add-ons of clusters", "when clusters were last in contact"}; !slices.Equal(notes, want) {
		t.Errorf("told was %q", notes)
	}
	list, err = view(few{addOns: true}).Clusters(t.Context())
	if err != nil || len(list) != 2 || list[0].AddOns != 2 || list[1].AddOns != 0 || len(notes) != 1 {
		t.Errorf("clusters are %+v, %v, %q", list, err, notes)
	}
	addOns, err := view(few{addOns: true}).AddOns(t.Context())
	if err != nil || len(addOns) != 1 || addOns[0].Clusters != 1 || addOns[0].Unknown != 1 || len(notes) > 0 {
		t.Errorf("add-ons are %+v, %v, %q", addOns, err, notes)
	}
	if _, err := view(few{}).AddOns(t.Context()); !apierrors.IsForbidden(err) { // nothing is left to report
		t.Errorf("without ManagedClusterAddOns: %v", err)
	}
	var kept corev1.ConfigMap
	if err := view(few{}).Get(t.Context(), client.ObjectKey{Name: "states"}, &kept); !apierrors.IsNotFound(err) || len(notes) != 1 {
		t.Errorf("the states: %v, %q", err, notes)
	}
}

// TestAddOnStatusNeedsNoPlacements reads one add-on, with and without the right to read ManagedClusterAddOns.
func TestAddOnStatusNeedsNoPlacements(t *testing.T) {
	var notes []string
	note := func(what string, _ error) { notes = append(notes, what) }
	view := func(f few) View {
		return View{Reader: inventory.Reader{Reader: Limited(f, note)}, Now: time.Now, Note: note}
	}
	one, err := view(few{addOns: true}).AddOn(t.Context(), "hello")
	if err != nil || len(one.Rows) != 1 || one.Rows[0].Cluster != "oslo" || one.Rows[0].Status != rollout.Waiting || one.Rows[0].Available != "Unknown" {
		t.Errorf("%+v, %v", one, err)
	}
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "what decides about rollouts") {
		t.Errorf("told was %q", notes)
	}
	if _, err := view(few{}).AddOn(t.Context(), "hello"); !apierrors.IsForbidden(err) {
		t.Errorf("without ManagedClusterAddOns: %v", err)
	}
	if _, err := view(few{addOns: true}).AddOn(t.Context(), "other"); err == nil || apierrors.IsForbidden(err) {
		t.Errorf("an add-on that does not exist: %v", err)
	}
}

// TestReportedStatusMatchesConditions has the states of condition Progressing.
func TestReportedStatusMatchesConditions(t *testing.T) {
	for _, row := range []struct {
		condition []metav1.Condition
		want      rollout.Status
	}{
		{nil, rollout.Waiting},
		{[]metav1.Condition{{Type: "Progressing", Status: "False", Reason: "WaitingForManifestApplied"}}, rollout.Working},
		{[]metav1.Condition{{Type: "Progressing", Status: "True", Reason: "Progressing"}}, rollout.Working},
		{[]metav1.Condition{{Type: "Progressing", Status: "False", Reason: "Completed"}}, rollout.Succeeded},
		{[]metav1.Condition{{Type: "Progressing", Status: "False", Reason: "ConfigurationUnsupported"}}, rollout.Failed},
	} {
		a := &ocm.ManagedClusterAddOn{}
		a.Status.Conditions = row.condition
		if got := reported(a); got != row.want {
			t.Errorf("%v: %s, want %s", row.condition, got, row.want)
		}
	}
}
