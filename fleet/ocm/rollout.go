package ocm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutType is the type of a RolloutStrategy.
type RolloutType string

// The types of a RolloutStrategy. Empty means All.
const (
	RolloutAll                 RolloutType = "All"
	RolloutProgressive         RolloutType = "Progressive"
	RolloutProgressivePerGroup RolloutType = "ProgressivePerGroup"
)

// RolloutStrategy configures how a change reaches the clusters of a placement. Only the member of its type counts.
type RolloutStrategy struct {
	Type                RolloutType         `json:"type,omitempty"`
	All                 *RolloutAtOnce      `json:"all,omitempty"`
	Progressive         *RolloutProgression `json:"progressive,omitempty"`
	ProgressivePerGroup *RolloutGroups      `json:"progressivePerGroup,omitempty"`
}

// RolloutConfig is common to all types.
type RolloutConfig struct {
	// MinSuccessTime is how long a cluster must stay successful before it counts as done.
	MinSuccessTime metav1.Duration `json:"minSuccessTime,omitzero"`
	// ProgressDeadline is a duration, or None. Empty means None.
	ProgressDeadline string `json:"progressDeadline,omitempty"`
	// MaxFailures is a number of clusters, or a percentage of them.
	MaxFailures intstr.IntOrString `json:"maxFailures,omitzero"`
}

// RolloutAtOnce is the member for All.
type RolloutAtOnce struct {
	RolloutConfig `json:",inline"`
}

// RolloutProgression is the member for Progressive.
type RolloutProgression struct {
	RolloutConfig           `json:",inline"`
	MandatoryDecisionGroups []MandatoryDecisionGroup `json:"mandatoryDecisionGroups,omitempty"`
	// MaxConcurrency is a number of clusters, or a percentage of them.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
}

// RolloutGroups is the member for ProgressivePerGroup.
type RolloutGroups struct {
	RolloutConfig           `json:",inline"`
	MandatoryDecisionGroups []MandatoryDecisionGroup `json:"mandatoryDecisionGroups,omitempty"`
}

// MandatoryDecisionGroup names a group of clusters. The index counts only if there is no name.
type MandatoryDecisionGroup struct {
	GroupName  string `json:"groupName,omitempty"`
	GroupIndex int32  `json:"groupIndex,omitempty"`
}
