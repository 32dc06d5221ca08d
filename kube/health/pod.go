package health

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Creating is the reason of a pod that is starting normally.
const Creating = "its containers are being created"

// Pod returns what keeps a pod from being ready, or "" when it is ready or done.
func Pod(obj *unstructured.Unstructured) string {
	pod := obj.Object
	if reason := text(pod, "status", "reason"); text(pod, "status", "phase") == "Failed" && reason != "" {
		return Why(reason, text(pod, "status", "message"))
	}
	for _, c := range Conditions(obj) {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return c.Why()
		}
	}
	problem := ""
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(pod, "status", list)
		for _, item := range statuses {
			container, ok := item.(map[string]any)
			if !ok {
				continue
			}
			found := containerProblem(container, list == "initContainerStatuses")
			if found != "" && found != Creating {
				return found
			}
			if problem == "" {
				problem = found
			}
		}
	}
	return problem
}

func containerProblem(status map[string]any, isInit bool) string {
	name := text(status, "name")
	waiting, _, _ := unstructured.NestedMap(status, "state", "waiting")
	terminated, _, _ := unstructured.NestedMap(status, "state", "terminated")
	ready, _, _ := unstructured.NestedBool(status, "ready")
	switch {
	case waiting != nil:
		reason := text(waiting, "reason")
		if reason == "" || reason == "ContainerCreating" || reason == "PodInitializing" {
			return Creating
		}
		problem := "container " + name + ": " + Why(reason, text(waiting, "message"))
		if last, _, _ := unstructured.NestedMap(status, "lastState", "terminated"); last != nil {
			problem += " (last time: " + exitText(last) + ")"
		}
		return problem
	case terminated != nil:
		if code, _, _ := unstructured.NestedInt64(terminated, "exitCode"); code == 0 {
			return ""
		}
		return "container " + name + ": " + exitText(terminated)
	case !ready && isInit:
		return "init container " + name + " is running"
	case !ready:
		return "container " + name + " is running but not ready"
	}
	return ""
}

func exitText(terminated map[string]any) string {
	code, _, _ := unstructured.NestedInt64(terminated, "exitCode")
	out := fmt.Sprintf("exit code %d", code)
	if reason := text(terminated, "reason"); reason != "" {
		out += ", " + reason
	}
	if message := strings.TrimSpace(text(terminated, "message")); message != "" {
		out += ": " + message
	}
	return out
}
