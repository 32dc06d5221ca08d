package ocm

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSetLabel is the label of a cluster that names its only set.
const ClusterSetLabel = "cluster.open-cluster-management.io/clusterset"

// DefaultClusterSet is the set of clusters without that label; the hub gives it to them.
const DefaultClusterSet = "default"

// ManagedCluster is a cluster of the fleet.
type ManagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ManagedClusterSpec   `json:"spec,omitzero"`
	Status ManagedClusterStatus `json:"status,omitzero"`
}

// ManagedClusterSpec is written by users and the hub.
type ManagedClusterSpec struct {
	HubAcceptsClient            bool           `json:"hubAcceptsClient"`
	LeaseDurationSeconds        int32          `json:"leaseDurationSeconds,omitempty"`
	ManagedClusterClientConfigs []ClientConfig `json:"managedClusterClientConfigs,omitempty"`
	Taints                      []Taint        `json:"taints,omitempty"`
}

// ClientConfig says where a cluster's API server is.
type ClientConfig struct {
	URL      string `json:"url"`
	CABundle []byte `json:"caBundle,omitempty"`
}

// Effects of a Taint.
const (
	NoSelect       = "NoSelect"
	PreferNoSelect = "PreferNoSelect"
	NoSelectIfNew  = "NoSelectIfNew"
)

// Taint keeps placements from selecting a cluster.
type Taint struct {
	Key       string      `json:"key"`
	Value     string      `json:"value,omitempty"`
	Effect    string      `json:"effect"`
	TimeAdded metav1.Time `json:"timeAdded,omitzero"`
}

// ManagedClusterStatus is reported by the cluster's agent.
type ManagedClusterStatus struct {
	Conditions    []metav1.Condition           `json:"conditions,omitempty"`
	Capacity      map[string]resource.Quantity `json:"capacity,omitempty"`
	Allocatable   map[string]resource.Quantity `json:"allocatable,omitempty"`
	Version       Version                      `json:"version,omitzero"`
	ClusterClaims []ClusterClaim               `json:"clusterClaims,omitempty"`
}

// Version has the version of a cluster's Kubernetes.
type Version struct {
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ClusterClaim is a fact that a cluster reports of itself.
type ClusterClaim struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}

// Types of a SetSelector.
const (
	ExclusiveClusterSetLabel = "ExclusiveClusterSetLabel"
	LabelSelector            = "LabelSelector"
)

// ManagedClusterSet is a set of clusters.
type ManagedClusterSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ManagedClusterSetSpec `json:"spec,omitzero"`
	Status ConditionedStatus     `json:"status,omitzero"`
}

// ConditionedStatus is the status of an object that reports nothing else.
type ConditionedStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ManagedClusterSetSpec selects the members of a set.
type ManagedClusterSetSpec struct {
	ClusterSelector SetSelector `json:"clusterSelector,omitzero"`
}

// SetSelector selects the members of a set. An empty type means ExclusiveClusterSetLabel.
type SetSelector struct {
	SelectorType  string                `json:"selectorType,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ManagedClusterSetBinding binds a set to a namespace, for its placements.
type ManagedClusterSetBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ManagedClusterSetBindingSpec `json:"spec,omitzero"`
	Status ConditionedStatus            `json:"status,omitzero"`
}

// ManagedClusterSetBindingSpec names the set. It is also the name of the binding.
type ManagedClusterSetBindingSpec struct {
	ClusterSet string `json:"clusterSet"`
}

// AddOnPlacementScore has the scores that an add-on gives a cluster. Its namespace is the cluster's name.
type AddOnPlacementScore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status AddOnPlacementScoreStatus `json:"status,omitzero"`
}

// AddOnPlacementScoreStatus is reported by the add-on. It counts until ValidUntil.
type AddOnPlacementScoreStatus struct {
	Scores     []Score      `json:"scores,omitempty"`
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
}

// Score is between -100 and 100.
type Score struct {
	Name  string `json:"name"`
	Value int32  `json:"value"`
}

// ClusterLease is the Lease in a cluster's namespace on the hub that the cluster's agent renews.
const ClusterLease = "managed-cluster-lease"
