package status_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
)

// TestOldPodsAreNotASuccess uses a Deployment whose old pod is ready while its new one is not.
func TestOldPodsAreNotASuccess(t *testing.T) {
	one := int64(1)
	for _, done := range []bool{false, true} {
		w := ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "addon-a-deploy-0", Generation: 2}}
		for _, kind := range []string{"Applied", "Available"} {
			w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: kind, Status: "True", ObservedGeneration: 2})
		}
		m := ocm.ManifestStatus{ResourceMeta: ocm.ResourceMeta{Group: "apps", Resource: "deployments", Namespace: "ns", Name: "d"}}
		m.StatusFeedback.Values = []ocm.FeedbackValue{
			{Name: "ReadyReplicas", FieldValue: ocm.FieldValue{Integer: &one}}, {Name: "Replicas", FieldValue: ocm.FieldValue{Integer: &one}},
			{Name: status.RolledOut, FieldValue: ocm.FieldValue{Boolean: &done}},
		}
		w.Status.ResourceStatus.Manifests = []ocm.ManifestStatus{m}
		a := status.AddOn{Name: "a", Works: []ocm.ManifestWork{w}, Conditions: []metav1.Condition{{Type: "ManifestApplied", Status: "True"}}}
		c, _ := a.Progressing()
		if (c.Reason == "Completed") != done || !done && !strings.Contains(c.Message, "deployments ns/d is not rolled out") {
			t.Errorf("rolled out %v: %+v", done, c)
		}
		if got := a.Available(); got.Status != "True" {
			t.Errorf("rolled out %v: %+v", done, got)
		}
	}
}
