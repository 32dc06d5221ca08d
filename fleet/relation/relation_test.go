package relation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
)

// requiring returns a fleet of add-ons with requirements. The add-on sick is healthy nowhere.
func requiring(requires map[string]string, sick string) relation.AddOns {
	return relation.AddOns{
		Kind: "ClusterManagementAddOn",
		Requires: func(name string) ([]string, bool) {
			text, exists := requires[name]
			return relation.Names(map[string]string{relation.Requires: text}), exists
		},
		Unready: func(name, _ string) string {
			if name == sick {
				return "is not healthy"
			}
			return ""
		},
	}
}

func TestWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		requires map[string]string
		sick     string
		want     string
	}{
		"nothing is required":          {requires: map[string]string{"app": ""}},
		"blanks and doubles":           {requires: map[string]string{"app": " cni, ,cni", "cni": ""}},
		"what is required is healthy":  {requires: map[string]string{"app": "cni,dns", "cni": "", "dns": "cni"}},
		"what is required is sick":     {map[string]string{"app": "cni,dns", "cni": "", "dns": ""}, "dns", "app requires dns, and on cluster rome it is not healthy: repair it there, or take it out of annotation fleet.sealift.dev/requires of ClusterManagementAddOn app"},
		"it does not exist":            {map[string]string{"app": "cni"}, "", "ClusterManagementAddOn app requires cni, which does not exist: create it"},
		"itself":                       {map[string]string{"app": "app"}, "", "requires itself (app requires app): take one of them out"},
		"a circle":                     {map[string]string{"app": "cni", "cni": "dns", "dns": "app"}, "", "(app requires cni requires dns requires app)"},
		"a circle of others is theirs": {requires: map[string]string{"app": "cni", "cni": "dns", "dns": "cni"}},
	} {
		got := requiring(tt.requires, tt.sick).Waits("app", "rome")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestDiamondsAreFollowedOnce uses two add-ons on each level that require both of the next one. There are 2^40 paths, and no cycle.
func TestDiamondsAreFollowedOnce(t *testing.T) {
	requires := map[string]string{"app": "a0,b0", "a40": "", "b40": ""}
	for i := range 40 {
		next := fmt.Sprintf("a%d,b%d", i+1, i+1)
		requires[fmt.Sprintf("a%d", i)], requires[fmt.Sprintf("b%d", i)] = next, next
	}
	if got := requiring(requires, "").Waits("app", "rome"); got != "" {
		t.Error(got)
	}
	requires["b40"] = "app"
	if got := requiring(requires, "").Waits("app", "rome"); !strings.Contains(got, "requires itself") {
		t.Error(got)
	}
}

// work is a work of an add-on with ConfigMaps. A name that ends with ! is applied.
func work(addOn string, age int, names ...string) ocm.ManifestWork {
	w := ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Name: "addon-" + addOn + "-deploy-0", Namespace: "rome", Labels: map[string]string{ocm.AddOnLabel: addOn},
		CreationTimestamp: metav1.NewTime(time.Unix(1000-int64(age), 0)),
	}}
	for _, text := range names {
		name, applied := strings.CutSuffix(text, "!")
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
		})
		if applied {
			w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, ocm.ManifestStatus{
				ResourceMeta: ocm.ResourceMeta{Resource: "configmaps", Namespace: "default", Name: name},
				Conditions:   []metav1.Condition{{Type: "Applied", Status: "True"}},
			})
		}
	}
	return w
}

func TestContestedObjectsAreFound(t *testing.T) {
	namespace := ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome"}}
	namespace.Spec.Workload.Manifests = []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "n"}}}
	reads := work("b", 0, "x")
	reads.Spec.ManifestConfigs = []ocm.ManifestConfig{{
		ResourceIdentifier: ocm.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "x"},
		UpdateStrategy:     &ocm.UpdateStrategy{Type: ocm.UpdateReadOnly},
	}}
	elsewhere := work("b", 9, "x!")
	elsewhere.Namespace = "oslo"
	type works = []ocm.ManifestWork
	for name, tt := range map[string]struct {
		planned, existing, others works
		want                      string
	}{
		"nobody else has it":                        {works{work("a", 0, "x")}, nil, works{work("b", 9, "y")}, ""},
		"the second finds it taken":                 {works{work("a", 0, "x", "z")}, nil, works{work("b", 0, "x")}, "configmaps default/x on cluster rome belongs to add-on b"},
		"the first does not care about the second":  {works{work("a", 0, "x")}, works{work("a", 9, "x")}, works{work("b", 0, "x")}, ""},
		"of two at once, the older one has it":      {works{work("a", 0, "x")}, works{work("a", 0, "x")}, works{work("b", 9, "x")}, "add-on b"},
		"what an agent has applied stays":           {works{work("a", 0, "x")}, works{work("a", 0, "x!")}, works{work("b", 9, "x")}, ""},
		"of the same age, the name decides":         {works{work("a", 0, "x")}, works{work("a", 0, "x")}, works{work("b", 0, "x")}, ""},
		"and the other one agrees":                  {works{work("b", 0, "x")}, works{work("b", 0, "x")}, works{work("a", 0, "x")}, "add-on a"},
		"Namespaces are shared":                     {works{namespace}, nil, works{namespace}, ""},
		"what is only read belongs to nobody":       {works{work("a", 0, "x")}, nil, works{reads}, ""},
		"another cluster has objects of this name":  {works{work("a", 0, "x")}, nil, works{elsewhere}, ""},
		"an add-on's new object that another owns":  {works{work("a", 0, "y", "x")}, works{work("a", 9, "y!")}, works{work("b", 0, "x")}, "add-on b"},
		"a work that belongs to no add-on is named": {works{work("a", 0, "x")}, nil, works{func() ocm.ManifestWork { w := work("", 0, "x"); w.Labels = nil; return w }()}, "belongs to ManifestWork rome/addon--deploy-0"},
	} {
		got := fmt.Sprint(relation.Contests(tt.planned, tt.existing, tt.others))
		if (got == "[]") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	many := relation.Contests(works{work("a", 0, "1", "2", "3", "4", "5", "6", "7")}, nil, works{work("b", 0, "1", "2", "3", "4", "5", "6", "7")})
	if got := relation.Message(many); !strings.HasSuffix(got, "; and 2 more: take it out of one of the two, or remove one of them from the cluster") {
		t.Error(got)
	}
}

func TestReported(t *testing.T) {
	w := work("a", 0, "x")
	if got := relation.Reported([]ocm.ManifestWork{w}); got != "" {
		t.Error(got)
	}
	w.Status.ResourceStatus.Manifests = []ocm.ManifestStatus{{
		ResourceMeta: ocm.ResourceMeta{Resource: "configmaps", Namespace: "default", Name: "x"},
		Conditions: []metav1.Condition{{
			Type: "Applied", Status: "False", Reason: relation.ManifestConflict, Message: "Failed to apply manifest: it belongs to set kurl/registry",
		}},
	}}
	if got := relation.Reported([]ocm.ManifestWork{w}); got != "configmaps default/x on cluster rome: it belongs to set kurl/registry" {
		t.Error(got)
	}
}
