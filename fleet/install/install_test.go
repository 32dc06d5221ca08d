package install_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/fleet/install"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

const controllers = "fleet/ocm/ocm_addon_controllers_"

// cma and mca are the add-on APIs, as far as the rows use them.
type cma struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		InstallStrategy struct {
			Type       string
			Placements []ocm.ConfigObject
		}
	}
}

type mca struct {
	Metadata struct {
		Name, Namespace, DeletionTimestamp string
		Annotations                        map[string]string
		OwnerReferences                    []struct{ Kind, Name string }
	}
}

// read makes the add-on of a row.
func read(c cma, placements []ocm.Placement, decisions []ocm.PlacementDecision) install.AddOn {
	a := install.AddOn{Name: c.Metadata.Name, Annotations: c.Metadata.Annotations}
	a.Manual = c.Spec.InstallStrategy.Type != "Placements"
	for _, wish := range c.Spec.InstallStrategy.Placements {
		p := install.Placement{ConfigObject: wish}
		p.Exists = slices.ContainsFunc(placements, func(p ocm.Placement) bool { return p.Namespace == wish.Namespace && p.Name == wish.Name })
		for _, d := range decisions {
			if d.Namespace == wish.Namespace && d.Labels[ocm.PlacementLabel] == wish.Name {
				for _, c := range d.Status.Decisions {
					p.Clusters = append(p.Clusters, c.ClusterName)
				}
			}
		}
		a.Placements = append(a.Placements, p)
	}
	return a
}

func installed(name string, list []mca) (found []install.Installed) {
	for _, m := range list {
		if m.Metadata.Name != name {
			continue
		}
		i := install.Installed{Cluster: m.Metadata.Namespace, Annotations: m.Metadata.Annotations, Deleting: m.Metadata.DeletionTimestamp != ""}
		for _, o := range m.Metadata.OwnerReferences {
			i.Owned = i.Owned || o.Kind == "ClusterManagementAddOn" && o.Name == name
		}
		found = append(found, i)
	}
	return found
}

func managed(list []ocm.ManagedCluster) (found []install.Cluster) {
	for _, c := range list {
		found = append(found, install.Cluster{Name: c.Name, Annotations: c.Annotations, Deleting: !c.DeletionTimestamp.IsZero()})
	}
	return found
}

// requests are the requests of a row, as "create cluster/name {annotations}". Those that only set an owner are left out: other
// rows of the same program cover them.
func requests(t *testing.T, observed []upstreamcases.Observation) []string {
	t.Helper()
	var list []string
	for _, o := range observed {
		var sent []struct {
			Verb, Namespace, Name string
			Object                mca
		}
		if err := json.Unmarshal(o.Value, &sent); err != nil {
			t.Fatal(err)
		}
		for _, s := range sent {
			list = append(list, line(s.Verb, s.Namespace, s.Name+s.Object.Metadata.Name, s.Object.Metadata.Annotations))
		}
	}
	slices.Sort(list)
	return list
}

func line(verb, cluster, name string, annotations map[string]string) string {
	text := fmt.Sprintf("%s %s/%s", verb, cluster, name)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		text += " " + key + "=" + annotations[key]
	}
	return text
}

func lines(name string, changes []install.Change) []string {
	var list []string
	for _, c := range changes {
		list = append(list, line(strings.ToLower(string(c.Verb)), c.Cluster, name, c.Annotations))
	}
	slices.Sort(list)
	return list
}

func TestInstallRows(t *testing.T) {
	type row struct {
		ClusterManagementAddon cma
		ManagedClusteraddon    []mca
		ManagedClusters        []ocm.ManagedCluster
		Placements             []ocm.Placement
		PlacementDecisions     []ocm.PlacementDecision
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonmanagement__controller__TestAddonInstallReconcile.json") {
		t.Run(r.Name, func(t *testing.T) {
			a := read(r.Case.ClusterManagementAddon, r.Case.Placements, r.Case.PlacementDecisions)
			has := installed(a.Name, r.Case.ManagedClusteraddon)
			for i := range has {
				has[i].Owned = true // the row's controller sets no owners of existing add-ons
			}
			got, _ := install.Decide(a, managed(r.Case.ManagedClusters), has)
			if want := requests(t, r.Observed); !slices.Equal(lines(a.Name, got), want) {
				t.Errorf("got  %q\nwant %q", lines(a.Name, got), want)
			}
		})
	}
}

