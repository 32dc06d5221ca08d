package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
)

// register tells the agent its identity on the hub, grants it the rights that the template names, and sets condition
// RegistrationApplied (O-35, X-30).
func (r *clusterAddOns) register(ctx context.Context, p place) error {
	a := p.addOn
	if !p.cluster.Spec.HubAcceptsClient {
		r.set(&a.Status.Conditions, "RegistrationApplied", "False", "ClusterNotAccepted", "The hub does not accept the cluster: its agents have no rights on the hub")
		return nil // Reconcile has revoked them
	}
	wanted, known, err := r.registrations(ctx, a)
	if err != nil || !known {
		return err // render says why
	}
	if len(wanted) == 0 {
		a.Status.Registrations = nil
		r.set(&a.Status.Conditions, "RegistrationApplied", "True", "NilRegistration", "Registration of the addon agent is not needed")
		return r.revoke(ctx, a, nil)
	}
	a.Status.Registrations = registration.Identities(a.Namespace, a.Name, wanted)
	bindings, err := registration.Bindings(a, wanted, a.Status.Registrations)
	err = errors.Join(err, registration.Check(wanted))
	for _, w := range wanted {
		if err == nil && w.Type == ocm.CustomSigner && w.CustomSigner != nil {
			_, err = r.authority(ctx, w.CustomSigner)
		}
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !isMistake(err) {
		return err
	}
	refused, passing := r.share(ctx, a, bindings)
	if passing != nil {
		return passing
	}
	if err = errors.Join(err, refused); err != nil {
		r.set(&a.Status.Conditions, "RegistrationApplied", "False", "SetPermissionFailed", "Failed to set permission for hub agent: "+err.Error())
		return nil //nolint:nilerr // the condition says it
	}
	r.set(&a.Status.Conditions, "RegistrationApplied", "True", "SetPermissionApplied", "Registration of the addon agent is configured")
	return nil
}

// share grants the wanted roles, and revokes all others: also a binding of an older hub that is refused now.
// What is refused is a mistake of a user. After another failure nothing is revoked, and the next try does it.
func (r *clusterAddOns) share(ctx context.Context, a *ocm.ManagedClusterAddOn, bindings []rbacv1.RoleBinding) (refused, passing error) {
	var granted []rbacv1.RoleBinding
	for i := range bindings {
		err := r.grant(ctx, a, &bindings[i])
		switch {
		case err == nil:
			granted = append(granted, bindings[i])
		case isMistake(err) || isRefusal(err):
			refused = errors.Join(refused, err)
		default:
			return nil, err
		}
	}
	err := r.revoke(ctx, a, granted)
	if isMistake(err) {
		return errors.Join(refused, err), nil
	}
	return refused, err
}

// isMistake reports whether the API server refused the user's request. Trying again changes nothing.
func isMistake(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
}

// registrations returns the registrations of an add-on's template. They are unknown while the template is not the add-on's
// desired one.
func (c *controllers) registrations(ctx context.Context, a *ocm.ManagedClusterAddOn) (list []ocm.Registration, known bool, err error) {
	var t ocm.AddOnTemplateSpec
	for _, ref := range inventory.References(a) {
		if ref.ConfigType != inventory.Templates || ref.DesiredConfig == nil {
			continue
		}
		object, err := c.content(ctx, ref)
		if err != nil || object == nil {
			return nil, false, err
		}
		if err := decodeSpec(object, &t); err != nil {
			return nil, false, err
		}
	}
	return t.Registration, true, nil
}

// grant binds a role. The API server refuses one that the hub does not hold itself. The binding gets another name while agents
// of other clusters have another role by its name: in a rollout, templates differ.
func (c *controllers) grant(ctx context.Context, a *ocm.ManagedClusterAddOn, b *rbacv1.RoleBinding) error {
	if err := c.shareable(ctx, a, b); err != nil {
		return err
	}
	var had rbacv1.RoleBinding
	err := c.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, &had)
	if err == nil && had.RoleRef != b.RoleRef && len(registration.Leave(had.Subjects, a.Namespace, a.Name)) > 0 {
		b.Name, had = b.Name+":"+b.RoleRef.Name, rbacv1.RoleBinding{}
		err = c.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, &had)
	}
	if err == nil && !registration.IsOurs(&had) {
		return foreign(b)
	}
	if err == nil && had.RoleRef != b.RoleRef { // which cannot be changed
		if err := c.Delete(ctx, &had, client.Preconditions{UID: &had.UID, ResourceVersion: &had.ResourceVersion}); client.IgnoreNotFound(err) != nil {
			return err
		}
		err = apierrors.NewNotFound(rbacv1.Resource("rolebindings"), b.Name)
	}
	if apierrors.IsNotFound(err) {
		return c.bind(ctx, b)
	}
	if err != nil {
		return err
	}
	after := had.DeepCopy()
	after.Subjects = b.Subjects
	if b.Namespace != a.Namespace {
		after.Subjects = registration.Join(had.Subjects, b.Subjects, a.Name)
	}
	return c.patch(ctx, &had, after)
}

