package registration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/ocm"
)

// HubAccount is the name of a hub's ServiceAccount. ClusterRoles and Roles also have its name.
const HubAccount = "sealift-fleet-hub"

// HubAggregate is the label of ClusterRoles whose rights a hub gets in addition. It needs the right to read each kind of
// configuration that is not Sealift's own, and all rights of a role that it binds to the agents of add-ons.
const HubAggregate = "fleet.sealift.dev/aggregate-to-hub"

// Hub is a hub that gets rights, as RBAC objects. Tests run hubs with these rights and no others. Namespace is required.
type Hub struct {
	// Namespace has the hub's own objects, and its ServiceAccount.
	Namespace string
	// SecretNamespaces are those whose Secrets the hub may read: those with HelmChartProxies, whose clusters have their
	// kubeconfigs there, and those of --secret-namespace.
	SecretNamespaces []string
	// Signers are the custom signers whose certificates the hub signs, such as example.com/signer or example.com/*.
	Signers []string
}

var (
	reads   = []string{"get", "list", "watch"}
	all     = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	patches = []string{"patch", "update"}
)

// Roles returns the names of the hub's own ClusterRoles and Roles.
func (h Hub) Roles() []string {
	return []string{HubAccount, HubAccount + "-more"}
}

// Objects returns the ServiceAccount and its rights, in the order in which to apply them.
func (h Hub) Objects() []runtime.Object {
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: h.Namespace, Name: HubAccount}}
	bind := func(role string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
		}
	}
	objects := []runtime.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: h.Namespace}},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: HubAccount, Namespace: h.Namespace}},
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: HubAccount}, Rules: h.everywhere()},
		bind(HubAccount),
		&rbacv1.ClusterRole{
			TypeMeta: kind("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: HubAccount + "-more"}, // Kubernetes writes its rules
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{HubAggregate: "true"}}}},
		},
		bind(HubAccount + "-more"),
	}
	namespaces := slices.Compact(slices.Sorted(slices.Values(append([]string{h.Namespace}, h.SecretNamespaces...))))
	for _, ns := range namespaces {
		rules := []rbacv1.PolicyRule{rule("", []string{"get"}, "secrets")}
		if ns == h.Namespace {
			rules = own
		}
		objects = append(objects,
			&rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: metav1.ObjectMeta{Name: HubAccount, Namespace: ns}, Rules: rules},
			&rbacv1.RoleBinding{
				TypeMeta: kind("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: HubAccount, Namespace: ns},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: HubAccount}, Subjects: subjects,
			})
	}
	return objects
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
}

func rule(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// own are the rights in the hub's own namespace: the authority of its webhooks, the record of its definitions, what rollouts and
// sequences remember, the Leases of hubs, and events.
var own = []rbacv1.PolicyRule{
	rule("", []string{"get", "create", "update", "delete"}, "configmaps"),
	rule("", []string{"get", "list", "create", "update", "patch", "delete"}, "secrets"),
	rule("coordination.k8s.io", all, "leases"),
	rule("", []string{"create", "patch"}, "events"),
	rule("events.k8s.io", []string{"create", "patch"}, "events"),
}

// everywhere are the rights in all namespaces, and on cluster-scoped objects.
func (h Hub) everywhere() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		// definitions and admission
		rule("apiextensions.k8s.io", all, "customresourcedefinitions"),
		rule("admissionregistration.k8s.io", []string{"get", "create", "patch"}, "mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
		rule("admissionregistration.k8s.io", all, "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
		// clusters: their namespaces, heartbeats and status
		rule("", []string{"get", "list", "watch", "create"}, "namespaces"),
		rule("coordination.k8s.io", reads, "leases"),
		rule(ocm.ClusterVersion.Group, []string{"get", "list", "watch", "patch"}, "managedclusters"),
		rule(ocm.ClusterVersion.Group, []string{"get", "list", "watch", "create"}, "managedclustersets"),
		rule(ocm.ClusterVersion.Group, reads, "managedclustersetbindings", "placements", "addonplacementscores"),
		rule(ocm.ClusterVersion.Group, all, "placementdecisions"),
		rule(ocm.ClusterVersion.Group, patches, "managedclusters/status", "managedclustersets/status", "managedclustersetbindings/status",
			"placements/status", "placementdecisions/status"),
		// add-ons, with the certificates that the hub hands over, and their works
		rule(ocm.AddOnVersion.Group, reads, "clustermanagementaddons", "addontemplates", "addondeploymentconfigs"),
		rule(ocm.AddOnVersion.Group, all, "managedclusteraddons"),
		rule(ocm.AddOnVersion.Group, patches, "clustermanagementaddons/status", "managedclusteraddons/status",
			"clustermanagementaddons/finalizers", "managedclusteraddons/finalizers"),
		rule(ocm.WorkVersion.Group, all, "manifestworks"),
		// the rights of add-on agents on the hub; the API server lets nobody bind a role without holding its rights
		rule(rbacv1.GroupName, all, "rolebindings"),
		rule("certificates.k8s.io", reads, "certificatesigningrequests"),
		rule("certificates.k8s.io", []string{"update"}, "certificatesigningrequests/approval", "certificatesigningrequests/status"),
		named("certificates.k8s.io", "signers", []string{"approve"}, KubeSigner),
		// charts
		rule("cluster.x-k8s.io", reads, "clusters"),
		rule(caaph.Version.Group, all, "helmchartproxies", "helmreleaseproxies"),
		rule(caaph.Version.Group, patches, "helmchartproxies/status", "helmreleaseproxies/status", "helmchartproxies/finalizers", "helmreleaseproxies/finalizers"),
	}
	if len(h.Signers) > 0 {
		rules = append(rules, named("certificates.k8s.io", "signers", []string{"approve", "sign"}, h.Signers...))
	}
	return rules
}

func named(group, resource string, verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}
