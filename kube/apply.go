package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultApplyTimeout bounds an Apply whose options name no bound.
const DefaultApplyTimeout = 2 * time.Minute

// ApplyOptions says how far Apply and Diff may go. The zero value takes no field from a foreign manager, deletes only
// what the set no longer contains and what can be made again, and ends after DefaultApplyTimeout.
type ApplyOptions struct {
	// Force takes fields over from whichever manager holds them.
	Force bool
	// Recreate deletes and makes again an object of which a field changed that cannot be changed, such as the template
	// of a Job. Namespaces, definitions and volume claims are never recreated.
	Recreate bool
	// NoPrune keeps what the set no longer contains; it stays in the record of the set.
	NoPrune bool
	// PruneProtected prunes Namespaces, CustomResourceDefinitions and PersistentVolumeClaims too.
	PruneProtected bool
	// Timeout bounds the whole call, retries included.
	Timeout time.Duration
	// Progress is called once for each object when it is done, never twice at once.
	Progress func(Entry)
}

// Apply makes the cluster hold objs as the set, and prunes what the set held before and holds no longer.
//
// An object that fails does not stop the others: the result has an entry for each, and the error joins the failures.
// After a failure nothing is pruned. Objects that the cluster holds as given are not sent. Namespaced objects without a
// namespace go to "default", as kubectl does. What a starting or busy control plane answers is tried again until the
// bound, and so is a kind that a definition in objs is about to bring. An object that belongs to another set fails; a
// Namespace may be shared by several sets, and then belongs to the first.
//
// Fields last set by kubectl edit, client-side kubectl apply or kops (Options.TakeOver) become the engine's own: their
// values are replaced, and additions that objs do not have are removed. A field held by any other manager with another
// value is a *ConflictError for its object, unless ApplyOptions.Force.
func (e *Engine) Apply(ctx context.Context, set Set, objs []*unstructured.Unstructured, o ApplyOptions) (Result, error) {
	set, err := set.withDefaults()
	if err != nil {
		return Result{}, err
	}
	result := Result{Set: set, Entries: []Entry{}}
	if err := checkObjects(objs); err != nil {
		return result, fmt.Errorf("apply set %s: %w", set, err)
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(o.Timeout, DefaultApplyTimeout))
	defer cancel()

	run, err := e.startRun(ctx, set, objs, o)
	if err != nil {
		return result, fmt.Errorf("apply set %s: %w", set, err)
	}
	result.Entries = run.applyStages(ctx)
	if err := result.Err(); err != nil {
		return result, fmt.Errorf("apply set %s: %w", set, err)
	}
	leavers := run.leavers(result.Entries)
	if !o.NoPrune {
		result.Entries = append(result.Entries, run.prune(ctx, leavers)...)
	}
	if err := result.Err(); err != nil {
		return result, fmt.Errorf("prune set %s: %w", set, err)
	}
	if err := e.closeSet(ctx, set, run.now, run.exact(result.Entries, leavers)); err != nil {
		return result, err
	}
	return result, nil
}

// applyRun is one call of Apply, Diff or Delete.
type applyRun struct {
	*Engine
	set     Set
	id      string
	objs    []*unstructured.Unstructured
	options ApplyOptions
	passing retryable

	now      record                             // the parent as this run has written it
	members  map[Ref]*member                    // what carried the set's label when the run began, by identity
	wanted   map[Ref]*unstructured.Unstructured // what Apply is about to apply, by identity
	versions map[schema.GroupKind]string        // of the kinds in wanted

	mu sync.Mutex // serialises Progress
}

func (e *Engine) newRun(set Set, objs []*unstructured.Unstructured, o ApplyOptions) *applyRun {
	return &applyRun{Engine: e, set: set, id: set.ID(), objs: objs, options: o, passing: passes(objs, nil)}
}

// passes is the rule for errors of an object: transient ones pass, and a missing kind does for as long as one of the
// objects to come promises it, never when that object has failed, and otherwise for the first seconds.
func passes(coming, failed []*unstructured.Unstructured) retryable {
	promised, denied := promises(coming), promises(failed)
	return func(err error, since time.Duration) bool {
		var missing *noKindError
		if !errors.As(err, &missing) {
			return transient(err)
		}
		gvk := missing.kind.WithVersion(missing.version)
		return promised(gvk) || !denied(gvk) && since < lateKinds
	}
}

