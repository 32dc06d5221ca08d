package control

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestOnlyAMessageWaits compares add-ons before and after a look at their works.
func TestOnlyAMessageWaits(t *testing.T) {
	progressing := func(status, message string, more ...metav1.Condition) *ocm.ManagedClusterAddOn {
		a := &ocm.ManagedClusterAddOn{}
		a.Status.Conditions = append(more, metav1.Condition{Type: "Progressing", Status: metav1.ConditionStatus(status), Message: message})
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

// TestAMessageWaitsOnce has an add-on whose cluster does not answer, and one of which the hub then has more to tell.
func TestAMessageWaitsOnce(t *testing.T) {
	var u untold
	one, now := types.NamespacedName{Namespace: "rome", Name: "hello"}, time.Now()
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second} {
		if got := u.since(one, now.Add(time.Duration(i)*time.Second)); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	u.forget(one)
	if got := u.since(one, now.Add(time.Hour)); got != 0 || len(u.begin) != 1 {
		t.Errorf("%s, %v", got, u.begin)
	}
}

// TestStatusesWaitForALongGiving lets configurations be given to clusters for different times.
func TestStatusesWaitForALongGiving(t *testing.T) {
	var g giving
	if wait := g.wait(); wait != 0 {
		t.Errorf("nothing is given, and a status waits %s", wait)
	}
	g.begin()
	if wait := g.wait(); wait != 0 {
		t.Errorf("the giving has begun just now, and a status waits %s", wait)
	}
	g.set(time.Now().Add(-time.Minute))
	if wait := g.wait(); wait < time.Minute {
		t.Errorf("the giving has lasted a minute, and a status waits %s", wait)
	}
	g.end()
	if wait := g.wait(); wait != 0 {
		t.Errorf("the giving is over, and a status waits %s", wait)
	}
}
