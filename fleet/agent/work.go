package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/kube"
)

// appliedWork is the agent's state of a work while it runs.
type appliedWork struct {
	generation int64
	seal       string
	at         time.Time
	manifests  []manifest
}

// manifest is a manifest of a work, and its result.
type manifest struct {
	object *unstructured.Unstructured
	id     ocm.ResourceIdentifier
	config ocm.ManifestConfig
	rules  []rule
	err    error
	// complete manifests are no longer applied.
	complete bool
	// home is the manner of the set that has the object of a manifest which is only to be created now.
	home *strategy
}

// isLeft reports whether the object stays in its set.
func (m *manifest) isLeft() bool { return m.complete || m.home != nil }

// reconcile brings one work and the cluster together. It asks to be called again while the work has something to check.
func (a *agent) reconcile(ctx context.Context, key kube.Ref) (again time.Duration, err error) {
	work := &ocm.ManifestWork{}
	err = a.hub.Get(ctx, types.NamespacedName{Namespace: a.Cluster, Name: key.Name}, work)
	if apierrors.IsNotFound(err) {
		a.remember(key.Name, nil)
		a.note(key.Name, nil)
		a.delivery.forget(key.Name)
		return 0, nil // its finalizer went when its objects were gone
	}
	if err != nil {
		return 0, err
	}
	if !work.DeletionTimestamp.IsZero() {
		return a.remove(ctx, work)
	}
	known := a.remembered(work.Name)
	if known == nil || known.generation != work.Generation || known.seal != work.Annotations[seal.Annotation] || time.Since(known.at) > a.Repair {
		if err := a.accept(ctx, work); err != nil {
			return a.Look, a.refuse(ctx, work, err)
		}
		if err := a.bring(ctx, work); err != nil && !started(work, known) {
			return a.Look, a.withoutImages(ctx, work, err)
		}
		if !slices.Contains(work.Finalizers, ocm.WorkFinalizer) {
			if err := a.finalizers(ctx, work, append(slices.Clone(work.Finalizers), ocm.WorkFinalizer)); err != nil {
				return 0, err
			}
		}
		known = &appliedWork{generation: work.Generation, seal: work.Annotations[seal.Annotation], at: time.Now()}
		if known.manifests, err = a.applyAndRecord(ctx, work); err != nil {
			return 0, err
		}
		a.remember(work.Name, known)
	}
	after, ok := work.DeepCopyObject().(*ocm.ManifestWork)
	if !ok {
		return 0, errors.New("the deep copy of a work has another type")
	}
	failed := a.status(ctx, after, known.manifests)
	a.verified(after)
	if failed {
		known.at = time.Time{} // next time it is applied again
	}
	if err := a.patchStatus(ctx, work, after); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("report work %s: %w", work.Name, err)
	}
	return a.Look, nil
}

func (a *agent) remembered(work string) *appliedWork {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.applied[work]
}

// remember records the applied objects of a work. nil forgets the work.
func (a *agent) remember(work string, applied *appliedWork) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if applied == nil {
		delete(a.applied, work)
	} else {
		a.applied[work] = applied
	}
}

func (a *agent) finalizers(ctx context.Context, work *ocm.ManifestWork, list []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": list, "resourceVersion": work.ResourceVersion}})
	if err != nil {
		return err
	}
	return a.hub.Patch(ctx, work, client.RawPatch(types.MergePatchType, patch))
}

// strategy is the update strategy of objects that are applied together.
type strategy struct {
	manager    string
	force      bool
	createOnly bool
}

// set names the set of the objects of a work that are applied in one manner.
func (m strategy) set(work string) kube.Set {
	name := "work." + work
	if m.createOnly {
		name += ".create-only"
	} else if m.manager != ocm.DefaultFieldManager || !m.force {
		name += "." + strings.ToLower(m.manager)
		if m.force {
			name += ".force"
		}
	}
	return setNamed(name)
}

func setNamed(name string) kube.Set { return kube.Set{Name: name, Namespace: Namespace} }

// strategiesOf has each strategy that is in use, at least the default one: a work may lose its last manifest.
func strategiesOf(manifests []manifest) map[strategy][]int {
	by := map[strategy][]int{{manager: ocm.DefaultFieldManager, force: true}: nil}
	for i, m := range manifests {
		how := strategy{manager: ocm.DefaultFieldManager, force: true}
		if s := m.config.UpdateStrategy; s != nil {
			switch s.Type {
			case ocm.UpdateReadOnly:
				continue
			case ocm.UpdateCreateOnly:
				how = strategy{manager: ocm.DefaultFieldManager, createOnly: true}
				if m.home != nil {
					how = *m.home
				}
			case ocm.UpdateServerSideApply:
				how.force = false
				if o := s.ServerSideApply; o != nil {
					how.manager, how.force = cmp.Or(o.FieldManager, ocm.DefaultFieldManager), o.Force
				}
			}
		}
		if m.err == nil {
			by[how] = append(by[how], i)
		}
	}
	return by
}

