// Package deploy builds the ManifestWorks of an add-on on one cluster, and decides the next step (O-28 to O-31, X-21 to X-24,
// It is pure: a controller renders the manifests, asks, and writes what differs.
//
// An add-on may be hosted: a part of its manifests, its agent, runs on another cluster of the hub. Then some works are in the
// namespace of that cluster. An owner cannot be in another namespace, so finalizers clean these works up.
package deploy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
)

const (
	group = "addon.open-cluster-management.io"
	// orphan marks manifests whose objects stay when the add-on goes.
	orphan = group + "/deletion-orphan"
	// preDelete marks the Jobs and Pods that run before the add-on goes. It may be a label, even in its old form.
	preDelete    = group + "/addon-pre-delete"
	oldPreDelete = "open-cluster-management.io/addon-pre-delete"
	// location returns where a manifest of a hosted add-on belongs. It may be a label.
	location = group + "/hosted-manifest-location"
)

// maxManifest is how many bytes upstream's agents accept in one work, 500 KiB, and maxWork how many the manifests of one work may have, 80
// % of it. A manifest that is larger than maxWork gets its own work.
const (
	maxManifest = 512000
	maxWork     = 409600
)

// AddOn is an add-on on a cluster with its manifests.
type AddOn struct {
	Name, Cluster string
	// Hosting is the cluster that hosts the agent. Empty means that the add-on's own cluster runs all of it.
	Hosting string
	// Owner becomes the controller of the works on the add-on's own cluster.
	Owner metav1.OwnerReference
	// References are the configurations that the manifests were made of.
	References []ocm.ConfigReference
	// Spec is the part of the add-on's template about works. Its manifests do not count.
	Spec      ocm.AgentSpec
	Manifests []map[string]any
	// Existing are the works that the add-on has. A manifest stays in its work.
	Existing []ocm.ManifestWork
}

// Plan has the works that an add-on should have on its clusters. A work has the namespace of the cluster that it is for.
type Plan struct {
	// Works run while the add-on is installed.
	Works []ocm.ManifestWork
	// Hooks run before the add-on goes. There is at most one for each cluster.
	Hooks []ocm.ManifestWork
}

// HookName is the name of the work that runs on the add-on's cluster before the add-on goes.
func HookName(addOn string) string { return "addon-" + addOn + "-pre-delete" }

// IsHook reports whether a work of an add-on runs before the add-on goes.
func IsHook(w ocm.ManifestWork) bool {
	name := HookName(w.Labels[ocm.AddOnLabel])
	return w.Name == name || w.Name == name+"-hosting-"+w.Labels[ocm.AddOnNamespaceLabel]
}

// side is one of the clusters of an add-on.
type side struct {
	AddOn
	namespace string
	// prefix begins the names of works. hook is the name of the work of hooks.
	prefix, hook string
	labels       map[string]string
	owners       []metav1.OwnerReference
}

// sides returns the add-on's own cluster, and then the hosting one, if any.
func (a AddOn) sides() []side {
	name := "addon-" + a.Name + "-deploy-"
	sides := []side{{
		AddOn: a, namespace: a.Cluster, prefix: name, hook: HookName(a.Name),
		labels: map[string]string{ocm.AddOnLabel: a.Name}, owners: []metav1.OwnerReference{a.Owner},
	}}
	if a.Hosting != "" {
		sides = append(sides, side{
			AddOn: a, namespace: a.Hosting, prefix: name + "hosting-" + a.Cluster + "-", hook: HookName(a.Name) + "-hosting-" + a.Cluster,
			labels: map[string]string{ocm.AddOnLabel: a.Name, ocm.AddOnNamespaceLabel: a.Cluster},
		})
	}
	return sides
}

// Works returns the works of the add-on.
func Works(a AddOn) (Plan, error) {
	sides := a.sides()
	deployed, hooks := make([][]map[string]any, len(sides)), make([][]map[string]any, len(sides))
	for _, m := range a.Manifests {
		at := 0
		switch where := mark(m, location); where {
		case "none":
			continue
		case "", "managed":
		case "hosting":
			at = len(sides) - 1 // an add-on without a host runs on its own cluster
		default:
			return Plan{}, fmt.Errorf("%s: %s is %q, not managed, hosting or none", nameOf(m), location, where)
		}
		if isHook(m) {
			hooks[at] = append(hooks[at], m)
		} else {
			deployed[at] = append(deployed[at], m)
		}
	}
	var plan Plan
	for i, s := range sides {
		packed, err := s.pack(deployed[i])
		if err != nil {
			return Plan{}, err
		}
		for _, name := range slices.Sorted(maps.Keys(packed)) {
			plan.Works = append(plan.Works, s.work(name, packed[name], probed))
		}
		if len(hooks[i]) > 0 {
			plan.Hooks = append(plan.Hooks, s.work(s.hook, hooks[i], isHook))
		}
	}
	for i := range plan.Works {
		if err := annotate(&plan.Works[i], a.References); err != nil {
			return Plan{}, err
		}
	}
	return plan, nil
}

