package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/scene"
)

const (
	kubeSigner = "kubernetes.io/kube-apiserver-client"
	// groupPrefix begins the names of agents on the hub.
	groupPrefix = "system:open-cluster-management:"
)

// register tells the agent who it is on the hub, gives it the rights that the template names, and sets condition
// RegistrationApplied (O-35, X-30).
func (r *clusterAddOns) register(ctx context.Context, p place) error {
	a := p.addOn
	var t ocm.AddOnTemplateSpec
	for _, ref := range scene.References(a) {
		if ref.ConfigType != scene.Templates || ref.DesiredConfig == nil {
			continue
		}
		object, err := r.content(ctx, ref)
		if err != nil {
			return err
		}
		if object == nil {
			return nil // render says why
		}
		if err := decodeSpec(object, &t); err != nil {
			return err
		}
	}
	if len(t.Registration) == 0 {
		a.Status.Registrations = nil
		r.set(&a.Status.Conditions, "RegistrationApplied", "True", "NilRegistration", "Registration of the addon agent is not needed")
		return nil
	}
	a.Status.Registrations = identities(a, t.Registration)
	for _, reg := range t.Registration {
		for _, permission := range reg.KubeClient.HubPermissions {
			err := r.grant(ctx, a, permission)
			if err == nil {
				continue
			}
			if apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
				r.set(&a.Status.Conditions, "RegistrationApplied", "False", "SetPermissionFailed", "Failed to set permission for hub agent: "+err.Error())
				return nil
			}
			return err
		}
	}
	r.set(&a.Status.Conditions, "RegistrationApplied", "True", "SetPermissionApplied", "Registration of the addon agent is configured")
	return nil
}

// identities are the subjects of the agent's certificates.
func identities(a *ocm.ManagedClusterAddOn, registrations []ocm.Registration) []ocm.RegistrationInfo {
	var list []ocm.RegistrationInfo
	for _, reg := range registrations {
		prefix := groupPrefix + "cluster:" + a.Namespace + ":addon:" + a.Name
		info := ocm.RegistrationInfo{SignerName: kubeSigner, Subject: ocm.RegistrationSubject{
			User:   prefix + ":agent:" + a.Name + "-agent",
			Groups: []string{prefix, groupPrefix + "addon:" + a.Name, "system:authenticated"},
		}}
		if reg.Type == ocm.CustomSigner && reg.CustomSigner != nil {
			info.SignerName = reg.CustomSigner.SignerName
			if s := reg.CustomSigner.Subject; s != nil {
				info.Subject = *s
			}
		}
		list = append(list, info)
	}
	return list
}

// grant binds one role to the agent. The API server refuses a role that the hub does not hold itself.
func (r *clusterAddOns) grant(ctx context.Context, a *ocm.ManagedClusterAddOn, p ocm.HubPermission) error {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.Namespace, Labels: map[string]string{ocm.AddOnLabel: a.Name},
	}}
	switch {
	case p.Type == ocm.CurrentCluster && p.CurrentCluster != nil:
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.CurrentCluster.ClusterRoleName}
		binding.OwnerReferences = []metav1.OwnerReference{{APIVersion: ocm.AddOnVersion.String(), Kind: "ManagedClusterAddOn", Name: a.Name, UID: a.UID}}
	case p.Type == ocm.SingleNamespace && p.SingleNamespace != nil:
		binding.Namespace = p.SingleNamespace.Namespace
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: p.SingleNamespace.RoleRef.Kind, Name: p.SingleNamespace.RoleRef.Name}
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("permission of type %q has no member of its type", p.Type))
	}
	binding.Name = "open-cluster-management:" + a.Name + ":" + strings.ToLower(binding.RoleRef.Kind) + ":agent"
	for _, reg := range a.Status.Registrations {
		if reg.SignerName != kubeSigner {
			continue
		}
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: reg.Subject.User})
		for _, group := range reg.Subject.Groups {
			if group != "system:authenticated" {
				binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: group})
			}
		}
		break
	}
	var had rbacv1.RoleBinding
	err := r.Get(ctx, types.NamespacedName{Namespace: binding.Namespace, Name: binding.Name}, &had)
	if apierrors.IsNotFound(err) {
		return r.Create(ctx, binding)
	}
	if err != nil {
		return err
	}
	after := had.DeepCopy()
	for _, s := range binding.Subjects { // in a single namespace, agents of several clusters share a binding
		if !slices.Contains(after.Subjects, s) {
			after.Subjects = append(after.Subjects, s)
		}
	}
	return r.patch(ctx, &had, after)
}
