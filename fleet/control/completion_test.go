package control

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/ocm"
)

// oneWork is a hub with one work, which may be deleted.
type oneWork struct {
	client.Client
	work    ocm.ManifestWork
	deleted bool
}

func (o *oneWork) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*ocm.ManifestWork) = o.work //nolint:forcetypeassert // nothing else is read
	return nil
}

func (o *oneWork) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	o.deleted = true
	return nil
}

// TestFormerCompletionDeletesNothing uses a work that is complete for a day. Its content may have been changed while its cluster was away.
func TestFormerCompletionDeletesNothing(t *testing.T) {
	now := time.Now()
	for generation, deleted := range map[int64]bool{1: true, 2: false} {
		o := &oneWork{}
		o.work.Generation = generation
		o.work.Spec.DeleteOption = &ocm.DeleteOption{TTLSecondsAfterFinished: new(int64(86400))}
		o.work.Status.Conditions = []metav1.Condition{{
			Type: ocm.Complete, Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now.Add(-24 * time.Hour)),
		}}
		c := &controllers{Client: o, now: func() time.Time { return now }}
		if again, err := c.finishOne(t.Context(), reconcile.Request{}); err != nil || again != (reconcile.Result{}) || o.deleted != deleted {
			t.Errorf("generation %d is deleted: %v, %+v, %v", generation, o.deleted, again, err)
		}
	}
}
