package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestSequenceBelongsToClusterName uses a cluster that was oslo, joins again as rome, and is oslo again. The hub counts from one for
// rome, which does not mean that it was restored from a backup. What oslo has accepted stays accepted, even under later names.
func TestSequenceBelongsToClusterName(t *testing.T) {
	_, key := fixture.SigningKey(t)
	now := time.Now()
	local := fake.NewClientset(&corev1.ConfigMap{ // an older agent named no cluster
		ObjectMeta: metav1.ObjectMeta{Name: nameOfMarks(key), Namespace: Namespace, ResourceVersion: "1"},
		Data: map[string]string{
			"addon-a-deploy-0": fmt.Sprintf(`{"sequence":57,"time":%q,"digest":"x"}`, now.Add(-time.Hour).Format(time.RFC3339)),
			parcelField:        `{"sequence":9,"report":17,"done":true}`,
		},
	})
	local.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := action.(clienttesting.CreateAction); ok {
			create.GetObject().(*corev1.ConfigMap).ResourceVersion = "1" // as an API server does
		}
		return false, nil, nil
	})
	accept := func(m *marks, sequence int64, digest string) seal.Reason {
		t.Helper()
		s := seal.Seal{Statement: seal.Statement{Cluster: m.cluster, Work: "addon-a-deploy-0", Sequence: sequence, Time: now, Digest: digest}}
		err := m.take(t.Context(), key, func(memory seal.Memory) error {
			mark, fresh, err := seal.Policy{Cluster: m.cluster}.Order(s, memory, now)
			if fresh {
				memory[s.Work] = mark
			}
			return err
		})
		if refused, ok := errors.AsType[*seal.Refusal](err); ok {
			return refused.Reason
		}
		if err != nil {
			t.Fatal(err)
		}
		return seal.Accepted
	}
	as := func(cluster string) *marks {
		return &marks{client: local.CoreV1(), cluster: cluster, known: make(map[string]*corev1.ConfigMap)}
	}
	for _, step := range []struct {
		cluster  string
		sequence int64
		digest   string
		want     seal.Reason
	}{
		{"oslo", 58, "y", seal.Accepted},
		{"rome", 1, "z", seal.Accepted},
		{"rome", 2, "z", seal.Accepted},
		{"rome", 1, "z", seal.Older},
		{"oslo", 57, "x", seal.Older},
		{"oslo", 59, "x", seal.Accepted},
	} {
		if got := accept(as(step.cluster), step.sequence, step.digest); got != step.want {
			t.Errorf("%s, number %d: got %s, want %s", step.cluster, step.sequence, got, step.want)
		}
	}
	if err := as("rome").gone(t.Context(), "addon-a-deploy-0"); err != nil {
		t.Fatal(err)
	}
	if got := accept(as("oslo"), 60, "x"); got != seal.Accepted {
		t.Errorf("after rome's work is gone: %s", got)
	}
	w := &carrier{agent: &agent{marks: marks{client: local.CoreV1(), cluster: "rome", known: make(map[string]*corev1.ConfigMap)}}, key: key}
	if _, err := w.recall(t.Context()); err != nil || w.last.Sequence != 0 || w.last.Report != 17 {
		t.Errorf("the parcels of rome begin with %+v, %v", w.last, err)
	}
}

// TestMarksOfDeletedWorksEnd accepts a work after another was deleted long ago. The ConfigMap would grow for ever otherwise.
func TestMarksOfDeletedWorksEnd(t *testing.T) {
	_, key := fixture.SigningKey(t)
	now := time.Now()
	text := func(sequence int, age time.Duration) string {
		return fmt.Sprintf(`{"sequence":%d,"time":%q,"digest":"x","gone":true}`, sequence, now.Add(-age).Format(time.RFC3339))
	}
	local := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: nameOfMarks(key), Namespace: Namespace, ResourceVersion: "1"},
		Data:       map[string]string{"once-1": text(1, 2*DefaultMaxAge), "once-2": text(2, time.Hour), parcelField: `{"sequence":9}`},
	})
	m := &marks{client: local.CoreV1(), cluster: "oslo", known: make(map[string]*corev1.ConfigMap)}
	if err := m.take(t.Context(), key, func(memory seal.Memory) error {
		memory["once-3"] = seal.Mark{Sequence: 3, Time: now, Digest: "x"}
		seal.Policy{MaxAge: DefaultMaxAge}.Forget(memory, now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	stored, err := local.CoreV1().ConfigMaps(Namespace).Get(t.Context(), nameOfMarks(key), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(stored.Data)), []string{clusterField, parcelField, "once-2", "once-3"}; !slices.Equal(got, want) {
		t.Errorf("stored are %q, not %q", got, want)
	}
}