// bind makes a binding that the cache does not have.
func (c *controllers) bind(ctx context.Context, b *rbacv1.RoleBinding) error {
	err := c.Create(ctx, b)
	switch {
	case apierrors.IsAlreadyExists(err):
		var live rbacv1.RoleBinding
		if err := c.hub.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(b), &live); err == nil && !registration.IsOurs(&live) {
			return foreign(b) // the cache never has it
		}
		return apierrors.NewConflict(rbacv1.Resource("rolebindings"), b.Name, errors.New("the cache does not have it yet"))
	case apierrors.IsForbidden(err):
		return fmt.Errorf("bind %s %s in namespace %s: %w; the hub can grant only rights that it has itself: give it these rights, as 'sealift fleet hub --print-rbac' prints",
			b.RoleRef.Kind, b.RoleRef.Name, b.Namespace, err)
	}
	return err
}

func foreign(b *rbacv1.RoleBinding) error {
	return refusal{fmt.Errorf("RoleBinding %s in namespace %s was not created by a hub: delete or rename it", b.Name, b.Namespace)}
}

// shareable refuses rights that reach beyond an add-on's own cluster, although the hub holds them: the hub's own roles, the namespaces
// whose Secrets only the hub reads, and the namespace of another cluster.
func (c *controllers) shareable(ctx context.Context, a *ocm.ManagedClusterAddOn, b *rbacv1.RoleBinding) error {
	const permissions = "registration.kubeClient.hubPermissions: "
	if slices.Contains(registration.Hub{}.Roles(), b.RoleRef.Name) {
		field := "singleNamespace.roleRef"
		if b.Namespace == a.Namespace {
			field = "currentCluster.clusterRoleName"
		}
		return refusal{fmt.Errorf(permissions+"%s names %s, which has the rights of the hub itself: create a role with the rights that the agent needs, and name that one",
			field, b.RoleRef.Name)}
	}
	if b.Namespace == a.Namespace {
		return nil
	}
	if b.Namespace == c.hub.Namespace || slices.Contains(c.SecretNamespaces, b.Namespace) {
		return refusal{fmt.Errorf(permissions+"singleNamespace.namespace is %s, which has Secrets of the hub that agents must not read; "+
			"name a namespace for agents only, or use type CurrentCluster", b.Namespace)}
	}
	err := c.Get(ctx, types.NamespacedName{Name: b.Namespace}, &ocm.ManagedCluster{})
	if err == nil {
		return refusal{fmt.Errorf(permissions+"singleNamespace.namespace is %s, the namespace of a cluster, which agents of other clusters must not read; "+
			"name another namespace, or use type CurrentCluster", b.Namespace)}
	}
	return client.IgnoreNotFound(err)
}

// revoke removes an agent from all bindings of its add-on except those that it keeps. A binding that the hub may not change does
// not keep it from the others.
func (c *controllers) revoke(ctx context.Context, a *ocm.ManagedClusterAddOn, keep []rbacv1.RoleBinding) (refused error) {
	var list rbacv1.RoleBindingList
	if err := c.List(ctx, &list, client.MatchingLabels{ocm.AddOnLabel: a.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		b := &list.Items[i]
		if !registration.IsOurs(b) || slices.ContainsFunc(keep, func(k rbacv1.RoleBinding) bool { return k.Namespace == b.Namespace && k.Name == b.Name }) {
			continue
		}
		var err error
		switch left := registration.Leave(b.Subjects, a.Namespace, a.Name); len(left) {
		case len(b.Subjects): // the agent is not in it, and no older hub wrote it
		case 0:
			err = c.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion})
		default:
			after := b.DeepCopy()
			after.Subjects = left
			err = c.patch(ctx, b, after)
		}
		switch err = client.IgnoreNotFound(err); {
		case isMistake(err):
			refused = errors.Join(refused, err)
		case err != nil:
			return err
		}
	}
	return refused
}

// authority reads the authority of a custom signer. A Secret of another namespace than the hub's needs the operator's
// permission: otherwise an author of templates could use any authority, such as that of the hub's API server.
func (c *controllers) authority(ctx context.Context, signer *ocm.CustomSignerSpec) (*registration.Authority, error) {
	at := types.NamespacedName{Namespace: signer.SigningCA.Namespace, Name: signer.SigningCA.Name}
	if at.Namespace == "" {
		at.Namespace = c.hub.Namespace
	}
	if at.Namespace != c.hub.Namespace && !slices.Contains(c.SecretNamespaces, at.Namespace) {
		return nil, fmt.Errorf("signer %s: the hub may not read Secrets of namespace %s: move Secret %s to %s, or start the hub with --secret-namespace %s",
			signer.SignerName, at.Namespace, at.Name, c.hub.Namespace, at.Namespace)
	}
	var secret corev1.Secret
	if err := c.Get(ctx, at, &secret); err != nil {
		return nil, fmt.Errorf("signer %s: %w", signer.SignerName, err)
	}
	a, err := registration.ParseAuthority(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], c.now())
	if err != nil {
		return nil, fmt.Errorf("signer %s: Secret %s: %w", signer.SignerName, at, err)
	}
	return a, nil
}
