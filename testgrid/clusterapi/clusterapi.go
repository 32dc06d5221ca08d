// Package clusterapi has what tests need of Cluster API, which runs in none of them.
package clusterapi

// Definition is the CustomResourceDefinition of Clusters. Its schema takes everything.
const Definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io, labels: {cluster.x-k8s.io/v1beta2: v1beta2}}
spec:
  group: cluster.x-k8s.io
  names: {kind: Cluster, listKind: ClusterList, plural: clusters, singular: cluster}
  scope: Namespaced
  versions:
  - name: v1beta2
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
