package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultApplyTimeout bounds an Apply whose options name no bound.
const DefaultApplyTimeout = 2 * time.Minute

// ApplyOptions limit Apply and Diff. The zero value takes no field from a foreign manager, deletes only objects that left the
// set if they can be recreated, and ends after DefaultApplyTimeout.
type ApplyOptions struct {
	// Force takes fields over from any manager.
	Force bool
	// Recreate recreates objects whose immutable fields have changed, such as the template of a Job. It never recreates
	// namespaces, definitions and volume claims.
	Recreate bool
	// CreateOnly leaves existing objects alone. They do not become members.
	CreateOnly bool
	// NoPrune keeps objects that left the set; they stay in its record.
	NoPrune bool
	// PruneProtected prunes Namespaces, CustomResourceDefinitions and PersistentVolumeClaims too.
	PruneProtected bool
	// PruneShared prunes objects that other field managers apply too. Namespaces that others apply stay.
	PruneShared bool
	// OnlyOwn fails an object that exists and is not a member of the set, with a *ForeignError. Namespaces are shared.
	OnlyOwn bool
	// Before are objects that are applied earlier. Diff counts on the kinds that they define.
	Before []*unstructured.Unstructured
	// FailFast fails an object at once if it waits for another set (Awaits), for callers that retry.
	FailFast bool
	// Contest decides about an object that another set of the same manager holds; nil refuses it. It may be called by
	// several goroutines at once.
	Contest func(object Ref, holder Set) Verdict
	// Spare returns why an object that left the set stays a member, or "" to prune it; nil spares none.
	Spare func(object Ref) string
	// Timeout bounds the whole call, retries included.
	Timeout time.Duration
	// Progress is called once for each finished object, never concurrently.
	Progress func(Entry)
}

// Verdict decides about an object that two sets want.
type Verdict int

// The verdicts. Refuse fails the object, Take makes it a member of the set that applies it, Leave keeps it as it is.
const (
	Refuse Verdict = iota
	Take
	Leave
)

// Apply makes the cluster hold objs as the set, and prunes former members.
//
// An object that fails does not stop the others: the result has an entry for each, and the error joins the failures.
// After a failure nothing is pruned. Objects that the cluster holds as given are not sent. Namespaced objects without a
// namespace go to "default", as kubectl does. Errors of a starting or busy control plane are retried until the
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
	leavers := run.formerMembers(result.Entries)
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
	wanted   map[Ref]*unstructured.Unstructured // the objects to apply, by identity
	versions map[schema.GroupKind]string        // of the kinds in wanted

	occupied atomic.Bool // a non-member existed before
	mu       sync.Mutex  // serialises Progress
}

func (e *Engine) newRun(set Set, objs []*unstructured.Unstructured, o ApplyOptions) *applyRun {
	return &applyRun{Engine: e, set: set, id: set.ID(), objs: objs, options: o, passing: passes(objs, nil, o.FailFast)}
}

// passes reports whether an object's error is transient: a missing kind is while another object of the run will define it,
// never after that object failed, and otherwise for the first seconds. With failFast, what awaits others does not pass.
func passes(coming, failed []*unstructured.Unstructured, failFast bool) retryable {
	promised, denied := promises(coming), promises(failed)
	return func(err error, since time.Duration) bool {
		var missing *noKindError
		if !errors.As(err, &missing) {
			return Transient(err) && (!failFast || !Awaits(err))
		}
		gvk := missing.kind.WithVersion(missing.version)
		return promised(gvk) || !failFast && !denied(gvk) && since < lateKinds
	}
}

func (e *Engine) startRun(ctx context.Context, set Set, objs []*unstructured.Unstructured, o ApplyOptions) (*applyRun, error) {
	run := e.newRun(set, objs, o)
	before, now, err := e.openSet(ctx, set, run.survey(ctx), passes(nil, nil, o.FailFast))
	if err != nil {
		return nil, err
	}
	run.now = now
	return run, run.listMembers(ctx, before)
}

// survey finds the kinds and namespaces of the objects, and returns them as a record.
func (r *applyRun) survey(ctx context.Context) record {
	r.wanted = make(map[Ref]*unstructured.Unstructured, len(r.objs))
	r.versions = map[schema.GroupKind]string{}
	places := newRecord(r.set)
	found := map[schema.GroupVersionKind]resource{}
	for _, obj := range r.objs {
		ref := RefOf(obj)
		res, known := found[ref.gvk()]
		if !known {
			var err error
			if res, err = r.kinds.find(ctx, ref.gvk()); err != nil {
				res.namespaced = true // not served yet, perhaps: too wide a record does no harm
			}
			found[ref.gvk()] = res
		}
		ref.Namespace = placeOf(obj, res)
		places.add(ref)
		r.wanted[ref.identity()] = obj
		r.versions[ref.groupKind()] = ref.Version
	}
	return places
}

// applyStages applies all objects and returns their entries in the order of the objects.
func (r *applyRun) applyStages(ctx context.Context) []Entry {
	entries := make([]Entry, len(r.objs))
	for s := range stageCount {
		var group errgroup.Group
		group.SetLimit(concurrency)
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

// passesAfter orders the objects that follow the definitions. If a definition failed, nobody waits for its kind.
func (r *applyRun) passesAfter(entries []Entry) retryable {
	var coming, failed []*unstructured.Unstructured
	for i, obj := range r.objs {
		if entries[i].Action == Failed {
			failed = append(failed, obj)
		} else {
			coming = append(coming, obj)
		}
	}
	return passes(coming, failed, r.options.FailFast)
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
	group.SetLimit(concurrency)
	for i, obj := range r.objs {
		ref := RefOf(obj)
		if stageOf(ref.groupKind()) != stageDefinitions || entries[i].Action == Failed {
			continue
		}
		group.Go(func() error {
			w := &waiter{Engine: r.Engine, obj: obj, ref: ref}
			err := r.retry(ctx, ref, func(err error, _ time.Duration) bool {
				return Transient(err) || errors.Is(err, errNotReady)
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

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
