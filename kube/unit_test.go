package kube

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestFieldsThatCannotChangeAreRecognized has the words of Kubernetes, and refusals that recreating would not end.
func TestFieldsThatCannotChangeAreRecognized(t *testing.T) {
	refusal := func(e *field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Any"}, "a", field.ErrorList{e})
	}
	at := field.NewPath("spec")
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{refusal(field.Invalid(at, "x", "field is immutable")), true},
		{refusal(field.Invalid(at.Child("clusterIPs").Index(0), "None", "may not change once set")), true},
		{refusal(field.Invalid(at, "x", "cannot change roleRef")), true},
		{refusal(field.Forbidden(at, "updates to parameters are forbidden.")), true},
		{refusal(field.Forbidden(at, "updates to provisioner are forbidden.")), true},
		{refusal(field.Forbidden(at, "updates to reclaimPolicy are forbidden.")), true},
		{refusal(field.Forbidden(at, "updates to statefulset spec for fields other than 'replicas' are forbidden")), true},
		{refusal(field.Invalid(at, "x", "must be a DNS label")), false},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "a", errors.New("attempting to grant extra privileges")), false},
		{errors.New("cannot change roleRef"), false},
	} {
		if got := immutable(tt.err); got != tt.want {
			t.Errorf("%v: got %v", tt.err, got)
		}
	}
}

func TestTransientErrorsAreRecognized(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	internal := func(text string) error { return apierrors.NewInternalError(errors.New(text)) }
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nothing listens", &url.Error{Err: &os.SyscallError{Err: syscall.ECONNREFUSED}}, true},
		{"connection closed under the request", &url.Error{Err: io.EOF}, true},
		{"server reset the connection", &url.Error{Err: syscall.ECONNRESET}, true},
		{"request took too long", &url.Error{Err: os.ErrDeadlineExceeded}, true},
		{"503", apierrors.NewServiceUnavailable("starting"), true},
		{"429", apierrors.NewTooManyRequests("busy", 1), true},
		{"504", apierrors.NewTimeoutError("slow", 1), true},
		{"somebody wrote in between", apierrors.NewConflict(configMaps, "a", errors.New("modified")), true},
		{"somebody created in between", apierrors.NewAlreadyExists(configMaps, "a"), true},
		{"a webhook that does not run yet", internal(`failed calling webhook "x": connection refused`), true},
		{"etcd changes its leader", internal("etcdserver: leader changed"), true},
		{"a pod whose service account comes late", apierrors.NewForbidden(configMaps, "a", errors.New("error looking up service account a/default")), true},
		{"wrapped", fmt.Errorf("take over: %w", apierrors.NewServiceUnavailable("starting")), true},
		{"an internal error of another kind", internal("nil pointer"), false},
		{"not allowed", apierrors.NewForbidden(configMaps, "a", errors.New("no")), false},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil), false},
		{"not found", apierrors.NewNotFound(configMaps, "a"), false},
		{"certificate of an unknown authority", &url.Error{Err: errors.New("x509: unknown authority")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Transient(tt.err); got != tt.want {
				t.Errorf("Transient(%v) = %v", tt.err, got)
			}
		})
	}
}

func TestStagesFollowDependencies(t *testing.T) {
	order := [][]string{
		{"Namespace", "CustomResourceDefinition.apiextensions.k8s.io"},
		{"ServiceAccount", "Secret", "Service", "ClusterRole.rbac.authorization.k8s.io", "StorageClass.storage.k8s.io", "NetworkPolicy.networking.k8s.io"},
		{"Deployment.apps", "Job.batch", "Pod"},
		{"ValidatingWebhookConfiguration.admissionregistration.k8s.io", "APIService.apiregistration.k8s.io"},
		{"Issuer.cert-manager.io", "Gateway.gateway.networking.k8s.io"},
	}
	for want, kinds := range order {
		for _, kind := range kinds {
			if got := stageOf(parseGroupKind(kind)); got != stage(want) {
				t.Errorf("%s is in stage %d, want %d", kind, got, want)
			}
		}
	}
}

func TestGroupKindSurvivesItsText(t *testing.T) {
	for _, gk := range []schema.GroupKind{{Kind: "Secret"}, {Group: "apps", Kind: "Deployment"}, {Group: "a.b.c", Kind: "D"}} {
		if got := parseGroupKind(groupKindString(gk)); got != gk {
			t.Errorf("%v became %v", gk, got)
		}
	}
}

func TestDesiredOmitsServerFields(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "2", "creationTimestamp": nil,
			"managedFields": []any{}, "labels": map[string]any{"x": "y"}},
		"stringData": map[string]any{"k": "v"}, "data": map[string]any{"k": "b2xk", "l": "bw=="},
		"status": map[string]any{},
	}}
	before := obj.DeepCopy()
	got, err := desired(obj, "m", map[string]string{labelPartOf: "id"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "a", "namespace": "m", "labels": map[string]any{"x": "y", labelPartOf: "id"}},
		"data":     map[string]any{"k": "dg==", "l": "bw=="}}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
		t.Errorf("the object that was given changed:\n%s", diff)
	}
}

