package kube

import (
	"fmt"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State is how far a live object has come.
type State string

// The states. Broken is for what does not mend by itself, so that waiting for it is no use.
const (
	Ready   State = "ready"
	Waiting State = "waiting"
	Broken  State = "broken"
)

var (
	jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}
	podKind = schema.GroupKind{Kind: "Pod"}
)

// unhealthyWhenFalse lists the conditions whose value False makes an object of any kind unhealthy (K-23). Unknown ones
// and missing ones do not.
func unhealthyWhenFalse(gk schema.GroupKind) []string {
	types := []string{"Available", "ContainersReady", "Established", "Healthy", "Initialized", "NamesAccepted", "PodScheduled", "Ready"}
	if gk.Group == "gateway.networking.k8s.io" {
		types = append(types, "Accepted", "Programmed")
	}
	return types
}

// Health judges a live object by what it says of itself, and says why it is not ready. Workloads are ready when they are
// rolled out, Jobs when complete, definitions when established, extensions of the API when available; other kinds by the
// rules of kstatus and K-23. A Deployment past its progress deadline or a pod in a crash loop is still Waiting, since
// both may recover.
func Health(obj *unstructured.Unstructured) (State, string) {
	if obj.GetDeletionTimestamp() != nil {
		return Waiting, "it is being deleted"
	}
	switch gk := obj.GroupVersionKind().GroupKind(); gk {
	case jobKind:
		return jobHealth(obj)
	case serviceAPIKind:
		return conditionHealth(obj, "Available")
	case namespaceKind:
		if phase := text(obj.Object, "status", "phase"); phase != "Active" {
			return Waiting, fmt.Sprintf("its phase is %q", phase)
		}
		return Ready, ""
	case podKind:
		if text(obj.Object, "status", "phase") == "Failed" {
			return Broken, "it has failed: " + podProblem(obj.Object)
		}
	}
	return generalHealth(obj)
}

func generalHealth(obj *unstructured.Unstructured) (State, string) {
	result, err := status.Compute(obj)
	if err != nil {
		return Waiting, "its status cannot be read: " + err.Error()
	}
	gk := obj.GroupVersionKind().GroupKind()
	switch {
	case result.Status == status.FailedStatus && gk == definitionKind:
		return Broken, result.Message
	case result.Status != status.CurrentStatus:
		return Waiting, result.Message
	case status.GetLegacyConditionsFn(obj) != nil:
		return Ready, "" // kinds that kstatus knows by name; some of their conditions may be False in health
	}
	types := unhealthyWhenFalse(gk)
	for _, c := range conditions(obj) {
		if c.status == "False" && slices.Contains(types, c.kind) {
			return Waiting, c.String()
		}
	}
	return Ready, ""
}

// jobHealth differs from kstatus, to which a Job that has started is as good as done.
func jobHealth(obj *unstructured.Unstructured) (State, string) {
	for _, c := range conditions(obj) {
		if c.status != "True" {
			continue
		}
		switch c.kind {
		case "Complete", "SuccessCriteriaMet":
			return Ready, ""
		case "Failed", "FailureTarget":
			return Broken, "it has failed: " + c.reasonAndMessage()
		case "Suspended":
			return Ready, ""
		}
	}
	active, _, _ := unstructured.NestedInt64(obj.Object, "status", "active")
	failed, _, _ := unstructured.NestedInt64(obj.Object, "status", "failed")
	return Waiting, fmt.Sprintf("not complete: %d pods active, %d failed", active, failed)
}

// conditionHealth is for kinds that are of no use until one condition is True.
func conditionHealth(obj *unstructured.Unstructured, kind string) (State, string) {
	for _, c := range conditions(obj) {
		if c.kind == kind {
			if c.status == "True" {
				return Ready, ""
			}
			return Waiting, c.String()
		}
	}
	return Waiting, "condition " + kind + " is not reported yet"
}

type condition struct{ kind, status, reason, message string }

func (c condition) String() string {
	return fmt.Sprintf("condition %s is %s: %s", c.kind, c.status, c.reasonAndMessage())
}

func (c condition) reasonAndMessage() string { return joinReason(c.reason, c.message) }

func conditions(obj *unstructured.Unstructured) []condition {
	raw, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	out := make([]condition, 0, len(raw))
	for _, item := range raw {
		if c, ok := item.(map[string]any); ok {
			out = append(out, condition{text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message")})
		}
	}
	return out
}

// text reads a string that may not be there.
func text(content map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(content, path...)
	return s
}

func joinReason(reason, message string) string {
	switch {
	case message == "" && reason == "":
		return "no reason given"
	case message == "":
		return reason
	case reason == "":
		return message
	}
	return reason + ": " + message
}
