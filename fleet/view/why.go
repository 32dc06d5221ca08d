package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/rollout"
)

// Why is the way of an add-on to one cluster.
type Why struct {
	AddOn   string `json:"addOn"`
	Cluster string `json:"cluster"`
	Links   []Link `json:"links"`
	// Answer is one sentence: what holds the add-on up, and the way out.
	Answer string `json:"answer"`
}

// Link is one step from the placement to the add-on on the cluster.
type Link struct {
	Object string `json:"object"`
	OK     bool   `json:"ok"`
	State  string `json:"state"`
}

// Why walks from the placement to the objects on the cluster, and ends at the first fault.
func (v View) Why(ctx context.Context, name, cluster string) (Why, error) {
	known, err := v.read(ctx, name)
	if err != nil {
		return Why{}, err
	}
	w := &Why{AddOn: name, Cluster: cluster}
	c := known.Clusters[cluster]
	if c == nil {
		return Why{}, fmt.Errorf("there is no ManagedCluster %q; 'sealift fleet clusters' lists those that exist", cluster)
	}
	at := slices.IndexFunc(known.Installed, func(a *ocm.ManagedClusterAddOn) bool { return a.Namespace == cluster })
	for _, step := range []func() (bool, error){
		func() (bool, error) { return w.cluster(c), nil },
		func() (bool, error) { return w.placement(known, c, at >= 0), nil },
		func() (bool, error) {
			d, err := v.decide(ctx, known, v.Lookup(ctx))
			if err != nil {
				return false, err
			}
			return w.turn(d, known.Installed[at]), nil
		},
		func() (bool, error) { return w.deployed(known.Installed[at]), nil },
		func() (bool, error) { return v.works(ctx, w, known.Installed[at], inventory.IsCarried(c)) },
		func() (bool, error) { return w.health(known.Installed[at]), nil },
	} {
		ok, err := step()
		if err != nil {
			return Why{}, err
		}
		if !ok {
			break
		}
	}
	w.Answer = cmp.Or(w.Answer, fmt.Sprintf("%s is on %s with the configuration that it is to have, and healthy.", name, cluster))
	return *w, nil
}

func (w *Why) add(object, state string, ok bool) bool {
	w.Links = append(w.Links, Link{Object: object, State: state, OK: ok})
	return ok
}

// stop ends the way with an answer.
func (w *Why) stop(format string, args ...any) bool {
	w.Answer = fmt.Sprintf(format, args...)
	return false
}

func (w *Why) cluster(c *ocm.ManagedCluster) bool {
	object := "ManagedCluster " + c.Name
	state := meta.FindStatusCondition(c.Status.Conditions, inventory.Available)
	switch {
	case !c.Spec.HubAcceptsClient:
		w.add(object, "is not accepted", false)
		return w.stop("The hub does not accept cluster %s: set spec.hubAcceptsClient of its ManagedCluster, then run 'sealift fleet join %s'.", c.Name, c.Name)
	case inventory.IsCarried(c) && state == nil:
		return w.add(object, "is carried, and no report of it was taken yet", true)
	case inventory.IsCarried(c):
		return w.add(object, "is carried: "+state.Message, true)
	case state == nil:
		w.add(object, "never reported", false)
		return w.stop("The agent of cluster %s has never reported: run 'sealift fleet agent' there with the kubeconfig that 'sealift fleet join' wrote.", c.Name)
	case state.Status != metav1.ConditionTrue:
		w.add(object, string(state.Status)+": "+state.Message, false)
		return w.stop("Cluster %s is not available (%s): look at its agent and at the way from there to the hub.", c.Name, strings.TrimSuffix(state.Message, "."))
	}
	return w.add(object, "is available", true)
}

