package kube

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stage is when an object is applied: the objects of one stage at once, after those of the stage before. Objects are deleted in
// the opposite order.
type stage int

const (
	stageDefinitions stage = iota // namespaces and definitions, which others need
	stageFoundations              // what workloads mount, run as, or are reached through
	stageWorkloads                // kinds that create pods
	stageGates                    // webhooks and APIs that pods serve: they block the API server until the pods run
	stageCustom                   // kinds that the workloads and gates above bring to life
	stageCount
)

// stageOf knows the kinds of Kubernetes itself; every other kind is a custom one.
func stageOf(gk schema.GroupKind) stage {
	switch gk.Group {
	case "":
		switch gk.Kind {
		case "Namespace":
			return stageDefinitions
		case "Pod", "ReplicationController":
			return stageWorkloads
		}
		return stageFoundations
	case "apiextensions.k8s.io":
		return stageDefinitions
	case "apps", "batch", "autoscaling", "extensions":
		return stageWorkloads
	case "admissionregistration.k8s.io", "apiregistration.k8s.io":
		return stageGates
	case "rbac.authorization.k8s.io", "storage.k8s.io", "scheduling.k8s.io", "node.k8s.io", "networking.k8s.io", "policy",
		"discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "resource.k8s.io":
		return stageFoundations
	}
	return stageCustom
}

var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	claimKind      = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	serviceAPIKind = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
)

// protected reports whether deleting an object of this kind takes data along that no apply brings back.
func protected(gk schema.GroupKind) bool {
	return gk == namespaceKind || gk == claimKind || gk == definitionKind
}

// promises reports whether kinds of a group are about to be served because of an object in the set: a definition, or a
// service that extends the API.
func promises(objs []*unstructured.Unstructured) func(schema.GroupVersionKind) bool {
	kinds := map[schema.GroupKind]bool{}
	groups := map[schema.GroupVersion]bool{}
	for _, obj := range objs {
		switch RefOf(obj).groupKind() {
		case definitionKind:
			group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		case serviceAPIKind:
			group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
			version, _, _ := unstructured.NestedString(obj.Object, "spec", "version")
			groups[schema.GroupVersion{Group: group, Version: version}] = true
		}
	}
	return func(gvk schema.GroupVersionKind) bool { return kinds[gvk.GroupKind()] || groups[gvk.GroupVersion()] }
}
