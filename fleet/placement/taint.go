package placement

import (
	"errors"
	"time"

	"github.com/sealift/sealift/fleet/ocm"
)

// tolerate keeps the clusters whose taints the placement tolerates (O-40, X-19).
func tolerate(tolerations []ocm.Toleration, clusters []*ocm.ManagedCluster, decided map[string]bool, now time.Time) ([]*ocm.ManagedCluster, error) {
	for _, t := range tolerations {
		if t.Key == "" && t.Operator != ocm.TolerationExists {
			return nil, errors.New("If the key is empty, operator must be Exists.") //nolint:staticcheck // the text is part of the API
		}
		if t.Operator == ocm.TolerationExists && t.Value != "" {
			return nil, errors.New("If the operator is Exists, the value should be empty.") //nolint:staticcheck // the text is part of the API
		}
	}
	var kept []*ocm.ManagedCluster
	for _, c := range clusters {
		if ok, _ := tolerated(c, tolerations, decided[c.Name], now); ok {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// tolerated reports whether all taints of a cluster are tolerated, and until when. A zero time means forever.
func tolerated(c *ocm.ManagedCluster, tolerations []ocm.Toleration, decided bool, now time.Time) (bool, time.Time) {
	var until time.Time
	for _, taint := range c.Spec.Taints {
		if taint.Effect == ocm.PreferNoSelect || taint.Effect == ocm.NoSelectIfNew && decided {
			continue
		}
		ok, end := false, time.Time{}
		for _, t := range tolerations {
			if ok, end = tolerates(t, taint, now); ok {
				break
			}
		}
		if !ok {
			return false, time.Time{}
		}
		until = earlier(until, end)
	}
	return true, until
}

// tolerates reports whether a toleration covers a taint, and until when.
func tolerates(t ocm.Toleration, taint ocm.Taint, now time.Time) (bool, time.Time) {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false, time.Time{}
	}
	switch t.Operator {
	case ocm.TolerationExists:
	case ocm.TolerationEqual, "":
		if t.Value != taint.Value {
			return false, time.Time{}
		}
	default:
		return false, time.Time{}
	}
	if t.TolerationSeconds == nil {
		return true, time.Time{}
	}
	end := taint.TimeAdded.Add(time.Duration(*t.TolerationSeconds) * time.Second)
	if !now.Before(end) {
		return false, time.Time{}
	}
	return true, end
}

// toleratedUntil returns when the first decided cluster is no longer tolerated.
func toleratedUntil(tolerations []ocm.Toleration, clusters []*ocm.ManagedCluster, decided map[string]bool, now time.Time) time.Time {
	var until time.Time
	for _, c := range clusters {
		if decided[c.Name] {
			_, end := tolerated(c, tolerations, true, now)
			until = earlier(until, end)
		}
	}
	return until
}

// earlier returns the earlier of two times. A zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