func (w *Why) placement(known *inventory.AddOn, c *ocm.ManagedCluster, installed bool) bool {
	object := "ClusterManagementAddOn " + known.Name
	if known.Spec.InstallStrategy.Type != ocm.InstallPlacements {
		if w.add(object, "is installed by hand", installed) {
			return true
		}
		return w.stop("Nobody has installed %s on %s: create a ManagedClusterAddOn of that name in namespace %s.", known.Name, c.Name, c.Name)
	}
	w.add(object, fmt.Sprintf("is installed by %d placements", len(known.Placements)), true)
	selected := false
	var why []string
	for i, wish := range known.Spec.InstallStrategy.Placements {
		object := "Placement " + wish.Namespace + "/" + wish.Name
		p := known.Placements[i]
		if p == nil {
			w.add(object, "does not exist", false)
			why = append(why, object+" does not exist")
			continue
		}
		for _, g := range known.Groups[i] {
			if slices.Contains(g.Clusters, c.Name) {
				selected = w.add(object, fmt.Sprintf("selects the cluster, in decision group %d %s", g.Index, g.Name), true)
			}
		}
		if selected {
			continue
		}
		state := "does not select the cluster"
		for _, condition := range p.Status.Conditions {
			if bad := condition.Type == "PlacementMisconfigured"; bad == (condition.Status == metav1.ConditionTrue) {
				state += ": " + condition.Message
			}
		}
		w.add(object, state, false)
		why = append(why, object+" "+state)
	}
	switch {
	case !selected && len(why) > 0:
		return w.stop("No placement of %s selects %s (%s): see the predicates, tolerations and cluster sets of the placement, and the labels and taints of the cluster.",
			known.Name, c.Name, strings.Join(why, "; "))
	case !selected:
		return w.stop("The install strategy of %s lists no placement: add one.", known.Name)
	case !installed:
		return w.stop("The hub has not made the ManagedClusterAddOn yet: see whether a hub runs and what it logs.")
	}
	return true
}

// turn reports whether the rollout has reached the cluster.
func (w *Why) turn(d *decided, a *ocm.ManagedClusterAddOn) bool {
	object := "rollout of " + a.Name
	p, decision := d.of(a.Namespace)
	if decision == nil {
		return w.add(object, "does not cover the cluster: it gets the defaults", true)
	}
	if p.Err != nil {
		w.add(object, p.Err.Error(), false)
		return w.stop("The rollout of %s does not run: %v.", a.Name, p.Err)
	}
	wave := p.Plan.Spec.Waves[decision.Wave].Name
	state := fmt.Sprintf("%s in wave %s", decision.Status, wave)
	if decision.Status == rollout.TimedOut {
		w.add(object, state, false)
		return w.stop("The change did not succeed on %s before its deadline (%s): repair it, or go back to the old configuration.", a.Namespace, cmp.Or(message(a), "no reason is known"))
	}
	if decision.Action != rollout.Wait {
		return w.add(object, state, true)
	}
	w.add(object, state+", waits for "+string(decision.Reason), false)
	var busy, failed []string
	for _, t := range p.Rollout.Targets {
		switch {
		case t.Status == rollout.Failed || t.Status == rollout.TimedOut:
			failed = append(failed, t.Name)
		case t.AtWork:
			busy = append(busy, t.Name)
		}
	}
	switch decision.Reason {
	case rollout.WaitsForRepair:
		return w.stop("The rollout stopped because too many clusters failed (%s): ask why about them, and repair them or go back to the old configuration.", strings.Join(failed, ", "))
	case rollout.WaitsForResume:
		return w.stop("The rollout is paused: 'sealift fleet resume %s' lets it go on.", a.Name)
	case rollout.WaitsForOthers:
		return w.stop("%s.", d.Held[a.Namespace])
	case rollout.WaitsForWakeUp:
		return w.stop("Cluster %s is asleep: it gets the change when it is in contact again.", a.Namespace)
	}
	return w.stop("It is not the turn of %s yet: the rollout waits for %s.", a.Namespace, cmp.Or(strings.Join(busy, ", "), "clusters before it"))
}

func (w *Why) deployed(a *ocm.ManagedClusterAddOn) bool {
	object := "ManagedClusterAddOn " + a.Namespace + "/" + a.Name
	if c := meta.FindStatusCondition(a.Status.Conditions, relation.Conflict); c != nil && c.Status == metav1.ConditionTrue {
		w.add(object, relation.Conflict+": "+c.Message, false)
		return w.stop("%s.", strings.TrimSuffix(c.Message, "."))
	}
	for _, kind := range []string{"Configured", "RegistrationApplied", deploy.HostingClusterValidity, deploy.ManifestApplied, deploy.HostingManifestApplied, deploy.HookManifestCompleted} {
		c := meta.FindStatusCondition(a.Status.Conditions, kind)
		if c == nil {
			continue // an add-on with its own manager has its own conditions
		}
		if !w.add(object, kind+": "+c.Message, c.Status == metav1.ConditionTrue) {
			return w.stop("%s is %s on %s: %s.", kind, c.Status, a.Namespace, strings.TrimSuffix(c.Message, "."))
		}
	}
	return true
}