// engine returns the engine for a field manager. Without force it takes fields only from the managers of an earlier agent.
func (a *agent) engine(manager string, earlier ...string) *kube.Engine {
	return kube.New(a.local, kube.Options{Manager: manager, TakeOver: append([]string{}, earlier...)})
}

// applyAndRecord applies a work, and records its objects. A manifest that fails does not stop the others.
func (a *agent) applyAndRecord(ctx context.Context, work *ocm.ManifestWork) ([]manifest, error) {
	was, err := a.recalled(ctx, work)
	if err != nil {
		return nil, err
	}
	manifests := a.read(ctx, work)
	if a.freeze(ctx, was.Complete, manifests) {
		was.Complete = completed(manifests)
		return manifests, a.recordPlaces(ctx, work, was)
	}
	a.findHomes(ctx, work, was, manifests)
	by := strategiesOf(manifests)
	now := placesOf(work, was, manifests, by)
	gone, err := a.settle(ctx, work, was, now)
	if err != nil {
		return nil, fmt.Errorf("release objects of work %s whose update strategy changed: %w", work.Name, err)
	}
	former, err := a.formerWorks(ctx, work.Name)
	if err != nil {
		return nil, err
	}
	// what cannot be read now may be a member, so nothing is pruned then
	unread := slices.ContainsFunc(manifests, func(m manifest) bool { return m.err != nil })
	a.apply(ctx, work, manifests, by, unread, managers(former))
	if len(former) > 0 && unread {
		return manifests, nil // the earlier record stays until all of the work can be read
	}
	if err := a.takeOver(ctx, former, func(id ocm.ResourceIdentifier) bool {
		return slices.ContainsFunc(manifests, func(m manifest) bool { return m.names(id) })
	}); err != nil {
		a.Log.WarnContext(ctx, "objects that left a work were not deleted", "work", work.Name, "error", err)
		return manifests, nil
	}
	if !unread {
		a.dropSets(ctx, work, gone)
	}
	if len(gone.Sets) > 0 {
		now = now.with(gone)
	}
	return manifests, a.record(ctx, work, manifests, now)
}

// apply applies the manifests of a work, each manner for itself.
func (a *agent) apply(ctx context.Context, work *ocm.ManifestWork, manifests []manifest, by map[strategy][]int, unread bool, earlier []string) {
	for i := range manifests {
		if m := &manifests[i]; m.err == nil && !m.isLeft() {
			m.err = a.permit(ctx, work.Spec, m)
			unread = unread || m.err != nil
		}
	}
	for how, members := range by {
		var objects []*unstructured.Unstructured
		for _, i := range members {
			if manifests[i].err != nil || manifests[i].isLeft() {
				continue
			}
			var object *unstructured.Unstructured
			if object, manifests[i].err = a.ignore(ctx, manifests[i], how); manifests[i].err == nil {
				objects = append(objects, object)
			} else {
				unread = true
			}
		}
		if len(objects) == 0 && !a.exists(ctx, how.set(work.Name)) {
			continue
		}
		result, err := a.engine(how.manager, earlier...).Apply(ctx, how.set(work.Name), objects, kube.ApplyOptions{
			Force: how.force, CreateOnly: how.createOnly, NoPrune: unread, PruneProtected: true, PruneShared: true, FailFast: true, Timeout: time.Minute,
			Spare: spareLeft(manifests),
		})
		for _, i := range members {
			m := &manifests[i]
			at := slices.IndexFunc(result.Entries, func(e kube.Entry) bool {
				ref := kube.RefOf(m.object)
				return e.Object.Kind == ref.Kind && e.Object.Group == ref.Group && e.Object.Name == ref.Name &&
					(e.Object.Namespace == ref.Namespace || ref.Namespace == "")
			})
			switch {
			case m.err != nil || m.isLeft():
			case at >= 0 && result.Entries[at].Action == kube.Failed:
				m.err = result.Entries[at].Err
			case at < 0 && err != nil: // the whole set failed
				m.err = err
			}
		}
		if err != nil {
			a.Log.WarnContext(ctx, "a work was not applied", "work", work.Name, "error", err)
		}
	}
}