func TestAnnotationRows(t *testing.T) {
	type row struct {
		ClusterManagementAddon []cma
		ManagedClusterAddons   []mca
		ManagedClusters        []ocm.ManagedCluster
		SyncKey                string
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonannotation__controller__TestSync.json") {
		t.Run(r.Name, func(t *testing.T) {
			var got []string
			for _, c := range r.Case.ClusterManagementAddon {
				a := read(c, nil, nil)
				has := installed(a.Name, r.Case.ManagedClusterAddons)
				for i := range has {
					has[i].Owned = true
				}
				changes, _ := install.Decide(a, managed(r.Case.ManagedClusters), has)
				got = append(got, lines(a.Name, changes)...)
			}
			if want := requests(t, r.Observed); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
	type merge struct {
		AddonAnnotations, ClusterAddonAnnotations, ExpectedAnnotations map[string]string
		ExpectChanged                                                  bool
	}
	for _, r := range upstreamcases.Rows[merge](t, controllers+"addonannotation__controller__TestSyncAddonAnnotations.json") {
		got, _ := install.Decide(install.AddOn{Placements: []install.Placement{{Exists: true, Clusters: []string{"c"}}}},
			[]install.Cluster{{Name: "c", Annotations: r.Case.ClusterAddonAnnotations}},
			[]install.Installed{{Cluster: "c", Annotations: r.Case.AddonAnnotations, Owned: true}})
		if (len(got) > 0) != r.Case.ExpectChanged || len(got) > 0 && !maps.Equal(got[0].Annotations, r.Case.ExpectedAnnotations) {
			t.Errorf("%s: got %+v, want %v", r.Name, got, r.Case.ExpectedAnnotations)
		}
	}
}

func TestOwnerRows(t *testing.T) {
	type row struct {
		ClusterManagementAddon []cma
		ManagedClusteraddon    []mca
	}
	for _, r := range upstreamcases.Rows[row](t, controllers+"addonowner__controller__TestReconcile.json") {
		sent := len(requests(t, r.Observed))
		changes := 0
		for _, c := range r.Case.ClusterManagementAddon {
			a := read(c, nil, nil)
			got, _ := install.Decide(a, nil, installed(a.Name, r.Case.ManagedClusteraddon))
			changes += len(got)
		}
		if changes != sent {
			t.Errorf("%s: %d changes, want %d", r.Name, changes, sent)
		}
	}
}

// placed is an add-on with one placement.
func placed(clusters ...string) install.AddOn {
	return install.AddOn{Name: "hello", Placements: []install.Placement{{
		ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "all"}, Exists: true, Clusters: clusters,
	}}}
}

func TestDecide(t *testing.T) {
	rome := install.Cluster{Name: "rome", Annotations: map[string]string{"addon.open-cluster-management.io/a": "1", "other": "x"}}
	hosted := map[string]string{
		"addon.open-cluster-management.io/hosting-cluster-name": "h", "addon.open-cluster-management.io/v1alpha1-install-namespace": "n",
		"addon.open-cluster-management.io/old": "y",
	}
	self, manual, gone, broken := placed("rome"), placed("rome"), placed(), placed()
	self.Annotations = map[string]string{"addon.open-cluster-management.io/lifecycle": "self"}
	manual.Manual = true
	gone.Placements[0].Exists = false
	broken.Placements[0].Misconfigured = true
	leaving := rome
	leaving.Deleting = true
	for name, tt := range map[string]struct {
		addon   install.AddOn
		cluster install.Cluster
		has     []install.Installed
		want    string
		warning string
	}{
		"a new cluster":                            {placed("rome"), rome, nil, "create rome/hello addon.open-cluster-management.io/a=1", ""},
		"a cluster that is not selected":           {placed(), rome, []install.Installed{{Cluster: "rome", Owned: true}}, "delete rome/hello", ""},
		"made by hand outside of the decisions":    {placed(), rome, []install.Installed{{Cluster: "rome"}}, "delete rome/hello", ""},
		"already being deleted":                    {placed(), rome, []install.Installed{{Cluster: "rome", Deleting: true}}, "", ""},
		"a cluster that is being deleted":          {placed("rome"), leaving, nil, "", ""},
		"a cluster that does not exist (O-10)":     {placed("oslo"), rome, nil, "", ""},
		"annotations that users set stay (X-14)":   {placed("rome"), rome, []install.Installed{{Cluster: "rome", Owned: true, Annotations: hosted}}, "update rome/hello addon.open-cluster-management.io/a=1 addon.open-cluster-management.io/hosting-cluster-name=h addon.open-cluster-management.io/v1alpha1-install-namespace=n", ""},
		"self":                                     {self, rome, nil, "", ""},
		"manual creates and deletes nothing":       {manual, rome, nil, "", ""},
		"manual gets an owner (O-9)":               {manual, rome, []install.Installed{{Cluster: "rome", Annotations: hosted}}, line("update", "rome", "hello", hosted), ""},
		"a placement that is gone removes nothing": {gone, rome, []install.Installed{{Cluster: "rome", Owned: true, Annotations: map[string]string{"addon.open-cluster-management.io/a": "1"}}}, "", "placement default/all does not exist; no add-on is removed until it is repaired"},
		"a placement with a mistake":               {broken, rome, []install.Installed{{Cluster: "rome", Owned: true, Annotations: map[string]string{"addon.open-cluster-management.io/a": "1"}}}, "", "placement default/all has a mistake; no add-on is removed until it is repaired"},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := install.Decide(tt.addon, []install.Cluster{tt.cluster}, tt.has)
			if text := strings.Join(lines("hello", got), "; "); text != tt.want || strings.Join(warnings, "; ") != tt.warning {
				t.Errorf("got  %q %q\nwant %q %q", text, warnings, tt.want, tt.warning)
			}
		})
	}
}
