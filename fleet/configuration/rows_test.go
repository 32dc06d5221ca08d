package configuration_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/rollout"
)

var newYear = time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	controllers = "fleet/ocm/ocm_addon_controllers_"
	framework   = "fleet/ocm/addon_framework_"
)

type metadata struct {
	Name, Namespace string
	Labels          map[string]string
}

type condition struct{ Type, Status, Reason, Message string }

type progression struct {
	ocm.ConfigObject
	ConfigReferences []ocm.InstallConfigReference
	Conditions       []condition
}

// cma and mca are the add-on APIs in v1beta1, as far as the rows use them.
type cma struct {
	Metadata metadata
	Spec     struct {
		DefaultConfigs  []ocm.AddOnConfig
		InstallStrategy struct {
			Placements []struct {
				ocm.ConfigObject
				Configs         []ocm.AddOnConfig
				RolloutStrategy ocm.RolloutStrategy
			}
		}
	}
	Status struct {
		DefaultConfigReferences []ocm.DefaultConfigReference
		InstallProgressions     []progression
	}
}

type mca struct {
	Metadata metadata
	Spec     struct{ Configs []ocm.AddOnConfig }
	Status   struct {
		SupportedConfigs []ocm.ConfigType
		ConfigReferences []ocm.ConfigReference
		Conditions       []condition
	}
}

// input makes the input of a row. Placements are read from the status, as in OCM.
func input(c cma, addons []mca, decisions []ocm.PlacementDecision) configuration.Input {
	in := configuration.Input{Defaults: c.Spec.DefaultConfigs, DefaultRefs: c.Status.DefaultConfigReferences}
	for _, progress := range c.Status.InstallProgressions {
		p := configuration.Placement{ConfigObject: progress.ConfigObject, Configs: progress.ConfigReferences}
		for _, wish := range c.Spec.InstallStrategy.Placements {
			if wish.ConfigObject == p.ConfigObject {
				p.Strategy = wish.RolloutStrategy
			}
		}
		var mine []ocm.PlacementDecision
		for _, d := range decisions {
			if d.Namespace == p.Namespace && d.Labels[ocm.PlacementLabel] == p.Name {
				mine = append(mine, d)
			}
		}
		p.Groups = strategy.Groups(mine)
		in.Placements = append(in.Placements, p)
	}
	for _, m := range addons {
		a := configuration.AddOn{Cluster: m.Metadata.Namespace, Configs: m.Spec.Configs, References: m.Status.ConfigReferences}
		for _, c := range m.Status.Conditions {
			if c.Type == "Progressing" {
				a.Progressing = configuration.Condition{Status: c.Status, Reason: c.Reason}
			}
		}
		in.AddOns = append(in.AddOns, a)
	}
	return in
}

// patches reads the patches of a reconcile, by namespace.
func patches[T any](t *testing.T, observed []upstreamcases.Observation) map[string]T {
	t.Helper()
	sent := map[string]T{}
	for _, o := range observed {
		var requests []struct {
			Namespace string
			Patch     struct{ Status T }
		}
		if err := json.Unmarshal(o.Value, &requests); err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			sent[r.Namespace] = r.Patch.Status
		}
	}
	return sent
}

// words are the statuses of a rollout that the rows name.
var words = map[string]rollout.Status{"ToApply": rollout.Waiting, "Progressing": rollout.Working, "Failed": rollout.Failed}

func TestConfigurationGraphRows(t *testing.T) {
	type row struct {
		Addons                 []mca
		DefaultConfigReference []ocm.DefaultConfigReference
		DefaultConfigs         []ocm.AddOnConfig
		Expected               []struct {
			DesiredConfigs map[string][]ocm.ConfigReference
			Mca            mca
			Status         struct{ Status string }
		}
		ExpectedConfiguredClusters [][]string
		InstallProgressions        []progression
		PlacementDecisions         []struct {
			Name, Namespace string
			Clusters        []struct{ ClusterName string }
		}
		PlacementStrategies []struct {
			ocm.ConfigObject
			RolloutStrategy ocm.RolloutStrategy
		}
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonconfiguration__graph__TestConfigurationGraph.json") {
		t.Run(r.Name, func(t *testing.T) {
			var c cma
			c.Spec.DefaultConfigs, c.Status.DefaultConfigReferences = r.Case.DefaultConfigs, r.Case.DefaultConfigReference
			c.Status.InstallProgressions = r.Case.InstallProgressions
			in := input(c, r.Case.Addons, nil)
			for i := range in.Placements {
				in.Placements[i].Strategy = r.Case.PlacementStrategies[i].RolloutStrategy
				var g strategy.Group
				for _, cluster := range r.Case.PlacementDecisions[i].Clusters {
					g.Clusters = append(g.Clusters, cluster.ClusterName)
				}
				in.Placements[i].Groups = []strategy.Group{g}
			}
			got := configuration.Decide(in, newYear)
			moving := slices.DeleteFunc(slices.Clone(got.AddOns), func(d configuration.Decision) bool {
				return !d.Moves || d.Status == rollout.Succeeded
			})
			if len(moving) != len(r.Case.Expected) {
				t.Fatalf("%d add-ons move, want %d", len(moving), len(r.Case.Expected))
			}
			for _, want := range r.Case.Expected {
				i := slices.IndexFunc(moving, func(d configuration.Decision) bool { return d.Cluster == want.Mca.Metadata.Namespace })
				if i < 0 {
					t.Fatalf("the add-on on %s does not move", want.Mca.Metadata.Namespace)
				}
				byType := map[string][]ocm.ConfigReference{}
				for _, ref := range moving[i].Desired {
					key, _ := json.Marshal(ref.ConfigType)
					byType[string(key)] = append(byType[string(key)], ref)
				}
				upstreamcases.Same(t, moving[i].Cluster, byType, want.DesiredConfigs)
				if words[want.Status.Status] != moving[i].Status {
					t.Errorf("%s is %s, want %s", moving[i].Cluster, moving[i].Status, want.Status.Status)
				}
			}
			for i, want := range r.Case.ExpectedConfiguredClusters {
				upstreamcases.Same(t, "configured clusters", got.Placements[i].Configured, want)
			}
		})
	}
}

