// Package caaph has the wire types of the Cluster API add-on provider for Helm, with the rules of its admission (C-1 to C-6).
package caaph

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion is the version of both kinds.
const APIVersion = "addons.cluster.x-k8s.io/v1alpha1"

// Names on objects.
const (
	ChartFinalizer   = "helmchartproxy.addons.cluster.x-k8s.io"
	ReleaseFinalizer = "helmreleaseproxy.addons.cluster.x-k8s.io"
	ClusterLabel     = "cluster.x-k8s.io/cluster-name"
	ChartLabel       = "helmreleaseproxy.addons.cluster.x-k8s.io/helmchartproxy-name"
	// GeneratedName marks a release whose name Helm chose, and Installed one that was installed once.
	GeneratedName = "helmreleaseproxy.addons.cluster.x-k8s.io/is-release-name-generated"
	Installed     = "helmreleaseproxy.addons.cluster.x-k8s.io/release-successfully-installed"
	Paused        = "cluster.x-k8s.io/paused"
)

// Reconcile strategies. Empty means Continuous.
const (
	InstallOnce = "InstallOnce"
	Continuous  = "Continuous"
)

// HelmChartProxy installs a chart on the clusters that it selects.
type HelmChartProxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   HelmChartProxySpec   `json:"spec,omitzero"`
	Status HelmChartProxyStatus `json:"status,omitzero"`
}

// HelmChartProxySpec is written by users.
type HelmChartProxySpec struct {
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`
	Chart           `json:",inline"`
	ValuesTemplate  string `json:"valuesTemplate,omitempty"`
}

// Chart is the part of a HelmChartProxy that it copies to its HelmReleaseProxies.
type Chart struct {
	ChartName         string       `json:"chartName"`
	RepoURL           string       `json:"repoURL"`
	ReleaseName       string       `json:"releaseName,omitempty"`
	ReleaseNamespace  string       `json:"namespace,omitempty"`
	Version           string       `json:"version,omitempty"`
	ReconcileStrategy string       `json:"reconcileStrategy,omitempty"`
	Options           Options      `json:"options,omitzero"`
	Credentials       *Credentials `json:"credentials,omitempty"`
	TLSConfig         *TLSConfig   `json:"tlsConfig,omitempty"`
}

// HelmChartProxyStatus is reported by the controller.
type HelmChartProxyStatus struct {
	Conditions         []metav1.Condition       `json:"conditions,omitempty"`
	MatchingClusters   []corev1.ObjectReference `json:"matchingClusters"`
	ObservedGeneration int64                    `json:"observedGeneration,omitempty"`
}

// HelmReleaseProxy is a release on one cluster.
type HelmReleaseProxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   HelmReleaseProxySpec   `json:"spec,omitzero"`
	Status HelmReleaseProxyStatus `json:"status,omitzero"`
}

// HelmReleaseProxySpec is written by a HelmChartProxy for one cluster.
type HelmReleaseProxySpec struct {
	ClusterRef corev1.ObjectReference `json:"clusterRef"`
	Chart      `json:",inline"`
	Values     string `json:"values,omitempty"`
}

// HelmReleaseProxyStatus is the state of the release.
type HelmReleaseProxyStatus struct {
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	Status             string             `json:"status,omitempty"`
	Revision           int                `json:"revision,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
}

// Options are Helm's options (C-3).
type Options struct {
	DisableHooks             bool              `json:"disableHooks,omitempty"`
	Wait                     bool              `json:"wait,omitempty"`
	WaitForJobs              bool              `json:"waitForJobs,omitempty"`
	DependencyUpdate         bool              `json:"dependencyUpdate,omitempty"`
	Timeout                  *metav1.Duration  `json:"timeout,omitempty"`
	SkipCRDs                 bool              `json:"skipCRDs,omitempty"`
	SubNotes                 bool              `json:"options,omitempty"`
	DisableOpenAPIValidation bool              `json:"disableOpenAPIValidation,omitempty"`
	Atomic                   bool              `json:"atomic,omitempty"`
	TakeOwnership            bool              `json:"takeOwnership,omitempty"`
	Install                  InstallOptions    `json:"install,omitzero"`
	Upgrade                  UpgradeOptions    `json:"upgrade,omitzero"`
	Uninstall                *UninstallOptions `json:"uninstall,omitempty"`
	EnableClientCache        *bool             `json:"enableClientCache,omitempty"`
}

// InstallOptions are options of helm install. CreateNamespace is true by default.
type InstallOptions struct {
	CreateNamespace *bool `json:"createNamespace,omitempty"`
	IncludeCRDs     bool  `json:"includeCRDs,omitempty"`
}

// UpgradeOptions are options of helm upgrade. MaxHistory is 10 by default.
type UpgradeOptions struct {
	Force                bool `json:"force,omitempty"`
	ResetValues          bool `json:"resetValues,omitempty"`
	ReuseValues          bool `json:"reuseValues,omitempty"`
	ResetThenReuseValues bool `json:"resetThenReuseValues,omitempty"`
	Recreate             bool `json:"recreate,omitempty"`
	MaxHistory           *int `json:"maxHistory,omitempty"`
	CleanupOnFail        bool `json:"cleanupOnFail,omitempty"`
}

// UninstallOptions are options of helm uninstall.
type UninstallOptions struct {
	KeepHistory bool   `json:"keepHistory,omitempty"`
	Description string `json:"description,omitempty"`
}

// Credentials name a Secret with a docker config file under Key.
type Credentials struct {
	Secret corev1.SecretReference `json:"secret"`
	Key    string                 `json:"key"`
}

// TLSConfig names a Secret with a CA under ca.crt.
type TLSConfig struct {
	CASecret              *corev1.SecretReference `json:"caSecret,omitempty"`
	InsecureSkipTLSVerify bool                    `json:"insecureSkipTLSVerify,omitempty"`
}
