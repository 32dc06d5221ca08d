package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Match names live objects by their properties, not by the set that they belong to (K-25).
type Match struct {
	Group, Kind                  string
	Namespaces                   []string // none: all of them
	LabelSelector, FieldSelector string
}

// selects reports whether a Match narrows its kind down at all.
func (m Match) selects() bool { return m.LabelSelector != "" || m.FieldSelector != "" }

// MatchOptions limits PruneMatching.
type MatchOptions struct {
	Keep []*unstructured.Unstructured // the objects of the set
	Own  map[string]string            // labels that make an object the set's
	// Common are keys of Own that other tools set on objects too, charts above all: another value does not make an object another's.
	Common []string
	Spare  func(object Ref) string // as in ApplyOptions
	// Members limits it to the objects of the set that Apply would prune: no Matches of a stranger reach others, or Namespaces and the like.
	Members bool
}

// PruneMatching deletes the matching objects except those to keep, for sets whose author selects the objects to prune instead of leaving it
// to the record of the set. It deletes objects of the set, objects that carry all its own labels, and, where a selector narrows the kind
// down, objects applied by the engine's manager, or by client-side kubectl apply if the engine takes its fields over. An object of another
// set, of a Helm release, of another manager or of a person stays, and is reported as Kept if a selector named it. Namespaces and the like
// are deleted if a Match names their kind, and Members is not set. The error joins the failures; a kind that the cluster does not serve is one.
func (e *Engine) PruneMatching(ctx context.Context, set Set, matches []Match, o MatchOptions) (Result, error) {
	set, err := set.withDefaults()
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultApplyTimeout)
	defer cancel()
	result := Result{Set: set, Entries: []Entry{}}
	run := e.newRun(set, nil, ApplyOptions{PruneProtected: !o.Members, FailFast: true, Spare: o.Spare})
	kept := map[Ref]bool{}
	for _, obj := range o.Keep {
		for _, live := range RefOf(obj).Live() {
			kept[live] = true
		}
	}
	var errs []error
	for _, match := range matches {
		found, err := e.listMatching(ctx, match)
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s to prune: %w", groupKindString(schema.GroupKind{Group: match.Group, Kind: match.Kind}), err))
			continue
		}
		for _, m := range found {
			if kept[m.ref.identity()] {
				continue
			}
			kept[m.ref.identity()] = true // two rules may match one object
			why, err := run.foreign(ctx, m.meta, match, o)
			switch {
			case err != nil:
				errs = append(errs, err)
			case why == "":
				result.Entries = append(result.Entries, run.pruneOne(ctx, m))
			case match.selects():
				result.Entries = append(result.Entries, Entry{Object: m.ref, Action: Kept, Message: why})
			}
		}
	}
	if err := errors.Join(append(errs, result.Err())...); err != nil {
		return result, fmt.Errorf("prune set %s: %w", set, err)
	}
	return result, nil
}

func (e *Engine) listMatching(ctx context.Context, match Match) (found []*member, err error) {
	ref := Ref{Group: match.Group, Kind: match.Kind}
	namespaces := match.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	err = e.retry(ctx, ref, func(err error, _ time.Duration) bool { return Transient(err) }, func(ctx context.Context) error {
		res, err := e.kinds.findAny(ctx, ref.groupKind())
		if err != nil {
			return err
		}
		ref.Version, found = res.gvr.Version, nil
		for _, namespace := range namespaces {
			some, err := e.listResource(ctx, ref, res, namespace, metav1.ListOptions{LabelSelector: match.LabelSelector, FieldSelector: match.FieldSelector}, nil)
			if err != nil {
				return err
			}
			found = append(found, some...)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b *member) int { return compareRefs(a.ref, b.ref) })
	return found, err
}

// foreign returns why an object is not the set's to prune, or nothing.
func (r *applyRun) foreign(ctx context.Context, meta *metav1.PartialObjectMetadata, match Match, o MatchOptions) (string, error) {
	if other := meta.Labels[labelPartOf]; other != "" {
		if other == r.id {
			return "", nil
		}
		holder, _, err := r.holderOf(ctx, other)
		return "it belongs to " + holderName(holder), err
	}
	if o.Members {
		return "it is not in the set", nil
	}
	carried := len(o.Own) > 0
	for key, value := range o.Own {
		got, ok := meta.Labels[key]
		if ok && got != value && !slices.Contains(o.Common, key) {
			return fmt.Sprintf("it belongs to %q by its label %s", got, key), nil
		}
		carried = carried && got == value
	}
	switch release := meta.Annotations["meta.helm.sh/release-name"]; {
	case carried:
		return "", nil
	case match.selects() && release != "":
		return fmt.Sprintf("it belongs to Helm release %s/%s", meta.Annotations["meta.helm.sh/release-namespace"], release), nil
	case match.selects() && (r.madeHere(meta) || r.madeByKubectl(meta)):
		return "", nil
	}
	return "somebody else made it", nil
}

// clientSideApply is the field manager of client-side kubectl apply. Older versions of kubectl and of API servers recorded another one, or none,
// and always the annotation.
const clientSideApply, lastApplied = "kubectl-client-side-apply", "kubectl.kubernetes.io/last-applied-configuration"

// madeByKubectl reports whether client-side kubectl apply made the object for the tool that the engine replaces, as kOps did before 1.22.
func (e *Engine) madeByKubectl(meta *metav1.PartialObjectMetadata) bool {
	if !e.takeOver[clientSideApply] || metav1.GetControllerOfNoCopy(meta) != nil {
		return false
	}
	_, annotated := meta.Annotations[lastApplied]
	return annotated || slices.ContainsFunc(meta.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == clientSideApply })
}

// Unplaced lists the objects that need a namespace and name none. The cluster knows which kinds have namespaces, or a
// definition among objs; a kind that neither knows is not listed.
func (e *Engine) Unplaced(ctx context.Context, objs []*unstructured.Unstructured) ([]Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultApplyTimeout)
	defer cancel()
	coming := map[schema.GroupKind]bool{}
	for _, obj := range objs {
		if RefOf(obj).groupKind() == definitionKind && text(obj.Object, "spec", "scope") == "Namespaced" {
			coming[schema.GroupKind{Group: text(obj.Object, "spec", "group"), Kind: text(obj.Object, "spec", "names", "kind")}] = true
		}
	}
	var found []Ref
	for _, obj := range objs {
		ref := RefOf(obj)
		if ref.Namespace != "" {
			continue
		}
		namespaced := coming[ref.groupKind()]
		err := e.retry(ctx, ref, func(err error, _ time.Duration) bool { return Transient(err) }, func(ctx context.Context) error {
			res, err := e.kinds.find(ctx, ref.gvk())
			namespaced = namespaced || err == nil && res.namespaced
			return err
		})
		var missing *noKindError
		if err != nil && !errors.As(err, &missing) {
			return nil, err
		}
		if namespaced {
			found = append(found, ref)
		}
	}
	return found, nil
}
