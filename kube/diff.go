package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Change is one field that Apply would change. Nil means absent. The values of a Secret are hidden.
type Change struct {
	Field  string `json:"field"` // such as .spec.template.spec.containers[0].image
	Live   any    `json:"live"`
	Wanted any    `json:"wanted"`
}

// hidden replaces a secret value.
const hidden = "(hidden)"

// Diff returns what Apply would do, and changes nothing. The API server computes the result by a dry run, with defaults and
// admission, except for objects whose kind or namespace is part of the set: those count as created. Fields that Apply removes
// because it takes them over from their manager are not among the changes.
func (e *Engine) Diff(ctx context.Context, set Set, objs []*unstructured.Unstructured, o ApplyOptions) (Result, error) {
	set, err := set.withDefaults()
	if err != nil {
		return Result{}, err
	}
	result := Result{Set: set, Entries: make([]Entry, len(objs))}
	if err := checkObjects(objs); err != nil {
		return result, fmt.Errorf("diff set %s: %w", set, err)
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(o.Timeout, DefaultApplyTimeout))
	defer cancel()
	run := e.newRun(set, objs, o)
	run.survey(ctx)
	err = e.retry(ctx, set.ref(), passes(nil, nil, false), func(ctx context.Context) (err error) {
		run.now, err = e.readRecord(ctx, set)
		return err
	})
	if err == nil {
		err = run.listMembers(ctx, run.now)
	}
	if err != nil {
		return result, fmt.Errorf("diff set %s: %w", set, err)
	}
	run.diffAll(ctx, result.Entries)
	if !o.NoPrune {
		for _, m := range run.formerMembers(result.Entries) {
			action, why := run.fate(m)
			result.Entries = append(result.Entries, Entry{Object: m.ref, Action: action, Message: why})
		}
	}
	if err := result.Err(); err != nil {
		return result, fmt.Errorf("diff set %s: %w", set, err)
	}
	return result, nil
}

func (r *applyRun) diffAll(ctx context.Context, entries []Entry) {
	coming := promises(slices.Concat(r.options.Before, r.objs))
	var group errgroup.Group
	group.SetLimit(concurrency)
	for i, obj := range r.objs {
		group.Go(func() error {
			ref := RefOf(obj)
			err := r.retry(ctx, ref, func(err error, _ time.Duration) bool { return Transient(err) }, func(ctx context.Context) (err error) {
				entries[i], err = r.diffObject(ctx, obj, coming)
				return err
			})
			if err != nil {
				entries[i] = failed(ref, err)
			}
			r.report(entries[i])
			return nil
		})
	}
	_ = group.Wait() // failures are in the entries
}

func (r *applyRun) diffObject(ctx context.Context, obj *unstructured.Unstructured, coming func(schema.GroupVersionKind) bool) (Entry, error) {
	ref := RefOf(obj)
	res, err := r.kinds.find(ctx, ref.gvk())
	var missing *noKindError
	if errors.As(err, &missing) && coming(ref.gvk()) {
		return Entry{Object: ref, Action: Created, Message: "its kind comes with the set"}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	ref.Namespace = placeOf(obj, res)
	if entry, ok := r.unchanged(ref); ok {
		return entry, nil
	}
	live, err := r.fullFor(res, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return Entry{}, err
	}
	wanted, err := r.dryRun(ctx, obj, ref, res, live)
	if live == nil && notFoundIsNamespace(err) {
		return Entry{Object: ref, Action: Created, Message: "its namespace does not exist yet"}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	entry := Entry{Object: ref, Action: Created, uid: string(wanted.GetUID())}
	if live != nil {
		if entry.Changes = compareObjects(live, wanted); len(entry.Changes) > 0 {
			entry.Action = Configured
		} else {
			entry.Action = Unchanged
		}
	}
	return entry, nil
}

// dryRun asks the server for the object's state after Apply.
func (r *applyRun) dryRun(ctx context.Context, obj *unstructured.Unstructured, ref Ref, res resource, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	a := &application{applyRun: r, obj: obj, ref: ref}
	force := r.options.Force
	var meta *metav1.PartialObjectMetadata
	if live != nil {
		meta = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels: live.GetLabels(), Annotations: live.GetAnnotations(), OwnerReferences: live.GetOwnerReferences(), ManagedFields: live.GetManagedFields(),
		}}
		_, taken, err := mergeManagers(live.GetManagedFields(), r.manager, r.takeOver)
		if err != nil {
			return nil, err
		}
		force = force || taken // Apply would own those fields by then
	}
	if err := a.claim(ctx, meta); err != nil {
		return nil, err
	}
	body, err := a.body("")
	if err != nil {
		return nil, err
	}
	wanted, err := r.fullFor(res, ref.Namespace).Patch(ctx, ref.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.as, Force: &force, DryRun: []string{metav1.DryRunAll}})
	if conflict := conflictIn(err); conflict != nil {
		return nil, conflict
	}
	return wanted, err
}

// compareObjects lists the fields in which two states of an object differ, apart from those that only servers and
// controllers write.
func compareObjects(live, wanted *unstructured.Unstructured) []Change {
	changes := compareValues("", authored(live), authored(wanted), nil)
	if live.GetKind() == "Secret" && live.GroupVersionKind().Group == "" {
		for i, change := range changes {
			if strings.HasPrefix(change.Field, ".data") {
				changes[i].Live, changes[i].Wanted = hide(change.Live), hide(change.Wanted)
			}
		}
	}
	return changes
}

func authored(obj *unstructured.Unstructured) map[string]any {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	if meta, ok := content["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
			delete(meta, field)
		}
		content["metadata"] = meta
	}
	return content
}

func compareValues(path string, live, wanted any, changes []Change) []Change {
	if reflect.DeepEqual(live, wanted) {
		return changes
	}
	liveMap, a := live.(map[string]any)
	wantedMap, b := wanted.(map[string]any)
	if a && b {
		keys := maps.Clone(liveMap)
		maps.Copy(keys, wantedMap)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			changes = compareValues(fieldPath(path, key), liveMap[key], wantedMap[key], changes)
		}
		return changes
	}
	liveList, a := live.([]any)
	wantedList, b := wanted.([]any)
	if a && b && len(liveList) == len(wantedList) {
		for i := range liveList {
			changes = compareValues(path+"["+strconv.Itoa(i)+"]", liveList[i], wantedList[i], changes)
		}
		return changes
	}
	return append(changes, Change{Field: path, Live: live, Wanted: wanted})
}

// fieldPath quotes keys that would read as more than one field.
func fieldPath(path, key string) string {
	if strings.ContainsAny(key, "./[]") {
		return path + "[" + strconv.Quote(key) + "]"
	}
	return path + "." + key
}

func hide(value any) any {
	if value == nil {
		return nil
	}
	return hidden
}