func TestMergeManagersTakesFieldsOfPeopleOnly(t *testing.T) {
	entry := func(manager string, op metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: op, Subresource: subresource, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	entries := []metav1.ManagedFieldsEntry{
		entry("kubectl-edit", "Update", "", `{"f:data":{"f:a":{}}}`),
		entry("controller", "Update", "", `{"f:data":{"f:b":{}}}`),
		entry("kubectl-edit", "Update", "status", `{"f:status":{}}`),
		entry(Manager, "Apply", "", `{"f:data":{"f:c":{}}}`),
	}
	merged, changed, err := mergeManagers(entries, Manager, map[string]bool{"kubectl-edit": true})
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	var got []string
	for _, e := range merged {
		got = append(got, strings.Join([]string{e.Manager, string(e.Operation), e.Subresource, e.FieldsV1.GetRawString()}, " "))
	}
	want := []string{
		`controller Update  {"f:data":{"f:b":{}}}`,
		`kubectl-edit Update status {"f:status":{}}`,
		Manager + ` Apply  {"f:data":{"f:a":{},"f:c":{}}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, changed, _ = mergeManagers(merged, Manager, map[string]bool{"kubectl-edit": true}); changed {
		t.Error("the fields are taken over a second time")
	}
}

// When an object is held, it has every requested leaf.
func FuzzHeld(f *testing.F) {
	f.Add(`{"f:data":{"f:a":{}}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"1","b":"2"}}`)
	f.Add(`{"f:l":{"k:{\"n\":\"x\"}":{".":{},"f:n":{},"f:v":{}}}}`, `{"l":[{"n":"x","v":1}]}`, `{"l":[{"n":"w"},{"n":"x","v":1}]}`)
	f.Add(`{"f:s":{"v:\"a\"":{},"v:\"b\"":{}}}`, `{"s":["a","b"]}`, `{"s":["b","a"]}`)
	f.Add(`{"f:m":{".":{},"f:e":{}}}`, `{"m":{"e":{}}}`, `{"m":{"e":{"x":null}}}`)
	f.Fuzz(func(t *testing.T, fields, want, live string) {
		var maps [3]map[string]any
		for i, text := range []string{fields, want, live} {
			if utiljson.Unmarshal([]byte(text), &maps[i]) != nil {
				t.Skip()
			}
		}
		if holdsMap(maps[0], maps[1], maps[2]) && !contains(maps[2], maps[1]) {
			t.Errorf("%s does not hold %s", live, want)
		}
	})
}

// contains reports whether live has every leaf of want, in lists anywhere.
func contains(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		for key, value := range want {
			ok = ok && contains(live[key], value)
		}
		return ok
	case []any:
		live, ok := live.([]any)
		for _, value := range want {
			ok = ok && slices.ContainsFunc(live, func(l any) bool { return contains(l, value) })
		}
		return ok
	}
	return reflect.DeepEqual(live, want)
}

func TestObjectWithAndWithoutNamespaceIsTwice(t *testing.T) {
	configMap := func(namespace string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		obj.SetName("a")
		obj.SetNamespace(namespace)
		return obj
	}
	for _, row := range []struct {
		first, second string
		twice         bool
	}{{"", "default", true}, {"default", "", true}, {"", "", true}, {"", "other", false}, {"other", "default", false}} {
		err := checkObjects([]*unstructured.Unstructured{configMap(row.first), configMap(row.second)})
		if (err != nil) != row.twice || row.twice && !strings.Contains(err.Error(), "is listed twice, as object 1 and object 2") {
			t.Errorf("%q and %q: %v", row.first, row.second, err)
		}
	}
}

func TestOnlyMembersAreASets(t *testing.T) {
	set := Set{Name: "a", Namespace: "default"}
	engine := New(&Cluster{}, Options{Manager: "kops", TakeOver: []string{clientSideApply}})
	run := engine.newRun(set, nil, ApplyOptions{})
	match := Match{Kind: "ConfigMap", LabelSelector: "!nope"}
	own := map[string]string{"addon": "a"}
	for name, meta := range map[string]metav1.ObjectMeta{
		"a member":             {Labels: map[string]string{labelPartOf: set.ID()}},
		"with the labels":      {Labels: own},
		"of client-side apply": {Annotations: map[string]string{lastApplied: "{}"}},
		"of the manager":       {ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kops", Operation: metav1.ManagedFieldsOperationApply}}},
	} {
		for _, members := range []bool{false, true} {
			why, err := run.foreign(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: meta}, match, MatchOptions{Own: own, Members: members})
			if want := members && name != "a member"; err != nil || (why != "") != want {
				t.Errorf("%s, only members %t: %q, %v", name, members, why, err)
			}
		}
	}
}
