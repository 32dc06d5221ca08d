package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultDeleteTimeout bounds a Delete whose options name no bound.
const DefaultDeleteTimeout = 5 * time.Minute

// DeleteOptions limit Delete. The zero value keeps Namespaces, CustomResourceDefinitions and PersistentVolumeClaims, and ends
// after DefaultDeleteTimeout.
type DeleteOptions struct {
	// Protected also deletes namespaces, definitions and volume claims, with everything in them.
	Protected bool
	// Shared deletes objects that other field managers apply too. Namespaces that others apply stay.
	Shared bool
	// Timeout bounds the whole call: finalizers may take their time.
	Timeout time.Duration
	// Progress is called once for each deleted or kept object, never concurrently.
	Progress func(Entry)
}

// Delete removes the members of a set in the opposite order of Apply, each stage after the one before is gone, so that the
// controller of a custom resource can still finalize it. The record of the set goes last, and only when no member is left:
// after a failure the next call finds them again. A missing set is not an error.
func (e *Engine) Delete(ctx context.Context, set Set, o DeleteOptions) (Result, error) {
	set, err := set.withDefaults()
	if err != nil {
		return Result{}, err
	}
	result := Result{Set: set, Entries: []Entry{}}
	ctx, cancel := context.WithTimeout(ctx, orDefault(o.Timeout, DefaultDeleteTimeout))
	defer cancel()
	run := e.newRun(set, nil, ApplyOptions{PruneProtected: o.Protected, PruneShared: o.Shared})
	if err := run.readMembers(ctx); err != nil {
		return result, fmt.Errorf("delete set %s: %w", set, err)
	}
	leavers := run.formerMembers(nil)
	for s := stageCount - 1; s >= 0; s-- {
		part := slices.DeleteFunc(slices.Clone(leavers), func(m *member) bool { return stageOf(m.ref.groupKind()) != s })
		entries := run.prune(ctx, part)
		run.awaitGone(ctx, part, entries)
		for _, entry := range entries {
			if o.Progress != nil {
				o.Progress(entry)
			}
		}
		result.Entries = append(result.Entries, entries...)
	}
	if err := result.Err(); err != nil {
		return result, fmt.Errorf("delete set %s: %w", set, err)
	}
	if err := run.dropRecord(ctx, result.Entries, leavers); err != nil {
		return result, fmt.Errorf("delete set %s: %w", set, err)
	}
	return result, nil
}

// awaitGone waits until the objects that prune deleted are gone. Those that stay become failures.
func (r *applyRun) awaitGone(ctx context.Context, leavers []*member, entries []Entry) {
	var group errgroup.Group
	group.SetLimit(concurrency)
	for i, m := range leavers {
		if entries[i].Action != Pruned {
			continue
		}
		group.Go(func() error {
			if err := r.retry(ctx, m.ref, func(err error, _ time.Duration) bool {
				return errors.Is(err, errStillThere) || Transient(err)
			}, func(ctx context.Context) error { return r.gone(ctx, m.res, m.ref, m.meta) }); err != nil {
				entries[i] = failed(m.ref, err)
			}
			return nil
		})
	}
	_ = group.Wait() // failures are in the entries
}

// gone returns nil once the object is deleted, and an error that wraps errStillThere before.
func (e *Engine) gone(ctx context.Context, res resource, ref Ref, seen *metav1.PartialObjectMetadata) error {
	now, err := e.metaFor(res, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && now.UID != seen.UID:
		return nil
	case err != nil:
		return err
	}
	return stillThere(now)
}

// dropRecord removes the parent, or reduces it to the objects that were kept.
func (r *applyRun) dropRecord(ctx context.Context, entries []Entry, leavers []*member) error {
	if r.now.version == "" {
		return nil
	}
	kept := maps.Clone(r.members)
	for _, entry := range entries {
		if entry.Action == Pruned {
			delete(kept, entry.Object.identity())
		}
	}
	maps.DeleteFunc(kept, func(_ Ref, m *member) bool { return !r.madeHere(m.meta) || r.coOwner(m.meta) != "" })
	if len(kept) > 0 {
		return r.closeSet(ctx, r.set, r.now, r.exact(entries, leavers))
	}
	return r.retry(ctx, r.set.ref(), func(err error, _ time.Duration) bool { return Transient(err) }, func(ctx context.Context) error {
		err := r.metaFor(secrets, r.set.Namespace).Delete(ctx, r.set.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
