package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
)

// canComplete reports whether the manifest's rules say when it is complete.
func (m *manifest) canComplete() bool {
	return slices.ContainsFunc(m.rules, func(r rule) bool { return r.condition == ocm.Complete })
}

// freeze finds the manifests that are complete: those that are recorded, and those whose objects are so now. They are neither
// updated nor recreated. It reports whether the whole work is complete, so that nothing of it changes any longer: all manifests
// that can be complete are.
func (a *agent) freeze(ctx context.Context, recorded []ocm.ResourceIdentifier, manifests []manifest) (whole bool) {
	some, open := false, false
	for i := range manifests {
		m := &manifests[i]
		if m.err != nil || !m.canComplete() {
			open = open || m.err != nil
			continue
		}
		some = true
		if m.complete = slices.Contains(recorded, m.id); !m.complete {
			m.complete, m.err = a.completeNow(ctx, m)
		}
		open = open || !m.complete
	}
	if !some || open {
		return false
	}
	for i := range manifests {
		manifests[i].complete = true
	}
	return true
}

func (a *agent) completeNow(ctx context.Context, m *manifest) (bool, error) {
	live, err := a.live(ctx, m.object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether it is complete: %w", err)
	}
	return isComplete(evaluateRules(m.rules, live)), nil
}

func isComplete(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, ocm.Complete)
}

// completed lists the complete manifests whose rules say so.
func completed(manifests []manifest) (ids []ocm.ResourceIdentifier) {
	for _, m := range manifests {
		if m.complete && m.canComplete() {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// spareLeft keeps objects in their sets, which no longer apply them.
func spareLeft(manifests []manifest) func(kube.Ref) string {
	stay := make(map[kube.Ref]bool)
	for i := range manifests {
		if manifests[i].isLeft() {
			for _, ref := range manifests[i].refs() {
				stay[ref] = true
			}
		}
	}
	return func(ref kube.Ref) string {
		ref.Version = ""
		if stay[ref] {
			return "it is left as it is"
		}
		return ""
	}
}

// recordComplete records that a manifest is complete, before the hub gets to know.
func (a *agent) recordComplete(ctx context.Context, work *ocm.ManifestWork, m *manifest) error {
	was, err := a.recalled(ctx, work)
	if err != nil {
		return err
	}
	if !slices.Contains(was.Complete, m.id) {
		was.Complete = append(was.Complete, m.id)
	}
	return a.recordPlaces(ctx, work, was)
}

// judge sets the conditions that a manifest's rules say. object is nil if it does not exist. A manifest that was complete once
// stays so.
func (a *agent) judge(ctx context.Context, work *ocm.ManifestWork, m *manifest, live *unstructured.Unstructured, s *ocm.ManifestStatus) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool {
		return byRule(c) && !slices.ContainsFunc(m.rules, func(r rule) bool { return r.condition == c.Type })
	})
	var conditions []metav1.Condition
	if live != nil {
		conditions = evaluateRules(m.rules, live)
	} else {
		for _, r := range m.rules {
			conditions = append(conditions, metav1.Condition{Type: r.condition, Status: metav1.ConditionFalse, Reason: ruleEvaluated, Message: "Resource is not available"})
		}
	}
	if isComplete(conditions) && !m.complete {
		err := m.err // it is not the object of the manifest that is complete
		if err == nil {
			err = a.recordComplete(ctx, work, m)
		}
		if m.complete = err == nil; !m.complete {
			meta.SetStatusCondition(&conditions, metav1.Condition{Type: ocm.Complete, Status: metav1.ConditionUnknown, Reason: ruleInternal, Message: err.Error()})
		}
	}
	for _, c := range conditions {
		if c.Type == ocm.Complete && m.complete && c.Status != metav1.ConditionTrue {
			if isComplete(s.Conditions) {
				continue
			}
			c.Status, c.Message = metav1.ConditionTrue, "Manifest is "+ocm.Complete
		}
		c.Message = strings.ToValidUTF8(c.Message[:min(len(c.Message), maxJSON)], "")
		meta.SetStatusCondition(&s.Conditions, c)
	}
}

func byRule(c metav1.Condition) bool { return strings.HasPrefix(c.Reason, "ConditionRule") }

// aggregate sets the conditions of a work from those that rules set on its manifests: each is True if it is True on all that have it.
// Those that the agent itself reports stay its own.
func aggregate(work *ocm.ManifestWork) {
	all := make(map[string][]metav1.Condition)
	for _, m := range work.Status.ResourceStatus.Manifests {
		for _, c := range m.Conditions {
			if byRule(c) && c.Type != "Applied" && c.Type != "Available" {
				all[c.Type] = append(all[c.Type], c)
			}
		}
	}
	work.Status.Conditions = slices.DeleteFunc(work.Status.Conditions, func(c metav1.Condition) bool {
		return c.Reason == rulesAggregated && all[c.Type] == nil
	})
	for kind, of := range all {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: rulesAggregated, Message: of[0].Message, ObservedGeneration: work.Generation}
		not := 0
		for _, one := range of {
			if one.Status == metav1.ConditionTrue {
				continue
			}
			not++
			if c.Status != metav1.ConditionFalse {
				c.Status = one.Status
			}
		}
		switch {
		case len(of) > 1 && not == 0:
			c.Message = fmt.Sprintf("%d manifests are %s", len(of), kind)
		case len(of) > 1:
			c.Message = fmt.Sprintf("%d of %d manifests are not %s", not, len(of), kind)
		}
		meta.SetStatusCondition(&work.Status.Conditions, c)
	}
}
