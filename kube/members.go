package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listPage bounds how many objects of a long list are in memory at once.
const listPage = 100

// member is an object that carries the label of a set.
type member struct {
	ref  Ref
	res  resource
	meta *metav1.PartialObjectMetadata
	held bool // the object is as the run would make it
}

// Members names the objects of a set, so that Wait can check them. A set that does not exist has none.
func (e *Engine) Members(ctx context.Context, set Set) ([]*unstructured.Unstructured, error) {
	set, err := set.withDefaults()
	if err != nil {
		return nil, err
	}
	run := e.newRun(set, nil, ApplyOptions{})
	if err := run.readMembers(ctx); err != nil {
		return nil, fmt.Errorf("find the objects of set %s: %w", set, err)
	}
	var objs []*unstructured.Unstructured
	for _, m := range run.members {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(m.ref.gvk())
		obj.SetNamespace(m.ref.Namespace)
		obj.SetName(m.ref.Name)
		objs = append(objs, obj)
	}
	return objs, nil
}

// readMembers reads the record of the set, and then the members.
func (r *applyRun) readMembers(ctx context.Context) error {
	err := r.retry(ctx, r.set.ref(), passes(nil, nil, false), func(ctx context.Context) (err error) {
		r.now, err = r.readRecord(ctx, r.set)
		return err
	})
	if err != nil {
		return err
	}
	return r.listMembers(ctx, r.now)
}

// listMembers reads the metadata of every member, with one list of each kind that the record names. A kind that the
// cluster no longer serves has no members.
func (r *applyRun) listMembers(ctx context.Context, rec record) error {
	r.members = map[Ref]*member{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for gk := range rec.groupKinds {
		group.Go(func() error {
			found, err := r.listKind(ctx, gk)
			if _, ok := errors.AsType[*noKindError](err); ok {
				return nil
			}
			if err != nil {
				return fmt.Errorf("list the %s objects of the set: %w", groupKindString(gk), err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, m := range found {
				r.members[m.ref.identity()] = m
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *applyRun) listKind(ctx context.Context, gk schema.GroupKind) (found []*member, err error) {
	err = r.retry(ctx, Ref{Group: gk.Group, Kind: gk.Kind}, func(err error, _ time.Duration) bool { return Transient(err) },
		func(ctx context.Context) error {
			res, err := r.resourceOf(ctx, gk)
			if err != nil {
				return err
			}
			var holds func(Ref, *unstructured.Unstructured) bool
			if r.versions[gk] != "" {
				holds = r.holds
			}
			found, err = r.listResource(ctx, Ref{Group: gk.Group, Version: res.gvr.Version, Kind: gk.Kind}, res, metav1.NamespaceAll,
				metav1.ListOptions{LabelSelector: labelPartOf + "=" + r.id}, holds)
			return err
		})
	return found, err
}

// resourceOf finds a kind in the version in which the run is about to apply it, for only in one version can two states
// of an object be compared, and otherwise in any.
func (r *applyRun) resourceOf(ctx context.Context, gk schema.GroupKind) (resource, error) {
	if version := r.versions[gk]; version != "" {
		res, err := r.kinds.find(ctx, gk.WithVersion(version))
		if _, ok := errors.AsType[*noKindError](err); !ok {
			return res, err
		}
	}
	return r.kinds.findAny(ctx, gk)
}

// listResource reads objects page by page and keeps their metadata. With holds they are read completely, to check whether each
// matches the run.
func (e *Engine) listResource(ctx context.Context, kind Ref, res resource, namespace string, options metav1.ListOptions,
	holds func(Ref, *unstructured.Unstructured) bool) ([]*member, error) {
	var found []*member
	options.Limit = listPage
	for {
		page, next, err := e.listPage(ctx, kind, res, namespace, options, holds)
		switch {
		case apierrors.IsNotFound(err):
			e.kinds.forget(kind.gvk())
			return nil, nil
		case apierrors.IsResourceExpired(err) && options.Continue != "":
			found, options.Continue = nil, "" // the list expired between two pages: restart
			continue
		case err != nil:
			return nil, err
		}
		found = append(found, page...)
		if options.Continue = next; next == "" {
			return found, nil
		}
	}
}

func (e *Engine) listPage(ctx context.Context, kind Ref, res resource, namespace string, options metav1.ListOptions,
	holds func(Ref, *unstructured.Unstructured) bool) (page []*member, next string, err error) {
	if holds == nil {
		list, err := e.metaFor(res, namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			page = append(page, memberOf(kind, res, &list.Items[i]))
		}
		return page, list.Continue, nil
	}
	list, err := e.fullFor(res, namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		live := &list.Items[i]
		meta := &metav1.PartialObjectMetadata{}
		if err := fromUnstructured(map[string]any{"metadata": live.Object["metadata"]}, meta); err != nil {
			return nil, "", err
		}
		m := memberOf(kind, res, meta)
		m.held = holds(m.ref, live)
		page = append(page, m)
	}
	return page, list.GetContinue(), nil
}

func memberOf(kind Ref, res resource, meta *metav1.PartialObjectMetadata) *member {
	kind.Namespace, kind.Name = meta.Namespace, meta.Name
	return &member{ref: kind, res: res, meta: meta}
}

// holds reports whether the cluster holds an object as the run would apply it.
func (r *applyRun) holds(ref Ref, live *unstructured.Unstructured) bool {
	obj := r.wanted[ref.identity()]
	if obj == nil {
		return false
	}
	want, err := desired(obj, ref.Namespace, map[string]string{labelPartOf: r.id})
	return err == nil && held(want, live, r.manager, r.takeOver)
}

// unchanged is the entry of an object that was held when the run began.
func (r *applyRun) unchanged(ref Ref) (Entry, bool) {
	m := r.members[ref.identity()]
	if m == nil || !m.held {
		return Entry{}, false
	}
	return Entry{Object: ref, Action: Unchanged, uid: string(m.meta.UID)}, true
}
