package ocm

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of the ManifestWorks of an add-on.
const (
	AddOnLabel          = "open-cluster-management.io/addon-name"
	AddOnNamespaceLabel = "open-cluster-management.io/addon-namespace"
)

// WorkFinalizer keeps a work until its objects are gone from its cluster.
const WorkFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"

// ManifestWork is applied by a cluster's agent. Its namespace is the cluster's name.
type ManifestWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   AgentSpec          `json:"spec,omitzero"`
	Status ManifestWorkStatus `json:"status,omitzero"`
}

// AgentSpec is the spec of a ManifestWork. An AddOnTemplate has one for its agent.
type AgentSpec struct {
	Workload        Workload         `json:"workload,omitzero"`
	DeleteOption    *DeleteOption    `json:"deleteOption,omitempty"`
	ManifestConfigs []ManifestConfig `json:"manifestConfigs,omitempty"`
	// Executor is the account that must have the rights for the agent's actions. Nil checks no rights.
	Executor *Executor `json:"executor,omitempty"`
}

// Executor names a subject of the managed cluster.
type Executor struct {
	Subject ExecutorSubject `json:"subject,omitzero"`
}

// ExecutorServiceAccount is the only type of an ExecutorSubject.
const ExecutorServiceAccount = "ServiceAccount"

// ExecutorSubject is a subject with its type.
type ExecutorSubject struct {
	Type           string           `json:"type"`
	ServiceAccount *ExecutorAccount `json:"serviceAccount,omitempty"`
}

// ExecutorAccount is a ServiceAccount.
type ExecutorAccount struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Workload has the manifests.
type Workload struct {
	Manifests []map[string]any `json:"manifests,omitempty"`
}

// Propagation policies of a DeleteOption. Empty means DeleteForeground.
const (
	DeleteForeground        = "Foreground"
	DeleteOrphan            = "Orphan"
	DeleteSelectivelyOrphan = "SelectivelyOrphan"
)

// Complete is the condition of a work, and of a manifest of it, that is no longer applied.
const Complete = "Complete"

// DeleteOption selects what stays when the work is deleted.
type DeleteOption struct {
	PropagationPolicy string              `json:"propagationPolicy,omitempty"`
	SelectivelyOrphan *SelectivelyOrphans `json:"selectivelyOrphans,omitempty"`
	// TTLSecondsAfterFinished is when the hub deletes the work after it is Complete. Nil: never.
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`
}

// SelectivelyOrphans names the objects that stay.
type SelectivelyOrphans struct {
	OrphaningRules []ResourceIdentifier `json:"orphaningRules,omitempty"`
}

// ResourceIdentifier names an object by its resource.
type ResourceIdentifier struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// ManifestConfig configures how one object is applied, and which feedback is reported.
type ManifestConfig struct {
	ResourceIdentifier ResourceIdentifier `json:"resourceIdentifier"`
	FeedbackRules      []FeedbackRule     `json:"feedbackRules,omitempty"`
	FeedbackScrapeType string             `json:"feedbackScrapeType,omitempty"`
	UpdateStrategy     *UpdateStrategy    `json:"updateStrategy,omitempty"`
	// ConditionRules are read by agents. They are passed on unchanged.
	ConditionRules json.RawMessage `json:"conditionRules,omitempty"`
}

// ConfigOf returns the configuration of an object. Several ManifestConfigs may be for it: the first one with feedback rules, the first one
// with an update strategy, and the first one with condition rules count.
func (s AgentSpec) ConfigOf(id ResourceIdentifier) ManifestConfig {
	of := ManifestConfig{ResourceIdentifier: id}
	for _, c := range s.ManifestConfigs {
		if !c.Matches(id) {
			continue
		}
		if len(of.FeedbackRules) == 0 {
			of.FeedbackRules, of.FeedbackScrapeType = c.FeedbackRules, c.FeedbackScrapeType
		}
		if of.UpdateStrategy == nil {
			of.UpdateStrategy = c.UpdateStrategy
		}
		if rules := string(of.ConditionRules); rules == "" || rules == "null" || rules == "[]" {
			of.ConditionRules = c.ConditionRules
		}
	}
	return of
}

// Matches reports whether the configuration is for an object. A * in its namespace or name stands for any text.
func (c ManifestConfig) Matches(id ResourceIdentifier) bool {
	of := c.ResourceIdentifier
	return of.Group == id.Group && of.Resource == id.Resource && matches(of.Namespace, id.Namespace) && matches(of.Name, id.Name)
}

func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		var found bool
		_, text, found = strings.Cut(text, part)
		ok = ok && found
	}
	return ok && strings.HasSuffix(text, parts[last])
}

// Types of a FeedbackRule.
const (
	WellKnownStatus = "WellKnownStatus"
	JSONPaths       = "JSONPaths"
)

// FeedbackRule says which values of an object's status are reported.
type FeedbackRule struct {
	Type      string     `json:"type"`
	JSONPaths []JSONPath `json:"jsonPaths,omitempty"`
}

// JSONPath is a value of an object's status.
type JSONPath struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path"`
}

