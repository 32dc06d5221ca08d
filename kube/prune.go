package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// formerMembers are the members that the run did not apply, in the order of their names. Those whose label is a copy
// made by a controller are not among them.
func (r *applyRun) formerMembers(applied []Entry) []*member {
	uids := make(map[string]bool, len(applied))
	names := make(map[Ref]bool, len(applied))
	for _, entry := range applied {
		uids[entry.uid] = true
		names[entry.Object.identity()] = true
	}
	var out []*member
	for ref, m := range r.members {
		// A kind that moved to another group is one object under two names: compare the UID.
		if uids[string(m.meta.UID)] || names[ref] || !r.madeHere(m.meta) {
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return compareRefs(a.ref, b.ref) })
	return out
}

// madeHere reports whether the engine applied the object. Endpoints, for one, carry the labels of their Service.
func (e *Engine) madeHere(meta *metav1.PartialObjectMetadata) bool {
	if metav1.GetControllerOfNoCopy(meta) != nil {
		return false
	}
	return slices.ContainsFunc(meta.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == e.manager && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// fate returns what prune would do to a member that left.
func (r *applyRun) fate(m *member) (action Action, why string) {
	if m.meta.DeletionTimestamp != nil {
		return Pruned, "it was being deleted already"
	}
	if why := r.protected(m); why != "" {
		return Kept, why
	}
	if owner := r.coOwner(m.meta); owner != "" && (!r.options.PruneShared || m.ref.groupKind() == namespaceKind) {
		return Kept, fmt.Sprintf("left to %q, which applies it too", owner)
	}
	if protected(m.ref.groupKind()) && !r.options.PruneProtected {
		return Kept, "a " + m.ref.Kind + " is pruned only when told to"
	}
	return Pruned, ""
}

func (r *applyRun) protected(m *member) (why string) {
	if r.options.Spare == nil {
		return ""
	}
	return r.options.Spare(m.ref)
}

// prune deletes what left the set, in the opposite order of applying, and waits for none of it.
func (r *applyRun) prune(ctx context.Context, leavers []*member) []Entry {
	entries := make([]Entry, len(leavers))
	for s := stageCount - 1; s >= 0; s-- {
		var group errgroup.Group
		group.SetLimit(concurrency)
		for i, m := range leavers {
			if stageOf(m.ref.groupKind()) != s {
				continue
			}
			group.Go(func() error {
				entries[i] = r.pruneOne(ctx, m)
				r.report(entries[i])
				return nil
			})
		}
		_ = group.Wait() // failures are in the entries
	}
	return entries
}

func (r *applyRun) pruneOne(ctx context.Context, m *member) Entry {
	action, why := r.fate(m)
	err := r.retry(ctx, m.ref, func(err error, since time.Duration) bool { return r.passing(err, since) && !apierrors.IsConflict(err) },
		func(ctx context.Context) error {
			if action == Pruned {
				return r.metaFor(m.res, m.ref.Namespace).Delete(ctx, m.ref.Name, deleteOptions(m.meta))
			}
			if r.coOwner(m.meta) != "" && r.protected(m) == "" {
				return r.release(ctx, m)
			}
			return nil
		})
	// A conflict is another object under the same name by now, which is not ours to delete.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return failed(m.ref, err)
	}
	return Entry{Object: m.ref, Action: action, Message: why, uid: string(m.meta.UID)}
}

// release removes the set's label from an object, and leaves the rest to the others that apply it.
func (r *applyRun) release(ctx context.Context, m *member) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.meta.UID, "labels": map[string]any{labelPartOf: nil}}})
	if err != nil {
		return err
	}
	_, err = r.metaFor(m.res, m.ref.Namespace).Patch(ctx, m.ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: r.manager})
	return err
}

// exact is the record of the set's objects after the run: those that were applied, and those that left the set and still exist.
func (r *applyRun) exact(entries []Entry, leavers []*member) record {
	rec := newRecord(r.set)
	gone := map[Ref]bool{}
	for _, entry := range entries {
		switch entry.Action {
		case Pruned:
			gone[entry.Object.identity()] = true
		default:
			rec.add(entry.Object)
		}
	}
	for _, m := range leavers {
		if !gone[m.ref.identity()] {
			rec.add(m.ref)
		}
	}
	return rec
}

// errStillThere marks an object that was deleted and waits for its finalizers.
var errStillThere = errors.New("is still being deleted")

func stillThere(meta *metav1.PartialObjectMetadata) error {
	if len(meta.Finalizers) > 0 {
		return fmt.Errorf("%w: waits for finalizer %s", errStillThere, strings.Join(meta.Finalizers, ", "))
	}
	return errStillThere
}

// deleteOptions delete exactly the object that was seen, not a later one of the same name. Its dependents are deleted in the
// background.
func deleteOptions(meta *metav1.PartialObjectMetadata) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &meta.UID}, PropagationPolicy: &background}
}
