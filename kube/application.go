package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// application is the apply of one object.
type application struct {
	*applyRun
	obj *unstructured.Unstructured
	ref Ref

	as         string // the field manager to apply under
	labels     map[string]string
	sharedWith string // the set that the object is a member of, when it is not this one
	leftTo     string // the set that keeps the object, if this one yields
	looked     bool
	absent     bool // the object did not exist at the first look
	lost       bool // it is unknown whether an attempt to create it succeeded
	entry      Entry
}

func (a *application) try(ctx context.Context) error {
	res, err := a.kinds.find(ctx, a.ref.gvk())
	if err != nil {
		return err
	}
	a.ref.Namespace = placeOf(a.obj, res)
	if entry, ok := a.unchanged(a.ref); ok && !a.looked {
		a.entry = entry
		return nil
	}
	if created, err := a.create(ctx, res); created || err != nil {
		return err
	}
	live, err := a.checkReady(ctx, res)
	if err != nil {
		return err
	}
	if a.options.CreateOnly && live != nil && !(a.lost && live.Labels[labelPartOf] == a.id) {
		a.entry = Entry{Object: a.ref, Action: Unchanged, Message: "it exists, and is only to be created", uid: string(live.UID)}
		return nil
	}
	if err := a.claim(ctx, live); err != nil {
		return err
	}
	if a.leftTo != "" {
		a.entry = Entry{Object: a.ref, Action: Kept, Message: "left to set " + a.leftTo, uid: string(live.UID)}
		return nil
	}
	if live != nil && a.sharedWith == "" {
		if live, err = a.takeFields(ctx, res, live); err != nil {
			return err
		}
	}
	version := ""
	if live == nil {
		version = absentVersion
	}
	body, err := a.body(version)
	if err != nil {
		return err
	}
	applied, err := a.patch(ctx, res, body)
	if live == nil && apierrors.IsConflict(err) {
		a.absent = false // another client created it first
	}
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

// checkReady finds the object in the cluster, or returns nil: at first among the members, which were all read with a few
// requests. The first read decides between created and configured, because a later one may find the object that a try made
// whose answer was lost.
func (a *application) checkReady(ctx context.Context, res resource) (*metav1.PartialObjectMetadata, error) {
	if m := a.members[a.ref.identity()]; m != nil && !a.looked {
		a.looked = true
		return m.meta, nil
	}
	live, err := a.metaFor(res, a.ref.Namespace).Get(ctx, a.ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err == nil && !a.looked {
		a.looked, a.absent = true, live == nil || a.lost && live.Labels[labelPartOf] == a.id
	}
	return live, err
}

// absentVersion is a resourceVersion that no object has: the first write to etcd makes it 2. To an apply it is the condition that the
// object does not exist, so that a just created foreign one is not touched.
const absentVersion = "1"

// create applies an object that is not a member, without a get first: usually it is new. If it exists, or on any other error,
// the long way reports more. An existing one makes others likely, and failed applies are expensive for the server, so the run
// stops trying.
func (a *application) create(ctx context.Context, res resource) (created bool, err error) {
	if a.members[a.ref.identity()] != nil || a.lost || a.looked || a.ref.groupKind() == namespaceKind || a.occupied.Load() {
		return false, nil
	}
	if err := a.claim(ctx, nil); err != nil {
		return false, err
	}
	body, err := a.body(absentVersion)
	if err != nil {
		return false, err
	}
	applied, err := a.patch(ctx, res, body)
	switch {
	case err == nil:
		a.entry = Entry{Object: a.ref, Action: Created, uid: string(applied.UID)}
		return true, nil
	case apierrors.IsConflict(err):
		a.occupied.Store(true)
		return false, nil
	case Transient(err):
		a.lost = true // the answer may be, and the object made all the same
		return false, err
	}
	return false, nil
}

// body returns the patch for the object, bound to a resourceVersion or to none.
func (a *application) body(version string) ([]byte, error) {
	object, err := desired(a.obj, a.ref.Namespace, a.labels)
	if err != nil {
		return nil, err
	}
	if version != "" {
		object.SetResourceVersion(version)
	}
	return json.Marshal(object.Object)
}

// claim makes the object a member, unless it belongs to another set. A Namespace of another set is shared: it gets what this
// set says about it under a manager of this set's own, since to one manager the other set's fields would be leftovers to
// remove.
func (a *application) claim(ctx context.Context, live *metav1.PartialObjectMetadata) error {
	a.as, a.sharedWith, a.leftTo = a.manager, "", ""
	a.labels = map[string]string{labelPartOf: a.id}
	if live == nil || live.Labels[labelPartOf] == a.id {
		return nil
	}
	if live.Labels[labelPartOf] == "" {
		if a.options.OnlyOwn && a.ref.groupKind() != namespaceKind {
			return &ForeignError{Holder: makerOf(live)}
		}
		return nil
	}
	holder, ours, err := a.holderOf(ctx, live.Labels[labelPartOf])
	if err != nil {
		return err
	}
	if a.ref.groupKind() == namespaceKind {
		// A name of a manager has at most 128 characters.
		a.as, a.sharedWith = a.manager+"-"+a.set.Name[:min(len(a.set.Name), 100)], holder.String()
		a.labels = nil
		return nil
	}
	verdict := Refuse
	if ours && a.options.Contest != nil {
		verdict = a.options.Contest(a.ref, holder)
	}
	switch verdict {
	case Take:
		return nil
	case Leave:
		a.leftTo = holder.String()
		return nil
	}
	return &OwnedError{Holder: holderName(holder)}
}

func (a *application) patch(ctx context.Context, res resource, body []byte) (*metav1.PartialObjectMetadata, error) {
	return a.metaFor(res, a.ref.Namespace).Patch(ctx, a.ref.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: a.as, Force: &a.options.Force})
}

// recreate deletes an object, waits until it is gone, and creates it again.
func (a *application) recreate(ctx context.Context, res resource, live *metav1.PartialObjectMetadata, body []byte) (*metav1.PartialObjectMetadata, error) {
	client := a.metaFor(res, a.ref.Namespace)
	if err := client.Delete(ctx, a.ref.Name, deleteOptions(live)); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete to create again: %w", err)
	}
	err := a.retry(ctx, a.ref, func(err error, _ time.Duration) bool { return errors.Is(err, errStillThere) || Transient(err) },
		func(ctx context.Context) error { return a.gone(ctx, res, a.ref, live) })
	if err != nil {
		return nil, fmt.Errorf("delete to create again: %w", err)
	}
	return a.patch(ctx, res, body)
}

// explain turns an error of the server into an actionable one.
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

// actionOf compares an object before and after. A server keeps the resourceVersion when an apply changes nothing; if it moved,
// a status may have been written in between, which says nothing about us.
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
