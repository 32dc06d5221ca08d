package ocm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of the ManifestWorks of an add-on.
const (
	AddOnLabel          = "open-cluster-management.io/addon-name"
	AddOnNamespaceLabel = "open-cluster-management.io/addon-namespace"
)

// ManifestWork is what a cluster's agent applies, as far as an add-on's status depends on it.
type ManifestWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   AgentSpec          `json:"spec,omitzero"`
	Status ManifestWorkStatus `json:"status,omitzero"`
}

// ManifestWorkStatus is what the agent reports.
type ManifestWorkStatus struct {
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
	ResourceStatus ResourceStatus     `json:"resourceStatus,omitzero"`
}

// ResourceStatus has the status of each manifest.
type ResourceStatus struct {
	Manifests []ManifestStatus `json:"manifests,omitempty"`
}

// ManifestStatus is the status of one manifest.
type ManifestStatus struct {
	ResourceMeta   ResourceMeta   `json:"resourceMeta"`
	StatusFeedback StatusFeedback `json:"statusFeedback,omitzero"`
}

// ResourceMeta names the object of a manifest.
type ResourceMeta struct {
	Group     string `json:"group"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// StatusFeedback has values of the object's status.
type StatusFeedback struct {
	Values []FeedbackValue `json:"values,omitempty"`
}

// FeedbackValue is a value that the agent read from an object.
type FeedbackValue struct {
	Name       string     `json:"name"`
	FieldValue FieldValue `json:"fieldValue"`
}

// FieldValue is a value of one type.
type FieldValue struct {
	Integer *int64 `json:"integer,omitempty"`
}