func TestAddOnConfigReconcileRows(t *testing.T) {
	type row struct {
		ClusterManagementAddon cma
		ManagedClusteraddon    []mca
		PlacementDecisions     []ocm.PlacementDecision
	}
	type status struct {
		Conditions       []condition
		ConfigReferences []ocm.ConfigReference
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonconfiguration__addon_configuration_reconciler__TestAddonConfigReconcile.json") {
		t.Run(r.Name, func(t *testing.T) {
			got := configuration.Decide(input(r.Case.ClusterManagementAddon, r.Case.ManagedClusteraddon, r.Case.PlacementDecisions), newYear)
			sent := patches[status](t, r.Observed)
			for _, d := range got.AddOns {
				i := slices.IndexFunc(r.Case.ManagedClusteraddon, func(m mca) bool { return m.Metadata.Namespace == d.Cluster })
				want := r.Case.ManagedClusteraddon[i].Status.ConfigReferences
				if patch, ok := sent[d.Cluster]; ok && patch.ConfigReferences != nil {
					want = patch.ConfigReferences
				}
				upstreamcases.Same(t, d.Cluster, append([]ocm.ConfigReference{}, d.References...), append([]ocm.ConfigReference{}, want...))
				cond := d.Condition()
				if patch, ok := sent[d.Cluster]; ok && len(patch.Conditions) > 0 {
					want := patch.Conditions[0]
					if (condition{"Configured", cond.Status, cond.Reason, cond.Message}) != want {
						t.Errorf("%s: got condition %+v, want %+v", d.Cluster, cond, want)
					}
				}
			}
		})
	}
}

func TestProgressRows(t *testing.T) {
	type row struct {
		ClusterManagementAddon []cma
		ManagedClusteraddon    []mca
		PlacementDecisions     []ocm.PlacementDecision
	}
	type status struct{ InstallProgressions []progression }
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonconfiguration__cma_progressing_reconciler__TestMgmtAddonProgressingReconcile.json") {
		t.Run(r.Name, func(t *testing.T) {
			if len(r.Case.ClusterManagementAddon) == 0 {
				return // nothing to check
			}
			got := configuration.Decide(input(r.Case.ClusterManagementAddon[0], r.Case.ManagedClusteraddon, r.Case.PlacementDecisions), newYear)
			for i, want := range patches[status](t, r.Observed)[""].InstallProgressions {
				s := got.Placements[i].Status()
				upstreamcases.Same(t, "configurations", s.Configs, want.ConfigReferences)
				c := condition{"Progressing", "True", s.Reason, s.Message}
				if s.Done {
					c.Status = "False"
				}
				upstreamcases.Same(t, "condition", c, want.Conditions[0])
			}
		})
	}
}

func TestInstallProgressionRows(t *testing.T) {
	type row struct{ ClusterManagementAddon []cma }
	type status struct {
		DefaultConfigReferences []ocm.DefaultConfigReference
		InstallProgressions     []progression
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"cmainstallprogression__controller__TestReconcile.json") {
		t.Run(r.Name, func(t *testing.T) {
			if len(r.Case.ClusterManagementAddon) == 0 {
				return // nothing to check
			}
			c := r.Case.ClusterManagementAddon[0]
			got := status{DefaultConfigReferences: configuration.Defaults(c.Spec.DefaultConfigs, c.Status.DefaultConfigReferences)}
			for _, p := range c.Spec.InstallStrategy.Placements {
				wish := configuration.Requested{ConfigObject: p.ConfigObject, Configs: p.Configs}
				got.InstallProgressions = append(got.InstallProgressions, progression{
					ConfigObject: p.ConfigObject, ConfigReferences: configuration.Install(c.Spec.DefaultConfigs, wish, nil),
				})
			}
			upstreamcases.Same(t, "status", got, patches[status](t, r.Observed)[""])
		})
	}
}

// config is a configuration object of a row.
type config map[string]any