// Completed reports whether all hooks of a work have succeeded.
func Completed(w ocm.ManifestWork) bool {
	done := 0
	for _, m := range w.Status.ResourceStatus.Manifests {
		for _, v := range m.StatusFeedback.Values {
			if s := v.FieldValue.String; s != nil && (v.Name == "JobComplete" && *s == "True" || v.Name == "PodPhase" && *s == "Succeeded") {
				done++
				break
			}
		}
	}
	return done > 0 && done == len(w.Spec.Workload.Manifests)
}

// work makes a work. For objects that the add-on's probes need, the work reports their well-known status.
func (a side) work(name string, manifests []map[string]any, ask func(map[string]any) bool) ocm.ManifestWork {
	w := ocm.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: ocm.WorkVersion.String(), Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: a.namespace, Labels: a.labels, OwnerReferences: a.owners,
		},
	}
	w.Spec.Executor = a.Spec.Executor
	w.Spec.Workload.Manifests = manifests
	w.Spec.DeleteOption = a.deletion(manifests)
	for _, m := range manifests {
		id := Identify(m)
		config := a.Spec.ConfigOf(id)
		config.FeedbackRules = nil
		if ask(m) {
			config.FeedbackRules = []ocm.FeedbackRule{{Type: ocm.WellKnownStatus}}
		}
		for _, c := range a.Spec.ManifestConfigs {
			if c.Matches(id) {
				for _, r := range c.FeedbackRules {
					config.FeedbackRules = merge(config.FeedbackRules, r)
				}
			}
		}
		if config.FeedbackRules != nil || config.UpdateStrategy != nil || config.ConditionRules != nil {
			w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, config)
		}
	}
	return w
}

// merge adds a feedback rule. The well-known status is reported once, and so is each name of a JSON path: the first counts.
func merge(rules []ocm.FeedbackRule, add ocm.FeedbackRule) []ocm.FeedbackRule {
	known := make(map[string]bool)
	for _, r := range rules {
		if r.Type == add.Type && r.Type != ocm.JSONPaths {
			return rules
		}
		for _, p := range r.JSONPaths {
			known[p.Name] = true
		}
	}
	if add.Type == ocm.JSONPaths {
		add.JSONPaths = slices.DeleteFunc(slices.Clone(add.JSONPaths), func(p ocm.JSONPath) bool { return known[p.Name] })
		if len(add.JSONPaths) == 0 {
			return rules
		}
	}
	return append(slices.Clone(rules), add)
}

// deletion adds the manifests that are marked to the objects that the template lets stay.
func (a AddOn) deletion(manifests []map[string]any) *ocm.DeleteOption {
	var rules []ocm.ResourceIdentifier
	for _, m := range manifests {
		if annotations, _ := metadata(m)["annotations"].(map[string]any); annotations != nil {
			if _, found := annotations[orphan]; found {
				rules = append(rules, Identify(m))
			}
		}
	}
	if len(rules) == 0 || a.Spec.DeleteOption != nil && a.Spec.DeleteOption.PropagationPolicy == ocm.DeleteOrphan {
		return a.Spec.DeleteOption
	}
	o := ocm.DeleteOption{}
	if a.Spec.DeleteOption != nil {
		o = *a.Spec.DeleteOption
	}
	if o.SelectivelyOrphan != nil {
		rules = append(slices.Clone(o.SelectivelyOrphan.OrphaningRules), rules...)
	}
	o.PropagationPolicy, o.SelectivelyOrphan = ocm.DeleteSelectivelyOrphan, &ocm.SelectivelyOrphans{OrphaningRules: rules}
	return &o
}

func annotate(w *ocm.ManifestWork, refs []ocm.ConfigReference) error {
	if len(refs) == 0 {
		return nil
	}
	text, err := configuration.Annotate(refs)
	w.Annotations = map[string]string{configuration.HashAnnotation: text}
	return err
}

// packItem is a manifest that pack divides.
type packItem struct {
	manifest map[string]any
	id       string
	order    int
	size     int // in bytes, as JSON
}

