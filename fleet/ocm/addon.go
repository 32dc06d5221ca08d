package ocm

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultInstallNamespace is where agents live unless an add-on says otherwise.
const DefaultInstallNamespace = "open-cluster-management-agent-addon"

// ClusterManagementAddOn is an add-on of the fleet, in v1alpha1.
type ClusterManagementAddOn struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ClusterManagementAddOnSpec   `json:"spec,omitzero"`
	Status ClusterManagementAddOnStatus `json:"status,omitzero"`
}

// ClusterManagementAddOnSpec configures the add-on and its placement.
type ClusterManagementAddOnSpec struct {
	SupportedConfigs []SupportedConfig `json:"supportedConfigs,omitempty"`
	InstallStrategy  InstallStrategy   `json:"installStrategy,omitzero"`
}

// SupportedConfig is a type of configuration with its default.
type SupportedConfig struct {
	ConfigType    `json:",inline"`
	DefaultConfig *ConfigObject `json:"defaultConfig,omitempty"`
}

// Types of an InstallStrategy. Empty means manual.
const (
	InstallManual     = "Manual"
	InstallPlacements = "Placements"
)

// InstallStrategy says on which clusters the add-on is installed.
type InstallStrategy struct {
	Type       string             `json:"type,omitempty"`
	Placements []InstallPlacement `json:"placements,omitempty"`
}

// InstallPlacement is a placement with the configuration of its clusters, and the strategy for changes.
type InstallPlacement struct {
	ConfigObject    `json:",inline"`
	Configs         []AddOnConfig   `json:"configs,omitempty"`
	RolloutStrategy RolloutStrategy `json:"rolloutStrategy,omitzero"`
}

// ClusterManagementAddOnStatus is the progress of the add-on.
type ClusterManagementAddOnStatus struct {
	DefaultConfigReferences []DefaultConfigReference `json:"defaultconfigReferences,omitempty"`
	InstallProgressions     []InstallProgression     `json:"installProgressions,omitempty"`
}

// InstallProgression is the progress of the rollout over one placement.
type InstallProgression struct {
	ConfigObject     `json:",inline"`
	ConfigReferences []InstallConfigReference `json:"configReferences,omitempty"`
	Conditions       []metav1.Condition       `json:"conditions,omitempty"`
}

// ManagedClusterAddOn is an add-on on one cluster, in v1alpha1. Its namespace is the cluster's name.
type ManagedClusterAddOn struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ManagedClusterAddOnSpec   `json:"spec,omitzero"`
	Status ManagedClusterAddOnStatus `json:"status,omitzero"`
}

// ManagedClusterAddOnSpec is written by users.
type ManagedClusterAddOnSpec struct {
	InstallNamespace string        `json:"installNamespace,omitempty"`
	Configs          []AddOnConfig `json:"configs,omitempty"`
}

// ManagedClusterAddOnStatus is reported by the hub and the agent.
type ManagedClusterAddOnStatus struct {
	Conditions       []metav1.Condition `json:"conditions,omitempty"`
	SupportedConfigs []ConfigType       `json:"supportedConfigs,omitempty"`
	ConfigReferences []StoredReference  `json:"configReferences,omitempty"`
	Namespace        string             `json:"namespace,omitempty"`
	Registrations    []RegistrationInfo `json:"registrations,omitempty"`
	HealthCheck      HealthCheck        `json:"healthCheck,omitzero"`
}

// StoredReference is a ConfigReference as v1alpha1 stores it: with the name of its object twice.
type StoredReference struct{ ConfigReference }

// MarshalJSON adds the name of the desired object.
func (r StoredReference) MarshalJSON() ([]byte, error) {
	text := struct {
		ConfigReference
		ConfigObject
	}{ConfigReference: r.ConfigReference}
	if d := r.DesiredConfig; d != nil {
		text.ConfigObject = d.ConfigObject
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads a reference. One without a desired object gets the object that it names.
func (r *StoredReference) UnmarshalJSON(data []byte) error {
	var text struct {
		ConfigReference
		ConfigObject
	}
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if r.ConfigReference = text.ConfigReference; r.DesiredConfig == nil && text.Name != "" {
		r.DesiredConfig = &ConfigHash{ConfigObject: text.ConfigObject}
	}
	return nil
}

// RegistrationInfo is an identity of the agent on the hub.
type RegistrationInfo struct {
	SignerName string              `json:"signerName"`
	Subject    RegistrationSubject `json:"subject,omitzero"`
}

// RegistrationSubject is the subject of the agent's certificate.
type RegistrationSubject struct {
	User             string   `json:"user,omitempty"`
	Groups           []string `json:"groups,omitempty"`
	OrganizationUnit []string `json:"organizationUnit,omitempty"`
}

// Modes of a HealthCheck. Empty means HealthLease.
const (
	HealthLease      = "Lease"
	HealthCustomized = "Customized"
)

// HealthCheck says who reports whether the agent is healthy.
type HealthCheck struct {
	Mode string `json:"mode,omitempty"`
}