func (e *Engine) startRun(ctx context.Context, set Set, objs []*unstructured.Unstructured, o ApplyOptions) (*applyRun, error) {
	run := e.newRun(set, objs, o)
	run.wanted = make(map[Ref]*unstructured.Unstructured, len(objs))
	run.versions = map[schema.GroupKind]string{}
	places := newRecord(set)
	found := map[schema.GroupVersionKind]resource{}
	for _, obj := range objs {
		ref := RefOf(obj)
		res, known := found[ref.gvk()]
		if !known {
			var err error
			if res, err = e.kinds.find(ctx, ref.gvk()); err != nil {
				res.namespaced = true // not served yet, perhaps: too wide a record does no harm
			}
			found[ref.gvk()] = res
		}
		ref.Namespace = placeOf(obj, res)
		places.add(ref)
		run.wanted[ref.identity()] = obj
		run.versions[ref.groupKind()] = ref.Version
	}
	before, now, err := e.openSet(ctx, set, places)
	if err != nil {
		return nil, err
	}
	run.now = now
	return run, run.listMembers(ctx, before)
}

// applyStages applies all objects and returns their entries in the order of the objects.
func (r *applyRun) applyStages(ctx context.Context) []Entry {
	entries := make([]Entry, len(r.objs))
	for s := range stageCount {
		var group errgroup.Group
		group.SetLimit(r.concurrency)
		for i, obj := range r.objs {
			if stageOf(RefOf(obj).groupKind()) != s {
				continue
			}
			group.Go(func() error {
				entries[i] = r.applyObject(ctx, obj)
				if s != stageDefinitions || entries[i].Action == Failed {
					r.report(entries[i])
				}
				return nil
			})
		}
		_ = group.Wait() // failures are in the entries
		if s == stageDefinitions {
			r.awaitDefinitions(ctx, entries)
			r.passing = r.passesAfter(entries)
		}
	}
	return entries
}

// passesAfter is the rule for what comes after the definitions: nobody waits for the kind of one that failed.
func (r *applyRun) passesAfter(entries []Entry) retryable {
	var coming, failed []*unstructured.Unstructured
	for i, obj := range r.objs {
		if entries[i].Action == Failed {
			failed = append(failed, obj)
		} else {
			coming = append(coming, obj)
		}
	}
	return passes(coming, failed)
}

func (r *applyRun) report(entry Entry) {
	if r.options.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.options.Progress(entry)
}

// awaitDefinitions waits until the definitions that were applied serve their kinds and turns those that do not into
// failures.
func (r *applyRun) awaitDefinitions(ctx context.Context, entries []Entry) {
	var group errgroup.Group
	group.SetLimit(r.concurrency)
	for i, obj := range r.objs {
		ref := RefOf(obj)
		if stageOf(ref.groupKind()) != stageDefinitions || entries[i].Action == Failed {
			continue
		}
		group.Go(func() error {
			w := &waiter{Engine: r.Engine, obj: obj, ref: ref}
			err := r.retry(ctx, ref, func(err error, _ time.Duration) bool {
				return transient(err) || errors.Is(err, errNotReady)
			}, w.ready)
			if err != nil {
				entries[i] = failed(entries[i].Object, fmt.Errorf("applied, but not in effect: %w", err))
			}
			r.report(entries[i])
			return nil
		})
	}
	_ = group.Wait()
}

// applyObject applies one object, trying again while the control plane is not ready for it.
func (r *applyRun) applyObject(ctx context.Context, obj *unstructured.Unstructured) Entry {
	a := &application{applyRun: r, obj: obj, ref: RefOf(obj)}
	if err := r.retry(ctx, a.ref, r.passing, a.try); err != nil {
		return failed(a.ref, err)
	}
	return a.entry
}

// application is the apply of one object.
type application struct {
	*applyRun
	obj *unstructured.Unstructured
	ref Ref

	as         string // the field manager to apply under
	labels     map[string]string
	sharedWith string // the set that the object is a member of, when it is not this one
	looked     bool
	absent     bool // the object was not there when first looked for
	entry      Entry
}

func (a *application) try(ctx context.Context) error {
	res, err := a.kinds.find(ctx, a.ref.gvk())
	if err != nil {
		return err
	}
	a.ref.Namespace = placeOf(a.obj, res)
	if m := a.members[a.ref.identity()]; m != nil && m.held && !a.looked {
		a.entry = Entry{Object: a.ref, Action: Unchanged, uid: string(m.meta.UID)}
		return nil
	}
	live, err := a.look(ctx, res)
	if err != nil {
		return err
	}
	if err := a.claim(live); err != nil {
		return err
	}
	if live != nil && a.sharedWith == "" {
		if live, err = a.takeFields(ctx, res, live); err != nil {
			return err
		}
	}
	object, err := desired(a.obj, a.ref.Namespace, a.labels)
	if err != nil {
		return err
	}
	body, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	applied, err := a.patch(ctx, res, body)
	if err != nil && a.options.Recreate && immutable(err) && live != nil && !protected(a.ref.groupKind()) {
		if applied, err = a.recreate(ctx, res, live, body); err == nil {
			a.entry.Message = "deleted and created again"
		}
	}
	if err != nil {
		return a.explain(err)
	}
	a.entry = Entry{Object: a.ref, Action: actionOf(a.absent, live, applied), Message: a.entry.Message, uid: string(applied.UID)}
	if a.sharedWith != "" {
		a.entry.Message = "shared with set " + a.sharedWith
	}
	return nil
}

