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

// SchedulingDisabled is the annotation of a placement whose decisions somebody else makes. Its value is "true".
const SchedulingDisabled = "cluster.open-cluster-management.io/experimental-scheduling-disable"

// Placement selects clusters.
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   PlacementSpec   `json:"spec,omitzero"`
	Status PlacementStatus `json:"status,omitzero"`
}

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

type ClusterPredicate struct {
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitzero"`
}

// ClusterSelector selects the clusters that match all of its members.
type ClusterSelector struct {
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`
	ClaimSelector ClaimSelector        `json:"claimSelector,omitzero"`
	CelSelector   CelSelector          `json:"celSelector,omitzero"`
}

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

type PrioritizerPolicy struct {
	Mode           string              `json:"mode,omitempty"`
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

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

type AddOnScore struct {
	ResourceName string `json:"resourceName"`
	ScoreName    string `json:"scoreName"`
}

// Operators of a Toleration. Empty means Equal.
const (
	TolerationExists = "Exists"
	TolerationEqual  = "Equal"
)

type Toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

type DecisionStrategy struct {
	GroupStrategy GroupStrategy `json:"groupStrategy,omitzero"`
}

type GroupStrategy struct {
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`
	// ClustersPerDecisionGroup is a number of clusters, or a percentage of them. Zero means all.
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitzero"`
}

type DecisionGroup struct {
	GroupName            string        `json:"groupName"`
	GroupClusterSelector GroupSelector `json:"groupClusterSelector"`
}

type GroupSelector struct {
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`
	ClaimSelector ClaimSelector        `json:"claimSelector,omitzero"`
}

type PlacementStatus struct {
	NumberOfSelectedClusters int32                 `json:"numberOfSelectedClusters"`
	DecisionGroups           []DecisionGroupStatus `json:"decisionGroups,omitempty"`
	Conditions               []metav1.Condition    `json:"conditions,omitempty"`
}

type DecisionGroupStatus struct {
	DecisionGroupIndex int32    `json:"decisionGroupIndex"`
	DecisionGroupName  string   `json:"decisionGroupName"`
	Decisions          []string `json:"decisions,omitempty"`
	ClusterCount       int32    `json:"clusterCount"`
}

// PlacementDecision has up to 100 of the clusters that a placement selects.
type PlacementDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status PlacementDecisionStatus `json:"status,omitzero"`
}

type PlacementDecisionStatus struct {
	Decisions []ClusterDecision `json:"decisions"`
}

type ClusterDecision struct {
	ClusterName string `json:"clusterName"`
	Reason      string `json:"reason"`
}
