package caaph

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/internal/deep"
)

// Version is the group and version of both kinds.
var Version = schema.GroupVersion{Group: "addons.cluster.x-k8s.io", Version: "v1alpha1"}

// HelmChartProxyList is a list.
type HelmChartProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []HelmChartProxy `json:"items"`
}

// HelmReleaseProxyList is a list.
type HelmReleaseProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []HelmReleaseProxy `json:"items"`
}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(Version, &HelmChartProxy{}, &HelmChartProxyList{}, &HelmReleaseProxy{}, &HelmReleaseProxyList{})
	metav1.AddToGroupVersion(scheme, Version)
	return nil
}

// DeepCopyObject makes a copy.
func (o *HelmChartProxy) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *HelmReleaseProxy) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *HelmChartProxyList) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *HelmReleaseProxyList) DeepCopyObject() runtime.Object { return deep.Copy(o) }
