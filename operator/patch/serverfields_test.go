package patch_test

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/kube"
)

// testWholeObjects writes objects back as a hook gets them in its binding context, with all that the API server has put into their
// metadata. The cluster has newer states by then, or another object of that name.
func testWholeObjects(s *site) {
	for name, change := range map[string]func(){
		"it is unchanged": func() {},
		"it has changed": func() {
			if _, err := s.maps.Patch(s.Context(), "testcm", types.MergePatchType, []byte(`{"data":{"later":"1"}}`), metav1.PatchOptions{}); err != nil {
				s.Fatal(err)
			}
		},
		"another one has its name": s.fresh,
		"it is gone": func() {
			if err := s.maps.Delete(s.Context(), "testcm", metav1.DeleteOptions{}); err != nil {
				s.Fatal(err)
			}
		},
	} {
		for _, operation := range []string{"CreateOrUpdate", "MergePatch", "JQPatch", "JSONPatch"} {
			if operation != "CreateOrUpdate" && name == "it is gone" {
				continue
			}
			s.fresh()
			live, err := s.maps.Get(s.Context(), "testcm", metav1.GetOptions{})
			if err != nil {
				s.Fatal(err)
			}
			change()
			live.SetAnnotations(map[string]string{"written": "back"})
			stream := map[string]any{"operation": operation, "kind": "ConfigMap", "namespace": "default", "name": "testcm"}
			switch operation {
			case "CreateOrUpdate":
				stream["object"] = live.Object
			case "MergePatch":
				stream["mergePatch"] = live.Object
			case "JQPatch":
				text, err := json.Marshal(live.Object)
				if err != nil {
					s.Fatal(err)
				}
				stream["jqFilter"] = string(text)
			case "JSONPatch":
				stream["jsonPatch"] = []any{map[string]any{"op": "replace", "path": "/metadata", "value": live.Object["metadata"]}}
			}
			text, err := json.Marshal(stream)
			if err != nil {
				s.Fatal(err)
			}
			if err := s.run(string(text)); err != nil {
				s.Errorf("%s, %s: %v", name, operation, err)
				continue
			}
			if live, err = s.maps.Get(s.Context(), "testcm", metav1.GetOptions{}); err != nil || live.GetAnnotations()["written"] != "back" || s.data()["testcm"]["foo"] != "bar" {
				s.Errorf("%s, %s: %v, %v", name, operation, live, err)
			}
		}
	}
	s.fresh()
	live, err := s.maps.Get(s.Context(), "testcm", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	live.SetName("copy")
	text, err := json.Marshal(map[string]any{"operation": "Create", "object": live.Object})
	if err != nil {
		s.Fatal(err)
	}
	if err := s.run(string(text)); err != nil {
		s.Errorf("a copy is created: %v", err)
	}
	if err := s.run("{operation: MergePatch, kind: cm, namespace: default, name: copy, mergePatch: {metadata: {managedFields: [{}]}}}"); err != nil {
		s.Error(err)
	}
	if live, err = s.maps.Get(s.Context(), "copy", metav1.GetOptions{}); err != nil || len(live.GetManagedFields()) != 0 {
		s.Errorf("a hook may ask to forget the managers: %v, %v", live, err)
	}
	if err := s.run(`{"operation":"JSONPatch","kind":"cm","namespace":"default","name":"copy","jsonPatch":[{"op":"test","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/data/x","value":"y"}]}`); err == nil {
		s.Error("a test of the resource version has no effect")
	}
	testWholeDeployment(s)
}

// testWholeDeployment also has a status and a generation.
func testWholeDeployment(s *site) {
	const name = "whole"
	if err := s.run(`{operation: Create, object: {apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: ` + name + `}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: example.org/web}]}}}}}
---
{operation: MergePatch, kind: deploy, namespace: default, name: ` + name + `, subresource: status, mergePatch: {status: {replicas: 1, observedGeneration: 1}}}`); err != nil {
		s.Fatal(err)
	}
	deployments, err := s.cluster.Objects(s.Context(), kube.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default"})
	if err != nil {
		s.Fatal(err)
	}
	live, err := deployments.Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for replicas := range 3 {
		if err := unstructured.SetNestedField(live.Object, int64(replicas), "spec", "replicas"); err != nil {
			s.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"operation": "CreateOrUpdate", "object": live.Object})
		if err != nil {
			s.Fatal(err)
		}
		if err := s.run(string(text)); err != nil {
			s.Error(err)
		}
	}
	after, err := deployments.Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if status, _, _ := unstructured.NestedInt64(after.Object, "status", "replicas"); status != 1 || after.GetGeneration() != 4 || after.GetUID() != live.GetUID() {
		s.Errorf("status %d, generation %d", status, after.GetGeneration())
	}
}
