package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
)

// accept checks the seal of a work and remembers its number, before anything of the work is applied or removed. The work then
// has the content that was signed.
func (a *agent) accept(ctx context.Context, work *ocm.ManifestWork) error {
	if len(a.Keys) == 0 {
		return nil
	}
	policy := seal.Policy{Cluster: a.Cluster, Keys: a.Keys, MaxAge: a.MaxAge}
	s, key, spec, err := policy.Origin(work.Name, work.Annotations[seal.Annotation], work.Spec)
	if err == nil {
		err = s.Life(!work.DeletionTimestamp.IsZero())
	}
	if err != nil {
		return err
	}
	if err := a.marks.take(ctx, key, func(m seal.Memory) error {
		mark, fresh, err := policy.Order(s, m, time.Now())
		if fresh {
			m[work.Name] = mark
			policy.Forget(m, s.Time)
		}
		return err
	}); err != nil {
		return err
	}
	work.Spec = spec
	a.note(work.Name, nil)
	return nil
}

// refuse reports why a work is not applied. What an earlier version of it has on the cluster stays.
func (a *agent) refuse(ctx context.Context, work *ocm.ManifestWork, why error) error {
	var r *seal.Refusal
	if !errors.As(why, &r) {
		return why
	}
	if a.note(work.Name, r) {
		a.Log.WarnContext(ctx, "a work is refused", "work", work.Name, "reason", r.Reason, "error", r.Message)
	}
	a.remember(work.Name, nil)
	after, ok := work.DeepCopyObject().(*ocm.ManifestWork)
	if !ok {
		return errors.New("the deep copy of a work has another type")
	}
	for kind, reason := range map[string]string{seal.Verified: string(r.Reason), "Applied": "ManifestWorkRefused"} {
		meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: r.Error(), ObservedGeneration: work.Generation,
		})
	}
	return client.IgnoreNotFound(a.patchStatus(ctx, work, after))
}

// verified sets condition Verified of a work that was accepted. Agents of hubs that sign nothing set none.
func (a *agent) verified(work *ocm.ManifestWork) {
	if len(a.Keys) == 0 {
		return
	}
	message := "signed by the hub"
	if s, err := seal.Read(work.Annotations[seal.Annotation]); err == nil {
		message = fmt.Sprintf("signed by the hub with number %d", s.Sequence)
	}
	meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{
		Type: seal.Verified, Status: metav1.ConditionTrue, Reason: string(seal.Accepted), Message: message, ObservedGeneration: work.Generation,
	})
}

// note keeps in mind that a work is refused, or that it is not. It returns whether that is news.
func (a *agent) note(work string, r *seal.Refusal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := a.refused[work]
	if r == nil {
		delete(a.refused, work)
	} else {
		a.refused[work] = r
	}
	return r != nil && (had == nil || *had != *r)
}

// reportRefusals reports on the ManagedCluster whether the agent accepts the hub's works.
func (a *agent) reportRefusals(conditions *[]metav1.Condition) {
	if len(a.Keys) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	names := slices.Sorted(maps.Keys(a.refused))
	if len(names) == 0 {
		set(conditions, seal.Verified, "True", string(seal.Accepted), "All works are signed by the hub")
		return
	}
	first := a.refused[names[0]]
	set(conditions, seal.Verified, "False", string(first.Reason), fmt.Sprintf("work %s (%d in all): %s", names[0], len(names), first.Error()))
}

// marksName is the beginning of the names of ConfigMaps with marks. The rest is the beginning of the key's fingerprint. A sequence belongs
// to a key and to the name of the cluster: under another name, the hub counts from one.
const marksName = "sealift-fleet-sequence-"

// clusterField is the field beside the marks that names the cluster of their sequence. Older agents wrote none.
const clusterField = "Cluster"

// marks stores the cluster's view of the hub's sequence, in a ConfigMap of the cluster for each key and name of the cluster.
type marks struct {
	client  corev1client.ConfigMapsGetter
	cluster string

	mu    sync.Mutex
	known map[string]*corev1.ConfigMap // by name
}

func nameOfMarks(key signature.PublicKey) string {
	return marksName + strings.TrimPrefix(key.Fingerprint(), "SHA256:")[:16]
}

// take changes the memory that belongs to a key, if change returns no error, and stores it.
func (m *marks) take(ctx context.Context, key signature.PublicKey, change func(seal.Memory) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, err := m.nameFor(ctx, key)
	if err != nil {
		return err
	}
	return m.change(ctx, name, func(memory seal.Memory, _ map[string]string) error { return change(memory) })
}

// nameFor returns the name of the ConfigMap for a key. The first name that the cluster had has the plain one, others append theirs.
func (m *marks) nameFor(ctx context.Context, key signature.PublicKey) (string, error) {
	name := nameOfMarks(key)
	first, err := m.read(ctx, name)
	if err != nil {
		return "", fmt.Errorf("read the record of works: %w", err)
	}
	if !m.ours(first) {
		m.known[name] = first // nobody changes it any longer
		name += "-" + m.cluster
	}
	return name, nil
}

// ours reports whether marks belong to the current name of the cluster.
func (m *marks) ours(marks *corev1.ConfigMap) bool {
	return marks.Data[clusterField] == "" || marks.Data[clusterField] == m.cluster
}

// gone remembers that a work was deleted.
func (m *marks) gone(ctx context.Context, work string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, err := m.client.ConfigMaps(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the record of works: %w", err)
	}
	for i := range list.Items {
		name := list.Items[i].Name
		if _, remembered := list.Items[i].Data[work]; !remembered || !strings.HasPrefix(name, marksName) || !m.ours(&list.Items[i]) {
			continue
		}
		err := m.change(ctx, name, func(memory seal.Memory, _ map[string]string) error {
			mark := memory[work]
			mark.Gone = true
			memory[work] = mark
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// change changes a ConfigMap: the memory, and its other fields. It stores nothing if change fails or changes nothing.
func (m *marks) change(ctx context.Context, name string, change func(seal.Memory, map[string]string) error) error {
	had, err := m.read(ctx, name)
	if err != nil {
		return fmt.Errorf("read the record of works: %w", err)
	}
	memory, err := seal.ReadMemory(had.Data)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", Namespace, name, err)
	}
	next := had.DeepCopy()
	if next.Data == nil {
		next.Data = make(map[string]string)
	}
	works := slices.Collect(maps.Keys(memory))
	if err := change(memory, next.Data); err != nil {
		return err
	}
	for _, work := range works { // those that stay are written again
		delete(next.Data, work)
	}
	for work, mark := range memory {
		text, err := json.Marshal(mark)
		if err != nil {
			return err
		}
		next.Data[work] = string(text)
	}
	next.Data[clusterField] = m.cluster
	switch {
	case maps.Equal(had.Data, next.Data):
		return nil
	case next.ResourceVersion == "":
		next, err = m.client.ConfigMaps(Namespace).Create(ctx, next, metav1.CreateOptions{})
	default:
		next, err = m.client.ConfigMaps(Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		delete(m.known, name) // another writer may have written it
		return fmt.Errorf("record the number of a work: %w", err)
	}
	m.known[name] = next
	return nil
}

func (m *marks) read(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	if had := m.known[name]; had != nil {
		return had, nil
	}
	had, err := m.client.ConfigMaps(Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}}, nil
	}
	return had, err
}
