package agent_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestExecutorRightsAreChecked uses a work whose executor may write ConfigMaps, and roles, but grants no more than it has.
func TestExecutorRightsAreChecked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: default}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, create, update, patch, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [get, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, namespace: shop, name: deployer}]
`
	c.apply(rights + `---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: rome}
spec:
  executor: {subject: {type: ServiceAccount, serviceAccount: {namespace: shop, name: deployer}}}
  deleteOption:
    propagationPolicy: SelectivelyOrphan
    selectivelyOrphans: {orphaningRules: [{resource: secrets, namespace: default, name: stays}]}
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: allowed, namespace: default}, data: {color: blue}}
    - {apiVersion: v1, kind: Secret, metadata: {name: refused, namespace: default}}
    - {apiVersion: v1, kind: Secret, metadata: {name: stays, namespace: default}}
    - {apiVersion: v1, kind: Namespace, metadata: {name: everywhere}}
    - apiVersion: rbac.authorization.k8s.io/v1
      kind: Role
      metadata: {name: same, namespace: default}
      rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
    - apiVersion: rbac.authorization.k8s.io/v1
      kind: Role
      metadata: {name: more, namespace: default}
      rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
`)
	// applied returns the agent's report on each manifest: "" if it is applied.
	applied := func() (said []string) {
		var work ocm.ManifestWork
		if c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &work) != nil {
			return nil
		}
		for _, m := range work.Status.ResourceStatus.Manifests {
			if state := meta.FindStatusCondition(m.Conditions, "Applied"); state == nil || state.Status != "True" {
				said = append(said, state.Message)
			} else {
				said = append(said, "")
			}
		}
		return said
	}
	wants := func(what string, want ...string) {
		t.Helper()
		c.eventually(what, func() bool {
			said := applied()
			for i := range said {
				if said[i] != want[i] && (want[i] == "" || !strings.Contains(said[i], want[i])) {
					return false
				}
			}
			return len(said) == len(want)
		})
	}
	const user = "system:serviceaccount:shop:deployer may not "
	wants("each manifest has what its rights allow", "", user+"get secrets refused in namespace default", user+"get secrets stays in namespace default",
		user+"get namespaces everywhere;", "", "may not grant what roles.rbac.authorization.k8s.io more in namespace default grants")
	if c.configMap("allowed")["color"] != "blue" {
		t.Error("an object that the executor may write is not applied")
	}
	const secrets = `- {apiGroups: [""], resources: [secrets], verbs: [get, create, update, patch]}
---`
	c.apply(strings.Replace(rights, "---", secrets, 1))
	wants("new rights count, and an orphan needs none to delete", "", user+"delete secrets refused", "", user+"get namespaces everywhere;", "", "")
}
