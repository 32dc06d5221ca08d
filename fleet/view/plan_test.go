package view

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/rollout"
)

func progress(t *testing.T, paused bool, known ...rollout.Target) configuration.Progress {
	t.Helper()
	s := ocm.RolloutStrategy{Type: ocm.RolloutProgressive, Progressive: &ocm.RolloutProgression{
		MandatoryDecisionGroups: []ocm.MandatoryDecisionGroup{{GroupName: "canary"}}, MaxConcurrency: new(intstr.FromInt32(2)),
	}}
	s.Progressive.MinSuccessTime.Duration = time.Minute
	plan, err := strategy.New(strategy.Input{
		Change: "new", Strategy: s, Paused: paused, Known: known,
		Groups: []strategy.Group{{Name: "canary", Clusters: []string{"c"}}, {Index: 1, Clusters: []string{"a", "b", "d", "e"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return configuration.Progress{Plan: plan}
}

func TestRolloutPlan(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	done := rollout.Target{Name: "e", Status: rollout.Succeeded, Since: now.Add(-time.Hour)}
	got := simulate(progress(t, false, done), now)
	want := []Step{
		{Wave: "canary", Clusters: []string{"c"}},
		{After: time.Minute, Wave: "rest", Clusters: []string{"a", "b"}},
		{After: time.Minute, Wave: "rest", Clusters: []string{"d"}},
	}
	if !reflect.DeepEqual(got.Steps, want) || len(got.Held) > 0 || !reflect.DeepEqual(got.Unchanged, []string{"e"}) {
		t.Errorf("%+v", got)
	}
	if got = simulate(progress(t, true), now); len(got.Steps) > 0 || got.Held["c"] != rollout.WaitsForResume {
		t.Errorf("paused: %+v", got)
	}
	failed := rollout.Target{Name: "c", Status: rollout.Failed, Since: now}
	if got = simulate(progress(t, false, failed), now); len(got.Steps) > 0 || got.Held["a"] != rollout.WaitsForRepair {
		t.Errorf("the canary failed: %+v", got)
	}
	if got = simulate(configuration.Progress{Err: errors.New("bad")}, now); got.Problem != "bad" {
		t.Errorf("%+v", got)
	}
}

// planned is a hub with add-on hello, which a placement selects for oslo and rome. Each has the present content of its configurations: rome
// the default, oslo its own.
type planned struct{ *testing.T }

func ownConfig(name, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ocm.AddOnVersion.String(), "kind": "AddOnDeploymentConfig", "spec": map[string]any{"agentInstallNamespace": value},
	}}
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

func (planned) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		ownConfig(key.Name, "before").DeepCopyInto(o)
		return nil
	case *ocm.ClusterManagementAddOn:
		o.Name = key.Name
		o.Spec.SupportedConfigs = []ocm.SupportedConfig{{ConfigType: inventory.Templates}, {
			ConfigType: inventory.DeploymentConfigs, DefaultConfig: &ocm.ConfigObject{Namespace: "default", Name: "common"},
		}}
		o.Spec.InstallStrategy = ocm.InstallStrategy{Type: ocm.InstallPlacements, Placements: []ocm.InstallPlacement{{ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "all"}}}}
		return nil
	case *ocm.Placement:
		o.Namespace, o.Name = key.Namespace, key.Name
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (p planned) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	on := func(cluster, config string, own ...ocm.AddOnConfig) (a ocm.ManagedClusterAddOn) {
		hash, err := inventory.Hash(inventory.DeploymentConfigs, ownConfig(config, "before"))
		if err != nil {
			p.Error(err)
		}
		has := &ocm.ConfigHash{ConfigObject: ocm.ConfigObject{Namespace: "default", Name: config}, SpecHash: hash}
		a.Namespace, a.Name, a.Spec.Configs = cluster, "hello", own
		a.Status.ConfigReferences = []ocm.StoredReference{{ConfigReference: ocm.ConfigReference{
			ConfigType: inventory.DeploymentConfigs, DesiredConfig: has, LastAppliedConfig: has,
		}}}
		a.Status.Conditions = []metav1.Condition{{Type: "Progressing", Status: "False", Reason: "Completed"}, {Type: "Available", Status: "True"}}
		return a
	}
	switch list := list.(type) {
	case *ocm.List[ocm.ManagedCluster]:
		list.Items = []ocm.ManagedCluster{{ObjectMeta: metav1.ObjectMeta{Name: "oslo"}}, {ObjectMeta: metav1.ObjectMeta{Name: "rome"}}}
	case *ocm.List[ocm.PlacementDecision]:
		list.Items = []ocm.PlacementDecision{{Status: ocm.PlacementDecisionStatus{Decisions: []ocm.ClusterDecision{{ClusterName: "oslo"}, {ClusterName: "rome"}}}}}
	case *ocm.List[ocm.ManagedClusterAddOn]:
		list.Items = []ocm.ManagedClusterAddOn{
			on("oslo", "special", ocm.AddOnConfig{ConfigType: inventory.DeploymentConfigs, ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "special"}}),
			on("rome", "common"),
		}
	}
	return nil
}

// TestPlanHasOwnConfigurations changes the configuration of one cluster, that of all others, and none.
func TestPlanHasOwnConfigurations(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(ocm.AddOnVersion.WithKind("AddOnDeploymentConfig"), meta.RESTScopeNamespace)
	v := View{Reader: inventory.Reader{Reader: planned{t}, Mapper: mapper}, Now: time.Now}
	for _, row := range []struct {
		name              string
		changed           []*unstructured.Unstructured
		atOnce, unchanged []string
		steps             []Step
	}{
		{"none", nil, nil, []string{"oslo", "rome"}, []Step{}},
		{"that of one cluster", []*unstructured.Unstructured{ownConfig("special", "after")}, []string{"oslo"}, []string{"rome"}, []Step{}},
		{"that of all others", []*unstructured.Unstructured{ownConfig("common", "after")}, nil, []string{"oslo"}, []Step{{Wave: "all", Clusters: []string{"rome"}}}},
	} {
		plan, err := v.Plan(t.Context(), "hello", row.changed)
		if err != nil || len(plan.Placements) != 1 {
			t.Fatalf("%s: %+v, %v", row.name, plan, err)
		}
		p := plan.Placements[0]
		if !reflect.DeepEqual(plan.AtOnce, row.atOnce) || !reflect.DeepEqual(p.Unchanged, row.unchanged) || !reflect.DeepEqual(p.Steps, row.steps) {
			t.Errorf("%s: %+v", row.name, plan)
		}
	}
}