// pack divides the manifests among works by name. Those that are in a work stay there while there is room. The others go
// to the work with the most room, large ones first.
func (a side) pack(manifests []map[string]any) (map[string][]map[string]any, error) {
	home := make(map[string]string)
	free := make(map[string]int)
	for _, w := range a.Existing {
		if IsHook(w) || w.Namespace != a.namespace || w.Labels[ocm.AddOnNamespaceLabel] != a.labels[ocm.AddOnNamespaceLabel] {
			continue
		}
		free[w.Name] = maxWork
		for _, m := range w.Spec.Workload.Manifests {
			home[nameOf(m)] = w.Name
		}
	}
	packed := make(map[string][]packItem)
	put := func(name string, i packItem) {
		free[name] -= i.size
		packed[name] = append(packed[name], i)
	}
	var all, left []packItem
	for order, m := range manifests {
		text, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		i := packItem{m, nameOf(m), order, len(text)}
		if i.size > maxManifest {
			return nil, fmt.Errorf("%s has %d bytes; the limit for a manifest is %d", i.id, i.size, maxManifest)
		}
		all = append(all, i)
	}
	// one that needs its own work takes its work before others do
	slices.SortStableFunc(all, func(x, y packItem) int { return cmp.Compare(max(y.size, maxWork), max(x.size, maxWork)) })
	for _, i := range all {
		if name, found := home[i.id]; found && free[name] >= min(i.size, maxWork) {
			put(name, i)
		} else {
			left = append(left, i)
		}
	}
	slices.SortStableFunc(left, func(x, y packItem) int { return cmp.Compare(y.size, x.size) })
	next := 0
	for _, i := range left {
		best := ""
		for _, name := range slices.Sorted(maps.Keys(free)) {
			if free[name] >= i.size && (best == "" || free[name] > free[best]) {
				best = name
			}
		}
		for best == "" {
			name := fmt.Sprintf("%s%d", a.prefix, next)
			if _, taken := free[name]; taken {
				next++
				continue
			}
			free[name], best = maxWork, name
		}
		put(best, i)
	}
	return unpacked(packed), nil
}

// unpacked returns the manifests of each work in their own order.
func unpacked(packed map[string][]packItem) map[string][]map[string]any {
	works := make(map[string][]map[string]any, len(packed))
	for name, items := range packed {
		slices.SortFunc(items, func(x, y packItem) int { return cmp.Compare(x.order, y.order) })
		for _, i := range items {
			works[name] = append(works[name], i.manifest)
		}
	}
	return works
}

// isHook reports whether a manifest runs before the add-on goes.
func isHook(m map[string]any) bool {
	if m["kind"] != "Job" && m["kind"] != "Pod" {
		return false
	}
	for _, key := range []string{"annotations", "labels"} {
		marks, _ := metadata(m)[key].(map[string]any)
		_, now := marks[preDelete]
		_, old := marks[oldPreDelete]
		if now || old {
			return true
		}
	}
	return false
}

// probed reports whether the health of the add-on depends on an object.
func probed(m map[string]any) bool {
	spec, _ := m["spec"].(map[string]any)
	replicas, found := spec["replicas"]
	return m["kind"] == "DaemonSet" || m["kind"] == "Deployment" && (!found || fmt.Sprint(replicas) != "0")
}

func metadata(m map[string]any) map[string]any {
	md, _ := m["metadata"].(map[string]any)
	return md
}

// mark returns an annotation or a label.
func mark(m map[string]any, name string) string {
	for _, key := range []string{"annotations", "labels"} {
		marks, _ := metadata(m)[key].(map[string]any)
		if text, ok := marks[name].(string); ok {
			return text
		}
	}
	return ""
}

// nameOf names the object of a manifest.
func nameOf(m map[string]any) string {
	id := Identify(m)
	return strings.Trim(fmt.Sprintf("%v %s/%s in %q", m["kind"], id.Namespace, id.Name, id.Group), " ")
}

// Identify guesses the resource of a manifest from its kind, as upstream does: no cluster is asked here.
func Identify(m map[string]any) ocm.ResourceIdentifier {
	version, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	g, _, grouped := strings.Cut(version, "/")
	if !grouped {
		g = ""
	}
	name, _ := metadata(m)["name"].(string)
	namespace, _ := metadata(m)["namespace"].(string)
	return ocm.ResourceIdentifier{Group: g, Resource: Resource(kind), Name: name, Namespace: namespace}
}

// Resource returns the plural of a kind, by the rules of English that Kubernetes uses.
func Resource(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case name == "endpoints":
		return name
	case strings.HasSuffix(name, "s"), strings.HasSuffix(name, "x"), strings.HasSuffix(name, "ch"), strings.HasSuffix(name, "sh"):
		return name + "es"
	case strings.HasSuffix(name, "y") && len(name) > 1 && !strings.ContainsRune("aeiou", rune(name[len(name)-2])):
		return name[:len(name)-1] + "ies"
	}
	return name + "s"
}