// works checks the agent's reports.
func (v View) works(ctx context.Context, w *Why, a *ocm.ManagedClusterAddOn, carried bool) (bool, error) {
	var list ocm.List[ocm.ManifestWork]
	host := a.Annotations[deploy.HostingCluster]
	var all []ocm.ManifestWork
	for _, cluster := range slices.Compact([]string{a.Namespace, cmp.Or(host, a.Namespace)}) {
		if err := v.List(ctx, &list, client.InNamespace(cluster), client.MatchingLabels{ocm.AddOnLabel: a.Name}); err != nil {
			return false, fmt.Errorf("read the works of %s: %w", types.NamespacedName{Namespace: cluster, Name: a.Name}, err)
		}
		all = append(all, list.Items...)
	}
	for _, work := range status.Works(a.Name, a.Namespace, host, all) {
		object := "ManifestWork " + work.Namespace + "/" + work.Name
		applied := meta.FindStatusCondition(work.Status.Conditions, "Applied")
		if applied == nil || applied.ObservedGeneration != work.Generation {
			w.add(object, "is not applied yet", false)
			if carried {
				return w.stop("%s waits to be carried: 'sealift fleet pack %s' makes its parcel, and 'sealift fleet take' takes the report that comes back.", work.Name, a.Namespace), nil
			}
			return w.stop("The agent of %s has not applied %s yet: see what it logs.", work.Namespace, work.Name), nil
		}
		if !w.add(object, applied.Message, applied.Status == metav1.ConditionTrue) {
			return w.stop("The agent of %s cannot apply %s: %s.", work.Namespace, work.Name, strings.TrimSuffix(applied.Message, ".")), nil
		}
		for _, m := range work.Status.ResourceStatus.Manifests {
			id := m.ResourceMeta
			name := strings.Trim(id.Kind+" "+id.Namespace+"/"+id.Name, "/")
			if c := meta.FindStatusCondition(m.Conditions, "Available"); c != nil && c.Status != metav1.ConditionTrue {
				w.add(name, c.Message, false)
				return w.stop("%s is missing on %s: %s.", name, work.Namespace, strings.TrimSuffix(c.Message, ".")), nil
			}
			if len(m.StatusFeedback.Values) == 0 {
				continue
			}
			var values []string
			done := true
			for _, value := range m.StatusFeedback.Values {
				values = append(values, value.Name+"="+text(value.FieldValue))
				done = done && (value.Name != status.RolledOut || value.FieldValue.Boolean == nil || *value.FieldValue.Boolean)
			}
			if !w.add(name, strings.Join(values, " "), done) {
				return w.stop("%s is not rolled out on %s (%s): look at its pods there.", name, work.Namespace, strings.Join(values, " ")), nil
			}
		}
	}
	return true, nil
}

func text(v ocm.FieldValue) string {
	switch {
	case v.Integer != nil:
		return strconv.FormatInt(*v.Integer, 10)
	case v.String != nil:
		return *v.String
	case v.Boolean != nil:
		return strconv.FormatBool(*v.Boolean)
	case v.JSON != nil:
		return *v.JSON
	}
	return ""
}

func (w *Why) health(a *ocm.ManagedClusterAddOn) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, "Available")
	if c == nil {
		w.add("health of "+a.Name, "nobody has reported it yet", false)
		return w.stop("Nobody has reported the health of %s on %s yet: the agent does so with its next report.", a.Name, a.Namespace)
	}
	if !w.add("health of "+a.Name, c.Message, c.Status == metav1.ConditionTrue) {
		return w.stop("%s is on %s and not healthy: %s.", a.Name, a.Namespace, strings.TrimSuffix(c.Message, "."))
	}
	return true
}
