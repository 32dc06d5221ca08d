package kube

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultNamespace holds the records of sets that name no namespace. It is created when missing.
const DefaultNamespace = "sealift"

// The labels and annotations of KEP-3659.
const (
	labelSetID     = "applyset.kubernetes.io/id"
	labelPartOf    = "applyset.kubernetes.io/part-of"
	noteTooling    = "applyset.kubernetes.io/tooling"
	noteGroupKinds = "applyset.kubernetes.io/contains-group-kinds"
	noteNamespaces = "applyset.kubernetes.io/additional-namespaces"

	tooling = Manager + "/v1"
)

// Set names the objects that are applied, pruned and deleted together, such as those of one add-on. It is recorded in a
// Secret of its name, the parent of an ApplySet (KEP-3659).
type Set struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"` // of the record, not of the objects; empty is DefaultNamespace
}

// String returns namespace/name.
func (s Set) String() string { return s.Namespace + "/" + s.Name }

// ParseSet reads what String wrote.
func ParseSet(text string) (Set, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		return Set{}, fmt.Errorf("set %q is not namespace/name", text)
	}
	return Set{Name: name, Namespace: namespace}, nil
}

func (s Set) withDefaults() (Set, error) {
	if s.Namespace == "" {
		s.Namespace = DefaultNamespace
	}
	if problems := validation.IsDNS1123Subdomain(s.Name); len(problems) > 0 {
		return s, fmt.Errorf("set name %q: %s", s.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(s.Namespace); len(problems) > 0 {
		return s, fmt.Errorf("set %s: namespace %q: %s", s.Name, s.Namespace, problems[0])
	}
	return s, nil
}

// ID is the value of the label that the members of the set carry, computed as KEP-3659 says: the hash of
// name.namespace.kind.group of the parent.
func (s Set) ID() string {
	if s.Namespace == "" {
		s.Namespace = DefaultNamespace
	}
	hash := sha256.Sum256([]byte(s.Name + "." + s.Namespace + ".Secret."))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(hash[:]) + "-v1"
}

// Holds reports whether an object is a member of the set.
func (s Set) Holds(object metav1.Object) bool { return object.GetLabels()[labelPartOf] == s.ID() }

func (s Set) ref() Ref {
	return Ref{Version: "v1", Kind: "Secret", Namespace: s.Namespace, Name: s.Name}
}

// record is the data of a set's parent: where to look for its members.
type record struct {
	groupKinds map[schema.GroupKind]bool
	namespaces map[string]bool // in addition to the parent's own
	own        string
	version    string // the parent's resourceVersion, empty without a parent
}

func newRecord(set Set) record {
	return record{groupKinds: map[schema.GroupKind]bool{}, namespaces: map[string]bool{}, own: set.Namespace}
}

func (r record) clone() record {
	r.groupKinds, r.namespaces = maps.Clone(r.groupKinds), maps.Clone(r.namespaces)
	return r
}

func (r record) add(ref Ref) {
	r.groupKinds[ref.groupKind()] = true
	if ref.Namespace != "" && ref.Namespace != r.own {
		r.namespaces[ref.Namespace] = true
	}
}

func (r record) equal(o record) bool {
	return maps.Equal(r.groupKinds, o.groupKinds) && maps.Equal(r.namespaces, o.namespaces)
}

var (
	secrets    = resource{gvr: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, namespaced: true}
	namespaces = resource{gvr: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
)

// readRecord reads the parent of a set; a missing one is an empty record.
func (e *Engine) readRecord(ctx context.Context, set Set) (record, error) {
	rec := newRecord(set)
	parent, err := e.metaFor(secrets, set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return rec, nil
	}
	if err != nil {
		return rec, err
	}
	if parent.Labels[labelSetID] == "" {
		return rec, errors.New("the Secret exists and records no set: choose another set name or namespace")
	}
	if id := parent.Labels[labelSetID]; id != set.ID() {
		return rec, fmt.Errorf("the Secret records set %s, not %s: it was copied or renamed; delete it or choose another set name", id, set.ID())
	}
	if tool := parent.Annotations[noteTooling]; !strings.HasPrefix(tool, Manager+"/") {
		return rec, fmt.Errorf("the set belongs to %q, and only its owner may change it", tool)
	}
	for gk := range splitNote(parent.Annotations[noteGroupKinds]) {
		rec.groupKinds[parseGroupKind(gk)] = true
	}
	rec.namespaces = splitNote(parent.Annotations[noteNamespaces])
	rec.version = parent.ResourceVersion
	return rec, nil
}

// holderOf finds the set of an ID, and reports whether this engine's manager records it. A set without a record has no name.
func (e *Engine) holderOf(ctx context.Context, id string) (set Set, ours bool, err error) {
	parents, err := e.metaFor(secrets, metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: labelSetID + "=" + id})
	if err != nil {
		return Set{}, false, fmt.Errorf("find the set that holds the object: %w", err)
	}
	for i := range parents.Items {
		parent := &parents.Items[i]
		if set = (Set{Name: parent.Name, Namespace: parent.Namespace}); set.ID() == id {
			return set, e.madeHere(parent), nil
		}
	}
	return Set{}, false, nil
}

// holderName names a set for a person.
func holderName(set Set) string {
	if set.Name == "" {
		return "a set whose record is gone"
	}
	return "set " + set.String()
}

// writeRecord writes rec into the parent. It fails with a conflict when the parent changed since rec was read, so that
// concurrent runs never lose each other's kinds.
func (e *Engine) writeRecord(ctx context.Context, set Set, rec record) (record, error) {
	meta := map[string]any{
		"name": set.Name, "namespace": set.Namespace,
		"labels": map[string]any{labelSetID: set.ID()},
		"annotations": map[string]any{
			noteTooling:    tooling,
			noteGroupKinds: joinGroupKinds(rec.groupKinds),
			noteNamespaces: strings.Join(slices.Sorted(maps.Keys(rec.namespaces)), ","),
		},
	}
	if rec.version != "" {
		meta["resourceVersion"] = rec.version
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"})
	if err != nil {
		return rec, err
	}
	force := true
	parent, err := e.metaFor(secrets, set.Namespace).Patch(ctx, set.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: e.manager, Force: &force})
	if err != nil {
		return rec, err
	}
	rec.version = parent.ResourceVersion
	return rec, nil
}

// openSet records every possible location of a member before anything is applied, so that the next run always finds them all.
// It returns the old and the current record.
func (e *Engine) openSet(ctx context.Context, set Set, wanted record, passing retryable) (before, now record, err error) {
	err = e.retry(ctx, set.ref(), passing, func(ctx context.Context) error {
		if err := e.ensureNamespace(ctx, set.Namespace); err != nil {
			return fmt.Errorf("create namespace %s: %w", set.Namespace, err)
		}
		if before, err = e.readRecord(ctx, set); err != nil {
			return err
		}
		now = before.clone()
		maps.Copy(now.groupKinds, wanted.groupKinds)
		maps.Copy(now.namespaces, wanted.namespaces)
		if now.version != "" && now.equal(before) {
			return nil
		}
		now, err = e.writeRecord(ctx, set, now)
		return err
	})
	if err != nil {
		return before, now, fmt.Errorf("record set %s: %w", set, err)
	}
	return before, now, nil
}

// ensureNamespace makes the namespace of a record. Objects bring their own namespaces.
func (e *Engine) ensureNamespace(ctx context.Context, name string) error {
	_, err := e.metaFor(namespaces, "").Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	if err != nil {
		return err
	}
	_, err = e.metaFor(namespaces, "").Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: e.manager})
	return err
}

// closeSet narrows the record to the current members. A run that finds the record changed leaves it: too wide a record costs a
// list request, too narrow a one loses members.
func (e *Engine) closeSet(ctx context.Context, set Set, now, exact record) error {
	if now.equal(exact) {
		return nil
	}
	exact.version = now.version
	err := e.retry(ctx, set.ref(), func(err error, _ time.Duration) bool { return Transient(err) && !apierrors.IsConflict(err) },
		func(ctx context.Context) error {
			_, err := e.writeRecord(ctx, set, exact)
			return err
		})
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("record set %s: %w", set, err)
	}
	return nil
}

func splitNote(text string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words[word] = true
		}
	}
	return words
}

func joinGroupKinds(kinds map[schema.GroupKind]bool) string {
	words := make([]string, 0, len(kinds))
	for gk := range kinds {
		words = append(words, groupKindString(gk))
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}