// exists reports whether a set has been applied before.
func (a *agent) exists(ctx context.Context, set kube.Set) bool {
	_, err := a.reader.CoreV1().Secrets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

// read parses the manifests of a work.
func (a *agent) read(ctx context.Context, work *ocm.ManifestWork) []manifest {
	manifests := make([]manifest, len(work.Spec.Workload.Manifests))
	for i, content := range work.Spec.Workload.Manifests {
		m := &manifests[i]
		m.object = &unstructured.Unstructured{Object: content}
		ref := kube.RefOf(m.object)
		m.id = ocm.ResourceIdentifier{Group: ref.Group, Namespace: ref.Namespace, Name: ref.Name}
		if m.id.Resource, m.err = a.local.Resource(ctx, ref); m.err != nil {
			continue
		}
		if ref.Namespace != "" {
			namespaced, err := a.local.Namespaced(ctx, ref)
			if m.err = err; err != nil {
				continue
			}
			if !namespaced { // nobody minds a namespace there; to the cluster, and to the rules of the work, it is none
				m.object, m.id.Namespace = m.object.DeepCopy(), ""
				m.object.SetNamespace("")
			}
		}
		m.config = work.Spec.ConfigOf(m.id)
		m.rules, m.err = compileRules(m.config, m.object)
	}
	return manifests
}

// Reasons of condition Applied of a work that the agent has applied.
const (
	appliedComplete = "AppliedManifestWorkComplete"
	appliedFailed   = "AppliedManifestWorkFailed"
)

// status writes the conditions of a work and of its manifests. It returns whether a manifest failed.
func (a *agent) status(ctx context.Context, work *ocm.ManifestWork, manifests []manifest) (failed bool) {
	old := make(map[int32]ocm.ManifestStatus)
	for _, s := range work.Status.ResourceStatus.Manifests {
		old[s.ResourceMeta.Ordinal] = s
	}
	var list []ocm.ManifestStatus
	var broken []string
	counts := map[string]int{}
	for i := range manifests {
		m := &manifests[i]
		ref := kube.RefOf(m.object)
		s := ocm.ManifestStatus{ResourceMeta: ocm.ResourceMeta{
			Ordinal: int32(i), Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Resource: m.id.Resource, Namespace: ref.Namespace, Name: ref.Name,
		}}
		if had := old[int32(i)]; had.ResourceMeta == s.ResourceMeta {
			s.Conditions = slices.Clone(had.Conditions)
			if m.complete {
				s.StatusFeedback = had.StatusFeedback
			}
		}
		if m.err != nil {
			broken = append(broken, fmt.Sprintf("%s: %v", ref, m.err))
			reason := "AppliedManifestFailed"
			if owned := new(kube.OwnedError); errors.As(m.err, &owned) {
				reason = relation.ManifestConflict
			}
			message := "Failed to apply manifest: "
			if fields := new(ignoreError); errors.As(m.err, &fields) {
				reason, message = "AppliedManifestSSAIgnoreFieldError", "Failed to process ignoreFields: "
			}
			set(&s.Conditions, "Applied", "False", reason, message+m.err.Error())
		} else {
			set(&s.Conditions, "Applied", "True", "AppliedManifestComplete", "Apply manifest complete")
		}
		counts[a.readFeedback(ctx, work, m, &s)]++
		list = append(list, s)
	}
	work.Status.ResourceStatus.Manifests = list
	aggregate(work)
	state := func(kind, status, reason, message string) {
		meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: work.Generation,
		})
	}
	if len(broken) > 0 {
		message := "Failed to apply manifest work: " + strings.Join(broken, "; ")
		state("Applied", "False", appliedFailed, message[:min(len(message), 32000)])
	} else {
		state("Applied", "True", appliedComplete, "Apply manifest work complete")
	}
	status, reason, message := available(counts)
	state("Available", status, reason, message)
	return len(broken) > 0
}

// available returns condition Available of a work. counts has how many of its manifests are True, False and Unknown.
func available(counts map[string]int) (status, reason, message string) {
	switch total := counts["True"] + counts["False"] + counts["Unknown"]; {
	case counts["False"] > 0:
		return "False", "ResourcesNotAvailable", fmt.Sprintf("%d of %d resources are not available", counts["False"], total)
	case counts["Unknown"] > 0:
		return "Unknown", "ResourcesStatusUnknown", fmt.Sprintf("%d of %d resources have unknown status", counts["Unknown"], total)
	case total == 0:
		return "Unknown", "ResourcesStatusUnknown", "cannot get any available resource"
	}
	return "True", "ResourcesAvailable", "All resources are available"
}
