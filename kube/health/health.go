// Package health judges Kubernetes objects by their own status. It needs no cluster.
package health

import (
	"fmt"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State is the progress of a live object.
type State string

// The states. Broken means that the object does not recover on its own, so that waiting is useless.
const (
	Ready   State = "ready"
	Waiting State = "waiting"
	Broken  State = "broken"
)

var (
	jobKind        = schema.GroupKind{Group: "batch", Kind: "Job"}
	podKind        = schema.GroupKind{Kind: "Pod"}
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	serviceAPIKind = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
)

// Failing returns the first condition that makes an object of any kind unhealthy, by the rule K-23: its value is False, and its
// type is one that counts, or one of more. Conditions that are Unknown or missing do not count.
func Failing(obj *unstructured.Unstructured, more ...string) (Condition, bool) {
	types := slices.Concat(more, []string{"Available", "ContainersReady", "Established", "Healthy", "Initialized", "NamesAccepted", "PodScheduled", "Ready"})
	if obj.GroupVersionKind().Group == "gateway.networking.k8s.io" {
		types = append(types, "Accepted", "Programmed")
	}
	for _, c := range Conditions(obj) {
		if c.Status == "False" && slices.Contains(types, c.Type) {
			return c, true
		}
	}
	return Condition{}, false
}

// Of judges a live object by its own status, and returns why it is not ready. Workloads are ready when they are rolled out,
// Jobs when complete, definitions when established, extensions of the API when available; other kinds by the rules of kstatus
// and K-23. A Deployment past its progress deadline or a pod in a crash loop is still Waiting, since both may recover.
func Of(obj *unstructured.Unstructured) (State, string) {
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
			return Broken, "it has failed: " + Pod(obj)
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
	if c, failing := Failing(obj); failing {
		return Waiting, c.String()
	}
	return Ready, ""
}

// jobHealth differs from kstatus, which regards a started Job as done.
func jobHealth(obj *unstructured.Unstructured) (State, string) {
	for _, c := range Conditions(obj) {
		if c.Status != "True" {
			continue
		}
		switch c.Type {
		case "Complete", "SuccessCriteriaMet":
			return Ready, ""
		case "Failed", "FailureTarget":
			return Broken, "it has failed: " + c.Why()
		case "Suspended":
			return Ready, ""
		}
	}
	active, _, _ := unstructured.NestedInt64(obj.Object, "status", "active")
	failed, _, _ := unstructured.NestedInt64(obj.Object, "status", "failed")
	return Waiting, fmt.Sprintf("not complete: %d pods active, %d failed", active, failed)
}

// conditionHealth is for kinds that are unusable until one condition is True.
func conditionHealth(obj *unstructured.Unstructured, kind string) (State, string) {
	for _, c := range Conditions(obj) {
		if c.Type == kind {
			if c.Status == "True" {
				return Ready, ""
			}
			return Waiting, c.String()
		}
	}
	return Waiting, "condition " + kind + " is not reported yet"
}

// Condition is one of the conditions in the status of an object.
type Condition struct{ Type, Status, Reason, Message string }

// String is one line: type, status and why.
func (c Condition) String() string {
	return fmt.Sprintf("condition %s is %s: %s", c.Type, c.Status, c.Why())
}

// Why joins reason and message.
func (c Condition) Why() string { return Why(c.Reason, c.Message) }

// Conditions reads the conditions of an object.
func Conditions(obj *unstructured.Unstructured) []Condition {
	raw, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	out := make([]Condition, 0, len(raw))
	for _, item := range raw {
		if c, ok := item.(map[string]any); ok {
			out = append(out, Condition{text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message")})
		}
	}
	return out
}

// text reads an optional string.
func text(content map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(content, path...)
	return s
}

// Why joins a one-word reason and a message, both optional.
func Why(reason, message string) string {
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
