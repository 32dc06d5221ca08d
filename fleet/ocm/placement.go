package ocm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels of a PlacementDecision.
const (
	PlacementLabel          = "cluster.open-cluster-management.io/placement"
	DecisionGroupIndexLabel = "cluster.open-cluster-management.io/decision-group-index"
	DecisionGroupNameLabel  = "cluster.open-cluster-management.io/decision-group-name"
)

// SchedulingDisabled is the annotation of a placement whose decisions another scheduler makes. Its value is "true".
const SchedulingDisabled = "cluster.open-cluster-management.io/experimental-scheduling-disable"

// Placement selects clusters.
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   PlacementSpec   `json:"spec,omitzero"`
	Status PlacementStatus `json:"status,omitzero"`
}

// PlacementSpec says which clusters to select.
type PlacementSpec struct {
	ClusterSets       []string           `json:"clusterSets,omitempty"`
	NumberOfClusters  *int32             `json:"numberOfClusters,omitempty"`
	Predicates        []ClusterPredicate `json:"predicates,omitempty"`
	PrioritizerPolicy PrioritizerPolicy  `json:"prioritizerPolicy,omitzero"`
	Tolerations       []Toleration       `json:"tolerations,omitempty"`
	DecisionStrategy  DecisionStrategy   `json:"decisionStrategy,omitzero"`
	// SortBy is ClusterName or Score. Empty means ClusterName.
	SortBy string `json:"sortBy,omitempty"`
}

// ClusterPredicate is a requirement. A cluster has to meet one of them.
type ClusterPredicate struct {
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitzero"`
}

// ClusterSelector selects the clusters that match all of its members.
type ClusterSelector struct {
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`
	ClaimSelector ClaimSelector        `json:"claimSelector,omitzero"`
	CelSelector   CelSelector          `json:"celSelector,omitzero"`
}

// ClaimSelector selects by the claims of a cluster, as a label selector does by labels.
type ClaimSelector struct {
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// CelSelector has expressions that must all be true.
type CelSelector struct {
	CelExpressions []string `json:"celExpressions,omitempty"`
}

// Modes of a PrioritizerPolicy. Empty means Additive.
const (
	PrioritizersAdditive = "Additive"
	PrioritizersExact    = "Exact"
)

// PrioritizerPolicy says which prioritizers give scores.
type PrioritizerPolicy struct {
	Mode           string              `json:"mode,omitempty"`
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerConfig is a prioritizer with its weight, from -10 to 10.
type PrioritizerConfig struct {
	ScoreCoordinate *ScoreCoordinate `json:"scoreCoordinate,omitempty"`
	Weight          int32            `json:"weight,omitempty"`
}

// Types of a ScoreCoordinate. Empty means BuiltIn.
const (
	ScoreBuiltIn = "BuiltIn"
	ScoreAddOn   = "AddOn"
)

// ScoreCoordinate names a prioritizer.
type ScoreCoordinate struct {
	Type    string      `json:"type,omitempty"`
	BuiltIn string      `json:"builtIn,omitempty"`
	AddOn   *AddOnScore `json:"addOn,omitempty"`
}

// AddOnScore names a score of an AddOnPlacementScore.
type AddOnScore struct {
	ResourceName string `json:"resourceName"`
	ScoreName    string `json:"scoreName"`
}

// Operators of a Toleration. Empty means Equal.
const (
	TolerationExists = "Exists"
	TolerationEqual  = "Equal"
)

// Toleration lets a placement select clusters with a taint, forever or for some seconds.
type Toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// DecisionStrategy configures how decisions are divided.
type DecisionStrategy struct {
	GroupStrategy GroupStrategy `json:"groupStrategy,omitzero"`
}

// GroupStrategy divides decisions into groups.
type GroupStrategy struct {
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`
	// ClustersPerDecisionGroup is a number of clusters, or a percentage of them. Zero means all.
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitzero"`
}

// DecisionGroup is a named group of clusters.
type DecisionGroup struct {
	GroupName            string        `json:"groupName"`
	GroupClusterSelector GroupSelector `json:"groupClusterSelector"`
}

// GroupSelector selects the clusters of a group.
type GroupSelector struct {
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`
	ClaimSelector ClaimSelector        `json:"claimSelector,omitzero"`
}

// PlacementStatus is the state of a placement.
type PlacementStatus struct {
	NumberOfSelectedClusters int32                 `json:"numberOfSelectedClusters"`
	DecisionGroups           []DecisionGroupStatus `json:"decisionGroups,omitempty"`
	Conditions               []metav1.Condition    `json:"conditions,omitempty"`
}

// DecisionGroupStatus names the decisions of a group.
type DecisionGroupStatus struct {
	DecisionGroupIndex int32    `json:"decisionGroupIndex"`
	DecisionGroupName  string   `json:"decisionGroupName"`
	Decisions          []string `json:"decisions,omitempty"`
	ClusterCount       int32    `json:"clusterCount"`
}

// PlacementDecision lists up to 100 of the clusters that a placement selects.
type PlacementDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status PlacementDecisionStatus `json:"status,omitzero"`
}

// PlacementDecisionStatus has the clusters.
type PlacementDecisionStatus struct {
	Decisions []ClusterDecision `json:"decisions"`
}

// ClusterDecision is a selected cluster.
type ClusterDecision struct {
	ClusterName string `json:"clusterName"`
	Reason      string `json:"reason"`
}