// placeOf is the namespace that an object goes to: none for a cluster-scoped kind, "default" when it names none.
func placeOf(obj *unstructured.Unstructured, res resource) string {
	switch {
	case !res.namespaced:
		return ""
	case obj.GetNamespace() == "":
		return metav1.NamespaceDefault
	}
	return obj.GetNamespace()
}

// look finds the object in the cluster, or gives nil: at first among the members, which were all read with a few
// requests. What the first look finds decides between created and configured, for a later one may find what a try made
// whose answer was lost.
func (a *application) look(ctx context.Context, res resource) (*metav1.PartialObjectMetadata, error) {
	if m := a.members[a.ref.identity()]; m != nil && !a.looked {
		a.looked = true
		return m.meta, nil
	}
	live, err := a.metaFor(res, a.ref.Namespace).Get(ctx, a.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err == nil && !a.looked {
		a.looked, a.absent = true, live == nil
	}
	return live, err
}

// claim makes the object a member, unless it is one of another set. A Namespace of another set is shared: it gets what
// this set says about it under a manager of this set's own, since to one manager the other set's fields would be
// leftovers to remove.
func (a *application) claim(live *metav1.PartialObjectMetadata) error {
	a.as, a.sharedWith = a.manager, ""
	a.labels = map[string]string{labelPartOf: a.id}
	if live == nil || live.Labels[labelPartOf] == "" || live.Labels[labelPartOf] == a.id {
		return nil
	}
	other := live.Labels[labelPartOf]
	if a.ref.groupKind() != namespaceKind {
		return fmt.Errorf("it belongs to set %s: remove it from there first, or delete its label %s", other, labelPartOf)
	}
	// A name of a manager has at most 128 characters.
	a.as, a.sharedWith = a.manager+"-"+a.set.Name[:min(len(a.set.Name), 100)], other
	a.labels = nil
	return nil
}

func (a *application) patch(ctx context.Context, res resource, body []byte) (*metav1.PartialObjectMetadata, error) {
	return a.metaFor(res, a.ref.Namespace).Patch(ctx, a.ref.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.as, Force: &a.options.Force})
}

// recreate deletes an object, waits until it is gone, and makes it again.
func (a *application) recreate(ctx context.Context, res resource, live *metav1.PartialObjectMetadata, body []byte) (*metav1.PartialObjectMetadata, error) {
	client := a.metaFor(res, a.ref.Namespace)
	if err := client.Delete(ctx, a.ref.Name, deleteOptions(live)); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete to create again: %w", err)
	}
	err := a.retry(ctx, a.ref, func(err error, _ time.Duration) bool { return errors.Is(err, errStillThere) || transient(err) },
		func(ctx context.Context) error { return a.gone(ctx, res, a.ref, live) })
	if err != nil {
		return nil, fmt.Errorf("delete to create again: %w", err)
	}
	return a.patch(ctx, res, body)
}

// explain turns an answer of the server into what a person can act on.
func (a *application) explain(err error) error {
	if conflict := conflictIn(err); conflict != nil {
		return conflict
	}
	if apierrors.IsNotFound(err) && !notFoundIsNamespace(err) {
		a.kinds.forget(a.ref.gvk())
		return &noKindError{a.ref.groupKind(), a.ref.Version}
	}
	if immutable(err) && !protected(a.ref.groupKind()) {
		return fmt.Errorf("%w (recreating the object would apply the change)", err)
	}
	return err
}

// actionOf compares an object before and after. A server leaves the resourceVersion alone when an apply changes nothing;
// when it moved, a status may have been written in between, which says nothing about us.
func actionOf(absent bool, before, after *metav1.PartialObjectMetadata) Action {
	switch {
	case absent:
		return Created
	case before == nil || before.UID != after.UID:
		return Configured
	case before.ResourceVersion == after.ResourceVersion, onlyStatusMoved(before, after):
		return Unchanged
	}
	return Configured
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
