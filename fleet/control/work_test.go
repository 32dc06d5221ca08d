package control

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	"github.com/sealift/sealift/kube"
)

// TestAgentAnswersDoNotConflictWithWorks writes works that others have written since they were read.
func TestAgentAnswersDoNotConflictWithWorks(t *testing.T) {
	t.Parallel()
	config := controlplane.ForTest(t)
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := kube.Connect(config, nil)
	must(t, err)
	hubsetup.Define(t, cluster)
	scheme := runtime.NewScheme()
	must(t, corev1.AddToScheme(scheme))
	must(t, ocm.AddToScheme(scheme))
	hub, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	manifests := func(data string) []map[string]any {
		return []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "default"}, "data": map[string]any{"is": data}}}
	}
	answer := func(w *ocm.ManifestWork) error {
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, Reason: "Done"})
		return hub.Status().Update(t.Context(), w)
	}
	content := func(w *ocm.ManifestWork) { w.Spec.Workload.Manifests = manifests("hub's") }
	mark := map[string]string{"some/body": "was-here"}
	for n, test := range []struct {
		what   string
		bare   bool // the work has neither labels nor annotations
		marked bool
		others func(w *ocm.ManifestWork) error
		change func(w *ocm.ManifestWork)
		want   metav1.StatusReason
	}{
		{"nobody wrote", false, false, nil, content, ""},
		{"nothing changes", false, false, answer, func(*ocm.ManifestWork) {}, ""},
		{"the cluster answered", false, false, answer, content, ""},
		{"the cluster answered, and the work gets its first annotation", true, false, answer, func(w *ocm.ManifestWork) { w.Annotations = map[string]string{"a": "b"} }, metav1.StatusReasonConflict},
		{"the work gets its first annotation", true, false, nil, func(w *ocm.ManifestWork) { w.Annotations = map[string]string{"a": "b"} }, ""},
		{"somebody marked the work", false, true, func(w *ocm.ManifestWork) error {
			maps.Copy(w.Labels, mark)
			maps.Copy(w.Annotations, mark)
			return hub.Update(t.Context(), w)
		}, func(w *ocm.ManifestWork) {
			content(w)
			delete(w.Labels, "old")
			w.Annotations["x/y"], w.Annotations["empty"] = "changed", ""
		}, ""},
		{"somebody changed the content", false, false, func(w *ocm.ManifestWork) error {
			w.Spec.Workload.Manifests = manifests("somebody's")
			return hub.Update(t.Context(), w)
		}, content, metav1.StatusReasonConflict},
		{"somebody answered, and the work gets an owner", false, false, answer, func(w *ocm.ManifestWork) {
			w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "u"}}
		}, metav1.StatusReasonConflict},
		{"somebody deleted the work, and made another one of its name", false, false, func(w *ocm.ManifestWork) error {
			again := &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Labels: w.Labels, Annotations: w.Annotations}}
			again.Spec.Workload.Manifests = manifests("another's")
			if err := hub.Delete(t.Context(), w); err != nil {
				return err
			}
			return hub.Create(t.Context(), again)
		}, content, metav1.StatusReasonConflict},
		{"the work is gone", false, false, func(w *ocm.ManifestWork) error { return hub.Delete(t.Context(), w) }, content, metav1.StatusReasonNotFound},
		{"the content is invalid", false, false, answer, func(w *ocm.ManifestWork) {
			w.Spec.Executor = &ocm.Executor{Subject: ocm.ExecutorSubject{Type: "nobody"}}
		}, metav1.StatusReasonInvalid},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := &controllers{Client: hub}
			w := &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("work-", n)}}
			if !test.bare {
				w.Labels, w.Annotations = map[string]string{"old": "label"}, map[string]string{"x/y": "annotation"}
			}
			w.Spec.Workload.Manifests = manifests("first")
			must(t, hub.Create(t.Context(), w))
			if test.others != nil {
				must(t, test.others(copyOf(w)))
			}
			after := copyOf(w)
			test.change(after)
			want := copyOf(after)
			err := c.patchWork(t.Context(), w, after)
			if got := apierrors.ReasonForError(err); got != test.want && (err != nil || test.want != "") {
				t.Fatalf("%q, not %q: %v", got, test.want, err)
			}
			if err != nil {
				if stale := c.outdated.behind(w); stale != (test.want == metav1.StatusReasonConflict) {
					t.Errorf("after %v, the version of before counts as replaced: %v", err, stale)
				}
				return
			}
			var is ocm.ManifestWork
			must(t, hub.Get(t.Context(), client.ObjectKeyFromObject(w), &is))
			if changed, err := differ(is.Spec, want.Spec); err != nil || changed {
				t.Errorf("the content is %v, %v", is.Spec, err)
			}
			if test.marked {
				maps.Copy(want.Labels, mark)
				maps.Copy(want.Annotations, mark)
			}
			if !maps.Equal(is.Labels, want.Labels) || !maps.Equal(is.Annotations, want.Annotations) {
				t.Errorf("labels %v, annotations %v", is.Labels, is.Annotations)
			}
			if c.outdated.behind(&is) {
				t.Error("what is stored counts as replaced")
			}
		})
	}
}
