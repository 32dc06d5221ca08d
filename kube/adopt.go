package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Adopt makes every member of one set a member of another, and removes the record of the set that is then empty. Each
// object changes its label and the manager of its fields in one write: it is neither deleted nor recreated, and it is a
// member of one of the two sets at any moment. Only fields of the engine's own manager and of those that it takes over
// (Options.TakeOver) change their manager. Adopt may be interrupted and repeated; a set that does not exist has no members.
func (e *Engine) Adopt(ctx context.Context, from, to Set) error {
	from, err := from.withDefaults()
	if err != nil {
		return err
	}
	if to, err = to.withDefaults(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultApplyTimeout)
	defer cancel()
	for {
		done, err := e.adoptOnce(ctx, from, to)
		if err != nil {
			return fmt.Errorf("adopt set %s into set %s: %w", from, to, err)
		}
		if done {
			return nil
		}
	}
}

// AdoptNamed is Adopt for sets that are given as namespace/name, as records of who owns an add-on have them.
func (e *Engine) AdoptNamed(ctx context.Context, from, to string) error {
	source, err := ParseSet(from)
	if err != nil {
		return err
	}
	target, err := ParseSet(to)
	if err != nil {
		return err
	}
	return e.Adopt(ctx, source, target)
}

// adoptOnce moves the present members. It reports whether nothing was left to move.
func (e *Engine) adoptOnce(ctx context.Context, from, to Set) (done bool, err error) {
	run := e.newRun(from, nil, ApplyOptions{})
	if err := run.readMembers(ctx); err != nil || run.now.version == "" {
		return true, err
	}
	places := newRecord(to)
	var moving []*member
	for _, m := range run.members {
		if e.movable(m.meta) {
			moving = append(moving, m)
			places.add(m.ref)
		}
	}
	if len(moving) == 0 {
		return e.dropEmpty(ctx, from, run.now.version)
	}
	if _, _, err := e.openSet(ctx, to, places, passes(nil, nil, false)); err != nil {
		return false, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, m := range moving {
		group.Go(func() error {
			err := e.retry(ctx, m.ref, passes(nil, nil, false), func(ctx context.Context) error { return e.adoptMember(ctx, m, from, to) })
			if err != nil {
				return fmt.Errorf("%s: %w", m.ref, err)
			}
			return nil
		})
	}
	return false, group.Wait()
}

// movable reports whether an object was applied as a member. A controller that copies labels, as that of Endpoints does, copies
// the new one soon.
func (e *Engine) movable(meta *metav1.PartialObjectMetadata) bool {
	if metav1.GetControllerOfNoCopy(meta) != nil {
		return false
	}
	for _, f := range meta.ManagedFields {
		if f.Operation == metav1.ManagedFieldsOperationApply && (f.Manager == e.manager || e.takeOver[f.Manager]) {
			return true
		}
	}
	return false
}

// adoptMember moves one object. The patch is bound to the state that was read; if the object has changed since, it is read
// again, and left alone if it is no longer a member.
func (e *Engine) adoptMember(ctx context.Context, m *member, from, to Set) error {
	fields, _, err := mergeManagers(m.meta.ManagedFields, e.manager, e.takeOver)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/labels/" + strings.ReplaceAll(labelPartOf, "/", "~1"), "value": to.ID()},
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": m.meta.ResourceVersion},
	})
	if err != nil {
		return err
	}
	client := e.metaFor(m.res, m.ref.Namespace)
	_, err = client.Patch(ctx, m.ref.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: e.manager})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return nil
	case !apierrors.IsConflict(err):
		return err
	}
	live, gone := client.Get(ctx, m.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(gone) || gone == nil && live.Labels[labelPartOf] != from.ID() {
		return nil
	}
	if gone == nil {
		m.meta = live
	}
	return err // a conflict is retried
}

// dropEmpty removes the record of a set unless it has changed since it was read.
func (e *Engine) dropEmpty(ctx context.Context, set Set, version string) (done bool, err error) {
	err = e.retry(ctx, set.ref(), func(err error, _ time.Duration) bool { return Transient(err) && !apierrors.IsConflict(err) },
		func(ctx context.Context) error {
			return e.metaFor(secrets, set.Namespace).Delete(ctx, set.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil
	}
	return false, err
}
