package engine_test

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube"
)

// The hooks here act like the examples of shell-operator. They are our own.

// testPods notifies a hook of created and deleted pods, without those of other labels.
func testPods(s *site) {
	s.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: pods}\n")
	s.hook("pods.sh", `configVersion: v1
kubernetes:
- name: web
  kind: Pod
  namespace: {nameSelector: {matchNames: [pods]}}
  labelSelector: {matchLabels: {app: web}}
  executeHookOnEvent: [Added, Deleted]
`, "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	for _, row := range []struct{ name, app string }{{"other", "db"}, {"first", "web"}} {
		s.apply(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {namespace: pods, name: %s, labels: {app: %s}}\nspec: {containers: [{name: c, image: example.org/c:1}]}\n", row.name, row.app))
	}
	s.until("a pod came", func() bool { return len(s.runs()) == 2 })
	ref := kube.Ref{Version: "v1", Kind: "Pod", Namespace: "pods", Name: "first"}
	pods, err := s.cluster.Objects(s.Context(), ref)
	if err != nil {
		s.Fatal(err)
	}
	if err := pods.Delete(s.Context(), ref.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		s.Fatal(err)
	}
	s.ran("pods.sh web:Synchronization:0", "pods.sh web:Event:Added:first", "pods.sh web:Event:Deleted:first")
}

// testSecretCopier has a hook that copies Secrets with a label into namespaces with another one.
func testSecretCopier(s *site) {
	s.hook("copy.sh", `configVersion: v1
kubernetes:
- name: sources
  group: copies
  kind: Secret
  namespace: {nameSelector: {matchNames: [copier]}}
  labelSelector: {matchLabels: {copy: "yes"}}
  jqFilter: "{name: .metadata.name, data: .data}"
  keepFullObjectsInMemory: false
- name: targets
  group: copies
  kind: Namespace
  labelSelector: {matchLabels: {copies: here}}
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
`, `jq -c '.[-1].snapshots | .sources[].filterResult as $s | .targets[].filterResult |
  {operation: "CreateOrUpdate", object: {apiVersion: "v1", kind: "Secret", metadata: {name: $s.name, namespace: .}, data: $s.data}}' \
  "$BINDING_CONTEXT_PATH" > "$KUBERNETES_PATCH_PATH"`)
	target := func(name string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {copies: here}}\n---\n"
	}
	secret := func(name, label, token string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {namespace: copier, name: %s, labels: {copy: '%s'}}\nstringData: {token: %s}\n---\n", name, label, token)
	}
	s.apply(target("copier-a") + "apiVersion: v1\nkind: Namespace\nmetadata: {name: copier}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: copier-not}\n---\n" +
		secret("shared", "yes", "one") + secret("own", "no", "two"))
	copies := func() string {
		secrets, err := s.cluster.Objects(s.Context(), kube.Ref{Version: "v1", Kind: "Secret"})
		if err != nil {
			s.Fatal(err)
		}
		list, err := secrets.List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		var all []string
		for _, one := range list.Items {
			if token, _, _ := unstructured.NestedString(one.Object, "data", "token"); strings.HasPrefix(one.GetNamespace(), "copier-") {
				all = append(all, one.GetNamespace()+"/"+one.GetName()+" "+token)
			}
		}
		return strings.Join(all, ", ")
	}
	s.start()
	for _, row := range []struct{ change, want string }{
		{"", "copier-a/shared b25l"},
		{target("copier-b"), "copier-a/shared b25l, copier-b/shared b25l"},
		{secret("shared", "yes", "three"), "copier-a/shared dGhyZWU=, copier-b/shared dGhyZWU="},
	} {
		s.apply(row.change)
		s.until("the copies are "+row.want, func() bool { return copies() == row.want })
	}
}
