package kube

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/kube/health"
)

var podKind = schema.GroupKind{Kind: "Pod"}

// explainLimit is how many pods and events are read to find a reason; of a thousand pods that do not start, the first
// few are enough.
const explainLimit = 50

var (
	pods   = resource{gvr: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespaced: true}
	events = resource{gvr: schema.GroupVersionResource{Version: "v1", Resource: "events"}, namespaced: true}
)

// explain looks behind an unready object for the actual reason: what its pods wait for, or a controller's last event. It
// returns "" if nothing is known or the server does not answer.
func (e *Engine) explain(ctx context.Context, obj *unstructured.Unstructured) string {
	if RefOf(obj).groupKind() == podKind {
		return e.explainPod(ctx, obj)
	}
	if reason := e.explainPods(ctx, obj); reason != "" {
		return reason
	}
	for _, c := range health.Conditions(obj) {
		if c.Type == "ReplicaFailure" && c.Status == "True" {
			return c.Why()
		}
	}
	return e.lastWarning(ctx, obj)
}

// explainPods finds the first pod of a workload that has a problem.
func (e *Engine) explainPods(ctx context.Context, workload *unstructured.Unstructured) string {
	raw, found, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	if !found || stageOf(RefOf(workload).groupKind()) != stageWorkloads {
		return ""
	}
	var labels metav1.LabelSelector
	if err := fromUnstructured(raw, &labels); err != nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(&labels)
	if err != nil || selector.Empty() {
		return ""
	}
	list, err := e.fullFor(pods, workload.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: explainLimit})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		if reason := e.explainPod(ctx, &list.Items[i]); reason != "" {
			return "pod " + list.Items[i].GetName() + ": " + reason
		}
	}
	return ""
}

// explainPod adds the events of the pod to its status: only events say why a sandbox or a volume cannot be created.
func (e *Engine) explainPod(ctx context.Context, pod *unstructured.Unstructured) string {
	problem := health.Pod(pod)
	if problem == health.Creating {
		if warning := e.lastWarning(ctx, pod); warning != "" {
			return warning
		}
	}
	return problem
}

// lastWarning returns the newest Warning event about an object.
func (e *Engine) lastWarning(ctx context.Context, obj *unstructured.Unstructured) string {
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where events about cluster-scoped objects are kept
	}
	about := fields.Set{"involvedObject.kind": obj.GetKind(), "involvedObject.name": obj.GetName(), "type": "Warning"}
	if uid := obj.GetUID(); uid != "" {
		about["involvedObject.uid"] = string(uid)
	}
	list, err := e.fullFor(events, namespace).List(ctx, metav1.ListOptions{FieldSelector: about.AsSelector().String(), Limit: explainLimit})
	if err != nil {
		return ""
	}
	newest, reason := "", ""
	for i := range list.Items {
		event := list.Items[i].Object
		// RFC 3339 in UTC sorts as text.
		at := max(text(event, "lastTimestamp"), text(event, "eventTime"), text(event, "metadata", "creationTimestamp"))
		if at >= newest {
			newest, reason = at, health.Why(text(event, "reason"), strings.TrimSpace(text(event, "message")))
		}
	}
	return reason
}