func (c config) name() ocm.ConfigObject {
	m, _ := c["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	namespace, _ := m["namespace"].(string)
	return ocm.ConfigObject{Name: name, Namespace: namespace}
}

// lookup finds configuration objects by their names.
func lookup(t *testing.T, configs []config) func(ocm.AddOnConfig) (configuration.Object, bool) {
	return func(want ocm.AddOnConfig) (configuration.Object, bool) {
		for _, c := range configs {
			if c.name() != want.ConfigObject {
				continue
			}
			hash, err := configuration.SpecHash(c)
			if err != nil {
				t.Fatal(err)
			}
			generation, _ := c["metadata"].(map[string]any)["generation"].(float64)
			return configuration.Object{SpecHash: hash, Generation: int64(generation)}, true
		}
		return configuration.Object{}, false
	}
}

func TestRefreshRows(t *testing.T) {
	type row struct {
		Configs             []config
		ManagedClusteraddon []mca
	}
	type status struct{ ConfigReferences []ocm.ConfigReference }
	for _, r := range upstreamcases.Rows[row](t, framework+"addonmanager_controllers_addonconfig__controller__TestSync.json") {
		t.Run(r.Name, func(t *testing.T) {
			if len(r.Case.ManagedClusteraddon) == 0 {
				return // nothing to check
			}
			m := r.Case.ManagedClusteraddon[0]
			got := configuration.Refresh(m.Status.ConfigReferences, m.Spec.Configs, m.Status.SupportedConfigs, lookup(t, r.Case.Configs))
			want := m.Status.ConfigReferences
			if patch := patches[status](t, r.Observed)[m.Metadata.Namespace]; patch.ConfigReferences != nil {
				want = patch.ConfigReferences
			}
			upstreamcases.Same(t, "references", got, want)
		})
	}
}

func TestResolveRows(t *testing.T) {
	type row struct {
		Configs                []config
		ClusterManagementAddon []cma
	}
	type status struct {
		DefaultConfigReferences []ocm.DefaultConfigReference
		InstallProgressions     []progression
	}
	for _, r := range upstreamcases.Rows[row](t, framework+"addonmanager_controllers_cmaconfig__controller__TestSync.json") {
		t.Run(r.Name, func(t *testing.T) {
			if len(r.Case.ClusterManagementAddon) == 0 {
				return // nothing to check
			}
			c := r.Case.ClusterManagementAddon[0]
			got := status{DefaultConfigReferences: configuration.ResolveDefaults(c.Status.DefaultConfigReferences, lookup(t, r.Case.Configs))}
			for _, p := range c.Status.InstallProgressions {
				p.ConfigReferences = configuration.Resolve(p.ConfigReferences, lookup(t, r.Case.Configs))
				got.InstallProgressions = append(got.InstallProgressions, p)
			}
			if want, sent := patches[status](t, r.Observed)[""]; sent {
				upstreamcases.Same(t, "status", got, want)
			}
		})
	}
}

func TestHashRows(t *testing.T) {
	type helper struct {
		Obj          config
		ExpectedHash string
	}
	for _, r := range upstreamcases.Rows[helper](t, framework+"utils__helpers__TestGetSpecHash.json") {
		if got, err := configuration.SpecHash(r.Case.Obj); err != nil || got != r.Case.ExpectedHash {
			t.Errorf("%s: %s, want %s: %v", r.Name, got, r.Case.ExpectedHash, err)
		}
	}
	type template struct {
		At       config
		Expected string
	}
	for _, r := range upstreamcases.Rows[template](t, "fleet/ocm/ocm_addon_templateagent__common__TestGetAddOnTemplateSpecHash.json") {
		if got, err := configuration.TemplateHash(r.Case.At); err != nil || r.Case.Expected != "" && got != r.Case.Expected {
			t.Errorf("%s: %s, want %s: %v", r.Name, got, r.Case.Expected, err)
		}
	}
	var generated []struct {
		Object   config
		SpecHash string
	}
	upstreamcases.JSON(t, "fleet/ocm/spechash_generated.json", &generated)
	for _, r := range generated {
		if got, err := configuration.SpecHash(r.Object); err != nil || got != r.SpecHash {
			t.Errorf("%v: %s, want %s: %v", r.Object, got, r.SpecHash, err)
		}
	}
}

func TestAnnotationRows(t *testing.T) {
	type row struct {
		ConfigReference   []ocm.ConfigReference
		ExpectAnnotations map[string]string
	}
	for _, r := range upstreamcases.Rows[row](t, framework+"addonmanager_controllers_agentdeploy__util__TestConfigsToAnnotations.json") {
		if len(r.Case.ConfigReference) == 0 {
			continue // works without configurations have no annotation
		}
		got, err := configuration.Annotate(r.Case.ConfigReference)
		if err != nil || !reflect.DeepEqual(map[string]string{configuration.HashAnnotation: got}, r.Case.ExpectAnnotations) {
			t.Errorf("%s: %s, want %v: %v", r.Name, got, r.Case.ExpectAnnotations, err)
		}
	}
}
