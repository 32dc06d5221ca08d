package cis

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cluster-bootstrap/token/api"
)

// objects are the API objects of section 5.
type objects struct {
	roles      []role
	bindings   []binding
	namespaces []corev1.Namespace
	pods       []corev1.Pod
	policies   []networkingv1.NetworkPolicy
}

// role is a Role or a ClusterRole that did not come with Kubernetes or kubeadm.
type role struct {
	name  string // with its namespace
	rules []rbacv1.PolicyRule
}

type binding struct {
	name      string
	namespace string
	role      string
	subjects  []rbacv1.Subject
}

// fromAPI lets a control plane ask the API.
func fromAPI(find func(context.Context, *facts) (finding, error)) func(context.Context, *facts) (finding, error) {
	return func(ctx context.Context, f *facts) (finding, error) {
		if f.API == nil {
			return unchecked("the API tells it to control planes alone: run the command there"), nil
		}
		if f.objects == nil {
			read, err := readObjects(ctx, f.API)
			if err != nil {
				return finding{}, err
			}
			f.objects = read
		}
		return find(ctx, f)
	}
}

func readObjects(ctx context.Context, api kubernetes.Interface) (*objects, error) {
	all, o := metav1.ListOptions{}, &objects{}
	clusterRoles, err := api.RbacV1().ClusterRoles().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, r := range clusterRoles.Items {
		o.addRole(r.ObjectMeta, r.Name, r.Rules)
	}
	roles, err := api.RbacV1().Roles(metav1.NamespaceAll).List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, r := range roles.Items {
		o.addRole(r.ObjectMeta, r.Namespace+"/"+r.Name, r.Rules)
	}
	clusterBindings, err := api.RbacV1().ClusterRoleBindings().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, b := range clusterBindings.Items {
		o.bindings = append(o.bindings, binding{b.Name, "", b.RoleRef.Name, b.Subjects})
	}
	bindings, err := api.RbacV1().RoleBindings(metav1.NamespaceAll).List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, b := range bindings.Items {
		o.bindings = append(o.bindings, binding{b.Namespace + "/" + b.Name, b.Namespace, b.RoleRef.Name, b.Subjects})
	}
	namespaces, err := api.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return nil, err
	}
	o.namespaces = namespaces.Items
	pods, err := api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, all)
	if err != nil {
		return nil, err
	}
	o.pods = pods.Items
	policies, err := api.NetworkingV1().NetworkPolicies(metav1.NamespaceAll).List(ctx, all)
	if err != nil {
		return nil, err
	}
	o.policies = policies.Items
	return o, nil
}

// addRole leaves out those of Kubernetes and kubeadm.
func (o *objects) addRole(meta metav1.ObjectMeta, name string, rules []rbacv1.PolicyRule) {
	if meta.Labels["kubernetes.io/bootstrapping"] == "rbac-defaults" || strings.HasPrefix(meta.Name, "kubeadm:") || strings.HasPrefix(meta.Name, "system:") {
		return
	}
	o.roles = append(o.roles, role{name, rules})
}

// system are the namespaces of Kubernetes itself, which the benchmark does not count as users'.
func system(namespace string) bool {
	return slices.Contains([]string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}, namespace)
}

// grants finds the roles that allow one of the verbs on a resource.
func grants(group, resource string, verbs ...string) func(context.Context, *facts) (finding, error) {
	return withRule(func(r rbacv1.PolicyRule) bool {
		in := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
		return in(r.APIGroups, group) && in(r.Resources, resource) && slices.ContainsFunc(verbs, func(v string) bool { return in(r.Verbs, v) })
	})
}

// withRule finds the roles that have such a rule.
func withRule(such func(rbacv1.PolicyRule) bool) func(context.Context, *facts) (finding, error) {
	return fromAPI(func(_ context.Context, f *facts) (finding, error) {
		var found []string
		for _, r := range f.objects.roles {
			if slices.ContainsFunc(r.rules, such) {
				found = append(found, r.name)
			}
		}
		return none("role", found), nil
	})
}

// none requires that nothing is found.
func none(what string, found []string) finding {
	if len(found) == 0 {
		return met("no " + what + " besides those of Kubernetes")
	}
	slices.Sort(found)
	return notMet(strings.Join(slices.Compact(found), ", "), "look whether each of them needs it")
}

// secretTokens finds tokens of service accounts that never end.
func secretTokens(ctx context.Context, f *facts) (finding, error) {
	list, err := f.API.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return finding{}, err
	}
	var found []string
	for _, s := range list.Items {
		found = append(found, s.Namespace+"/"+s.Name)
	}
	if len(found) > 0 {
		return notMet(strings.Join(found, ", "), "these tokens never end, so that a person may have one"), nil
	}
	return met("no token is kept in a Secret"), nil
}

// bootstrapTokens finds tokens for joins that never end.
func bootstrapTokens(ctx context.Context, f *facts) (finding, error) {
	list, err := f.API.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(api.SecretTypeBootstrapToken)})
	if err != nil {
		return finding{}, err
	}
	var found []string
	for _, s := range list.Items {
		if len(s.Data[api.BootstrapTokenExpirationKey]) == 0 {
			found = append(found, s.Name)
		}
	}
	if len(found) > 0 {
		return notMet(strings.Join(found, ", "), "these tokens never end; see 'sealift token revoke'"), nil
	}
	return met("every token ends"), nil
}