// Types of an UpdateStrategy. Empty means UpdateUpdate.
const (
	UpdateUpdate          = "Update"
	UpdateCreateOnly      = "CreateOnly"
	UpdateServerSideApply = "ServerSideApply"
	UpdateReadOnly        = "ReadOnly"
)

// DefaultFieldManager owns the fields of objects whose strategy names no other manager.
const DefaultFieldManager = "work-agent"

// UpdateStrategy configures how an existing object is changed.
type UpdateStrategy struct {
	Type            string           `json:"type,omitempty"`
	ServerSideApply *ServerSideApply `json:"serverSideApply,omitempty"`
}

// ServerSideApply has the options of the type of its name.
type ServerSideApply struct {
	Force        bool          `json:"force,omitempty"`
	FieldManager string        `json:"fieldManager,omitempty"`
	IgnoreFields []IgnoreField `json:"ignoreFields,omitempty"`
}

// Conditions of an IgnoreField.
const (
	OnSpokePresent = "OnSpokePresent"
	OnSpokeChange  = "OnSpokeChange"
)

// IgnoreField names fields that are not applied once the object exists.
type IgnoreField struct {
	Condition         string   `json:"condition"`
	JSONPaths         []string `json:"jsonPaths,omitempty"`
	JSONPointers      []string `json:"jsonPointers,omitempty"`
	JQPathExpressions []string `json:"jqPathExpressions,omitempty"`
}

// ManifestWorkStatus is reported by the agent.
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
	ResourceMeta   ResourceMeta       `json:"resourceMeta"`
	StatusFeedback StatusFeedback     `json:"statusFeedback,omitzero"`
	Conditions     []metav1.Condition `json:"conditions"`
}

// ResourceMeta names the object of a manifest.
type ResourceMeta struct {
	Ordinal   int32  `json:"ordinal"`
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
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

// Types of a FieldValue.
const (
	FieldInteger = "Integer"
	FieldString  = "String"
	FieldBoolean = "Boolean"
	FieldJSON    = "JsonRaw"
)

// FieldValue is a value of one type.
type FieldValue struct {
	Type    string  `json:"type,omitempty"`
	Integer *int64  `json:"integer,omitempty"`
	String  *string `json:"string,omitempty"`
	Boolean *bool   `json:"boolean,omitempty"`
	JSON    *string `json:"jsonRaw,omitempty"`
}

// AppliedManifestWork is an agent's record of a work on its own cluster.
type AppliedManifestWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   AppliedManifestWorkSpec   `json:"spec,omitzero"`
	Status AppliedManifestWorkStatus `json:"status,omitzero"`
}

// AppliedManifestWorkSpec names the work.
type AppliedManifestWorkSpec struct {
	HubHash          string `json:"hubHash"`
	AgentID          string `json:"agentID,omitempty"`
	ManifestWorkName string `json:"manifestWorkName"`
}

// AppliedManifestWorkStatus has the objects of the work.
type AppliedManifestWorkStatus struct {
	AppliedResources []AppliedResource `json:"appliedResources,omitempty"`
}

// AppliedResource is an object that exists.
type AppliedResource struct {
	ResourceIdentifier `json:",inline"`
	Version            string `json:"version"`
	UID                string `json:"uid,omitempty"`
}

// ClusterPropertyClaim is a ClusterClaim of the cluster that it describes.
type ClusterPropertyClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ClusterPropertyClaimSpec `json:"spec,omitzero"`
}

// ClusterPropertyClaimSpec has the value. The name of the object is the claim's.
type ClusterPropertyClaimSpec struct {
	Value string `json:"value,omitempty"`
}
