// Package ocm has the wire types of Open Cluster Management's APIs, which users write, and its controllers and agents read. It has no
// behaviour. Upstream's module, open-cluster-management.io/api, is not imported: the module proxy that Sealift is built with does not
// serve it. The numbers O- and X- in the packages beside it are rules of docs/reference/fleet.md.
package ocm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/internal/deep"
)

// The groups and versions of the kinds.
var (
	AddOnVersion   = schema.GroupVersion{Group: "addon.open-cluster-management.io", Version: "v1alpha1"}
	ClusterVersion = schema.GroupVersion{Group: "cluster.open-cluster-management.io", Version: "v1"}
	WorkVersion    = schema.GroupVersion{Group: "work.open-cluster-management.io", Version: "v1"}

	placementVersion = schema.GroupVersion{Group: ClusterVersion.Group, Version: "v1beta1"}
	setVersion       = schema.GroupVersion{Group: ClusterVersion.Group, Version: "v1beta2"}
	scoreVersion     = schema.GroupVersion{Group: ClusterVersion.Group, Version: "v1alpha1"}
)

// Object is a kind of this package.
type Object interface {
	ManagedCluster | ManagedClusterSet | ManagedClusterSetBinding | AddOnPlacementScore | Placement | PlacementDecision |
		ClusterManagementAddOn | ManagedClusterAddOn | ManifestWork | AppliedManifestWork | ClusterPropertyClaim
}

// List is a list of one kind.
type List[T Object] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []T `json:"items"`
}

// DeepCopyObject makes a copy.
func (l *List[T]) DeepCopyObject() runtime.Object { return deep.Copy(l) }

// AddToScheme makes the kinds known to a scheme. AddOnTemplate and AddOnDeploymentConfig are missing: they are hashed in their
// stored form, and read without a type.
func AddToScheme(scheme *runtime.Scheme) error {
	add[ManagedCluster](scheme, ClusterVersion, "ManagedCluster")
	add[ManagedClusterSet](scheme, setVersion, "ManagedClusterSet")
	add[ManagedClusterSetBinding](scheme, setVersion, "ManagedClusterSetBinding")
	add[AddOnPlacementScore](scheme, scoreVersion, "AddOnPlacementScore")
	add[ClusterPropertyClaim](scheme, scoreVersion, "ClusterClaim")
	add[Placement](scheme, placementVersion, "Placement")
	add[PlacementDecision](scheme, placementVersion, "PlacementDecision")
	add[ClusterManagementAddOn](scheme, AddOnVersion, "ClusterManagementAddOn")
	add[ManagedClusterAddOn](scheme, AddOnVersion, "ManagedClusterAddOn")
	add[ManifestWork](scheme, WorkVersion, "ManifestWork")
	add[AppliedManifestWork](scheme, WorkVersion, "AppliedManifestWork")
	for _, version := range []schema.GroupVersion{AddOnVersion, ClusterVersion, WorkVersion, placementVersion, setVersion, scoreVersion} {
		metav1.AddToGroupVersion(scheme, version)
	}
	return nil
}

// add registers a kind and its list.
func add[T Object](scheme *runtime.Scheme, version schema.GroupVersion, kind string) {
	object, ok := any(new(T)).(runtime.Object)
	if !ok {
		panic(kind + " is not an object") // each member of Object has a DeepCopyObject
	}
	scheme.AddKnownTypeWithName(version.WithKind(kind), object)
	scheme.AddKnownTypeWithName(version.WithKind(kind+"List"), &List[T]{})
}

// DeepCopyObject makes a copy.
func (o *ManagedCluster) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *ManagedClusterSet) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *ManagedClusterSetBinding) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *AddOnPlacementScore) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *ClusterPropertyClaim) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *Placement) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *PlacementDecision) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *ClusterManagementAddOn) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *ManagedClusterAddOn) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *ManifestWork) DeepCopyObject() runtime.Object { return deep.Copy(o) }

// DeepCopyObject makes a copy.
func (o *AppliedManifestWork) DeepCopyObject() runtime.Object { return deep.Copy(o) }
