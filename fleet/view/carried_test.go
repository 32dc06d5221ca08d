package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestWorksWaitUntilTheirReportComesBack has the states of works of a cluster without a connection.
func TestWorksWaitUntilTheirReportComesBack(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	work := func(name string, generation int64, conditions ...metav1.Condition) *ocm.ManifestWork {
		return &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}, Status: ocm.ManifestWorkStatus{Conditions: conditions}}
	}
	applied := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: "Applied", Status: status, ObservedGeneration: 2}
	}
	removed := work("removed", 2, applied(metav1.ConditionTrue))
	removed.DeletionTimestamp = &deleted
	var got Carried
	for _, w := range []*ocm.ManifestWork{work("new", 1), work("changed", 3, applied(metav1.ConditionTrue)), work("there", 2, applied(metav1.ConditionTrue)), work("broken", 2, applied(metav1.ConditionFalse)), removed} {
		got.add(w)
	}
	if diff := cmp.Diff(Carried{Works: 4, Waiting: []string{"new", "changed"}, Removed: []string{"removed"}, Failed: []string{"broken"}}, got); diff != "" {
		t.Error(diff)
	}
}
