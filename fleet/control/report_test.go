package control

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestChangedMessageAloneIsDelayed compares add-ons before and after their works are checked.
func TestChangedMessageAloneIsDelayed(t *testing.T) {
	progressing := func(status, message string, more ...metav1.Condition) *ocm.ManagedClusterAddOn {
		a := &ocm.ManagedClusterAddOn{}
		a.Status.Conditions = append(slices.Clone(more), metav1.Condition{Type: "Progressing", Status: metav1.ConditionStatus(status), Message: message})
		return a
	}
	before := progressing("True", "mca and work configs mismatch")
	for name, c := range map[string]struct {
		after *ocm.ManagedClusterAddOn
		want  bool
	}{
		"the message alone":    {progressing("True", "work is not ready"), true},
		"nothing":              {progressing("True", "mca and work configs mismatch"), false},
		"the end":              {progressing("False", "completed with no errors."), false},
		"the health, too":      {progressing("True", "work is not ready", metav1.Condition{Type: "Available", Status: "False"}), false},
		"there is no such one": {&ocm.ManagedClusterAddOn{}, false},
	} {
		if got, err := onlyMessage(before, c.after); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// TestUnreportedMessageWaitsOnce uses an add-on whose cluster does not answer, and one with more to report afterwards.
func TestUnreportedMessageWaitsOnce(t *testing.T) {
	var u unreported
	one, now := types.NamespacedName{Namespace: "rome", Name: "hello"}, time.Now()
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second} {
		if got := u.since(one, now.Add(time.Duration(i)*time.Second)); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	u.forget(one)
	if got := u.since(one, now.Add(time.Hour)); got != 0 || len(u.values) != 1 {
		t.Errorf("%s, %v", got, u.values)
	}
}

// TestStatusesWaitForPendingWorks gives add-ons a configuration, and writes their works.
func TestStatusesWaitForPendingWorks(t *testing.T) {
	var again []string
	g := pendingWorks{again: func(r reconcile.Request) { again = append(again, r.String()) }}
	rome, oslo := types.NamespacedName{Namespace: "rome", Name: "hello"}, types.NamespacedName{Namespace: "oslo", Name: "hello"}
	long := func(waits bool, what string) {
		t.Helper()
		if got := g.holds(rome); got != waits {
			t.Errorf("%s, and that a status waits is %t", what, got)
		}
	}
	long(false, "nothing is given")
	g.begin()
	long(false, "the first decision has just begun")
	g.since = time.Now().Add(-pendingLong)
	long(true, "decisions are written")
	g.add(rome)
	g.add(oslo)
	g.end()
	long(true, "no work is written")
	g.done(rome)
	g.done(rome)
	long(true, "one work is written")
	if len(again) > 0 {
		t.Errorf("%s do not wait any longer, but one work is not written", again)
	}
	g.done(oslo)
	long(false, "all works are written")
	if len(again) != 1 || again[0] != rome.String() {
		t.Errorf("%s are looked at again", again)
	}
	g.add(oslo)
	g.since, g.last = time.Now().Add(-time.Hour), time.Now().Add(-pendingStuck)
	g.begin()
	g.done(rome)
	g.end()
	long(false, "a work was not written for long")
}
