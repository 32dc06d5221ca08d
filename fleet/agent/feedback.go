package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
)

// maxJSON is how long a value that is an object or a list may be.
const maxJSON = 1024

// readFeedback reads the object of a manifest. It sets conditions Available and StatusFeedbackSynced, those of the manifest's rules, and the
// requested values. It returns the status of Available.
func (a *agent) readFeedback(ctx context.Context, work *ocm.ManifestWork, m *manifest, s *ocm.ManifestStatus) string {
	live, err := a.live(ctx, m.object)
	switch {
	case apierrors.IsNotFound(err) && m.complete:
		set(&s.Conditions, "Available", "True", "ResourceComplete", "Resource was complete, and is gone")
		a.judge(ctx, work, m, nil, s)
		return "True"
	case apierrors.IsNotFound(err):
		a.judge(ctx, work, m, nil, s)
		set(&s.Conditions, "Available", "False", "ResourceNotAvailable", "Resource is not available")
		set(&s.Conditions, "StatusFeedbackSynced", "False", "NoStatusFeedbackSynced", "")
		return "False"
	case meta.IsNoMatchError(err):
		set(&s.Conditions, "Available", "Unknown", "IncompletedResourceMeta", fmt.Sprintf("Resource meta is incompleted: %v", err))
		return "Unknown"
	case err != nil:
		set(&s.Conditions, "Available", "Unknown", "FetchingResourceFailed", fmt.Sprintf("Failed to fetch resource: %v", err))
		return "Unknown"
	}
	set(&s.Conditions, "Available", "True", "ResourceAvailable", "Resource is available")
	a.judge(ctx, work, m, live, s)
	available := string(meta.FindStatusCondition(s.Conditions, "Available").Status) // a rule may judge it
	if len(m.config.FeedbackRules) == 0 {                                           // there is nothing to do, so it counts as done
		set(&s.Conditions, "StatusFeedbackSynced", "True", "NoStatusFeedbackSynced", "")
		return available
	}
	var problems []string
	s.StatusFeedback.Values, problems = feedback(live, m.config.FeedbackRules)
	if len(problems) > 0 {
		set(&s.Conditions, "StatusFeedbackSynced", "False", "StatusFeedbackSyncFailed", "Sync status feedback failed with error "+strings.Join(problems, "; "))
	} else {
		set(&s.Conditions, "StatusFeedbackSynced", "True", "StatusFeedbackSynced", "")
	}
	return available
}

// live reads the object that a manifest names.
func (a *agent) live(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := a.local.Objects(ctx, kube.RefOf(object))
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, object.GetName(), metav1.GetOptions{})
}

// feedback reads the values that rules request. A value that is missing is left out.
func feedback(live *unstructured.Unstructured, rules []ocm.FeedbackRule) (values []ocm.FeedbackValue, problems []string) {
	seen := make(map[string]bool)
	add := func(name string, value any) {
		field, err := fieldValue(value)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %v", name, err))
		case !seen[name]:
			seen[name] = true
			values = append(values, ocm.FeedbackValue{Name: name, FieldValue: field})
		}
	}
	for _, rule := range rules {
		paths := rule.JSONPaths
		if rule.Type == ocm.WellKnownStatus {
			paths = wellKnown(live)
			if paths == nil {
				problems = append(problems, fmt.Sprintf("kind %s has no well-known status", live.GetKind()))
			}
			if live.GroupVersionKind().Group == "apps" {
				state, _ := health.Of(live)
				add(status.RolledOut, state == health.Ready)
			}
		}
		for _, p := range paths {
			value, err := find(live, p)
			switch {
			case err != nil:
				problems = append(problems, fmt.Sprintf("%s: %v", p.Name, err))
			case value != nil:
				add(p.Name, value)
			}
		}
	}
	return values, problems
}

// wellKnown returns the paths of the well-known status of a kind, or nil if it has none.
func wellKnown(live *unstructured.Unstructured) []ocm.JSONPath {
	condition := func(name, kind string) ocm.JSONPath {
		return ocm.JSONPath{Name: name, Path: `.status.conditions[?(@.type=="` + kind + `")].status`}
	}
	switch live.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps":
		return []ocm.JSONPath{
			{Name: "ReadyReplicas", Path: ".status.readyReplicas"}, {Name: "Replicas", Path: ".status.replicas"},
			{Name: "AvailableReplicas", Path: ".status.availableReplicas"},
		}
	case "DaemonSet.apps":
		return []ocm.JSONPath{
			{Name: "NumberReady", Path: ".status.numberReady"}, {Name: "DesiredNumberScheduled", Path: ".status.desiredNumberScheduled"},
			{Name: "NumberAvailable", Path: ".status.numberAvailable"},
		}
	case "Job.batch":
		return []ocm.JSONPath{
			condition("JobComplete", "Complete"), {Name: "JobSucceeded", Path: ".status.succeeded"},
			// upstream's agents report only how a Job succeeds
			condition(deploy.JobFailed, "Failed"), {Name: deploy.JobFailure, Path: `.status.conditions[?(@.type=="Failed")].message`},
		}
	case "Pod":
		return []ocm.JSONPath{condition("PodReady", "Ready"), {Name: "PodPhase", Path: ".status.phase"}}
	}
	return nil
}

// find reads a path that begins with a dot, or returns nil if there is nothing there. Several values are a list.
func find(live *unstructured.Unstructured, p ocm.JSONPath) (any, error) {
	if p.Version != "" && p.Version != live.GroupVersionKind().Version {
		return nil, fmt.Errorf("version %s of %s is not the applied one", p.Version, live.GetKind())
	}
	j := jsonpath.New(p.Name).AllowMissingKeys(true)
	if err := j.Parse("{" + p.Path + "}"); err != nil {
		return nil, err
	}
	results, err := j.FindResults(live.Object)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil, err
	}
	if len(results[0]) == 1 {
		return results[0][0].Interface(), nil
	}
	list := make([]any, len(results[0]))
	for i, r := range results[0] {
		list[i] = r.Interface()
	}
	return list, nil
}

// fieldValue types a value.
func fieldValue(value any) (ocm.FieldValue, error) {
	switch v := value.(type) {
	case int64:
		return ocm.FieldValue{Type: ocm.FieldInteger, Integer: &v}, nil
	case string:
		return ocm.FieldValue{Type: ocm.FieldString, String: &v}, nil
	case bool:
		return ocm.FieldValue{Type: ocm.FieldBoolean, Boolean: &v}, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ocm.FieldValue{}, err
	}
	if len(text) > maxJSON {
		return ocm.FieldValue{}, fmt.Errorf("the value has %d bytes, more than %d", len(text), maxJSON)
	}
	return ocm.FieldValue{Type: ocm.FieldJSON, JSON: new(string(text))}, nil
}

// unfinished reports whether an object reports that it is not rolled out.
func unfinished(s ocm.ManifestStatus) bool {
	return slices.ContainsFunc(s.StatusFeedback.Values, func(v ocm.FeedbackValue) bool {
		return v.Name == status.RolledOut && v.FieldValue.Boolean != nil && !*v.FieldValue.Boolean
	})
}
