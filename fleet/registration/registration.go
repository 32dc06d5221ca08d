// Package registration defines the identities of add-on agents on the hub: the subjects of their certificates, which requests for
// certificates are granted, and which roles the agents get (O-35, X-30). It also has the rights of hubs. It talks to no cluster.
package registration

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
)

// KubeSigner is the signer of certificates for the hub's API server.
const KubeSigner = "kubernetes.io/kube-apiserver-client"

// Account is the ServiceAccount of a cluster's agent in the namespace of its cluster on the hub.
const Account = "sealift-fleet-agent"

const (
	// prefix begins the names of agents on the hub.
	prefix = "system:open-cluster-management:"
	// unboundGroup is a group that a certificate need not name and that no role is bound to.
	unboundGroup = "system:authenticated"
	// templateLabel marks objects that the hub creates for an AddOnTemplate.
	templateLabel = "open-cluster-management.io/addon-template-name"
)

// agent begins the names of an add-on's agent on a cluster. It is also its group.
func agent(cluster, addOn string) string { return prefix + "cluster:" + cluster + ":addon:" + addOn }

// Identities returns the subjects of the certificates that an add-on's agent has on a cluster, one for each registration.
func Identities(cluster, addOn string, registrations []ocm.Registration) []ocm.RegistrationInfo {
	var list []ocm.RegistrationInfo
	for _, r := range registrations {
		info := ocm.RegistrationInfo{SignerName: KubeSigner, Subject: ocm.RegistrationSubject{
			User: agent(cluster, addOn) + ":agent:" + addOn + "-agent", Groups: []string{agent(cluster, addOn), prefix + "addon:" + addOn},
		}}
		switch {
		case r.Type == ocm.KubeClient:
		case r.Type != ocm.CustomSigner || r.CustomSigner == nil:
			continue
		default:
			info.SignerName = r.CustomSigner.SignerName
			if s := r.CustomSigner.Subject; s != nil {
				info.Subject = *s
			}
		}
		list = append(list, info)
	}
	return list
}

// Check refuses registrations that no hub may serve, and says what to change.
func Check(registrations []ocm.Registration) error {
	for _, r := range registrations {
		if c := r.CustomSigner; r.Type == ocm.CustomSigner && c != nil && isKubernetes(c.SignerName) {
			return fmt.Errorf("registration of type CustomSigner: signer %q belongs to Kubernetes; use type KubeClient, or a signer of your own domain", c.SignerName)
		}
	}
	return nil
}

func isKubernetes(signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
}

// Subjects returns what roles are bound to: the first identity at the hub's API server. It is missing while it is unknown.
func Subjects(identities []ocm.RegistrationInfo) []rbacv1.Subject {
	at := slices.IndexFunc(identities, func(i ocm.RegistrationInfo) bool { return i.SignerName == KubeSigner })
	if at < 0 {
		return nil
	}
	var list []rbacv1.Subject
	if user := identities[at].Subject.User; user != "" {
		list = append(list, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	for _, group := range identities[at].Subject.Groups {
		if group != unboundGroup {
			list = append(list, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
	}
	return list
}

// Bindings returns the RoleBindings of an add-on on a cluster. Their only subject is the agent of this cluster. The group that
// the add-on's agents of all clusters have is in none of them: with it, an agent could read the namespaces of other clusters,
// and would keep the rights of an add-on that was removed. Those in another namespace have no owner: agents of several clusters
// share them.
func Bindings(a *ocm.ManagedClusterAddOn, registrations []ocm.Registration, identities []ocm.RegistrationInfo) ([]rbacv1.RoleBinding, error) {
	subjects := slices.DeleteFunc(Subjects(identities), func(s rbacv1.Subject) bool { return !isAgent(s, a.Namespace, a.Name) })
	var list []rbacv1.RoleBinding
	for _, r := range registrations {
		for _, p := range r.KubeClient.HubPermissions {
			b := rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{ocm.AddOnLabel: a.Name, templateLabel: ""}}, Subjects: subjects}
			switch {
			case p.Type == ocm.CurrentCluster && p.CurrentCluster != nil:
				b.Namespace = a.Namespace
				b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.CurrentCluster.ClusterRoleName}
				b.OwnerReferences = []metav1.OwnerReference{{APIVersion: ocm.AddOnVersion.String(), Kind: "ManagedClusterAddOn", Name: a.Name, UID: a.UID}}
			case p.Type == ocm.SingleNamespace && p.SingleNamespace != nil:
				b.Namespace = p.SingleNamespace.Namespace
				b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: p.SingleNamespace.RoleRef.Kind, Name: p.SingleNamespace.RoleRef.Name}
			case p.Type == ocm.CurrentCluster || p.Type == ocm.SingleNamespace:
				return nil, fmt.Errorf("a permission of type %s has no member %s%s", p.Type, strings.ToLower(p.Type[:1]), p.Type[1:])
			default:
				return nil, fmt.Errorf("a permission has type %q, which is neither CurrentCluster nor SingleNamespace", p.Type)
			}
			b.Name = "open-cluster-management:" + a.Name + ":" + strings.ToLower(b.RoleRef.Kind) + ":agent"
			if slices.ContainsFunc(list, func(o rbacv1.RoleBinding) bool { return o.Namespace == b.Namespace && o.Name == b.Name }) {
				b.Name += ":" + b.RoleRef.Name // a second role of this kind
			}
			list = append(list, b)
		}
	}
	return list, nil
}

// isAgent reports whether a subject is the agent of an add-on on one cluster.
func isAgent(s rbacv1.Subject, cluster, addOn string) bool {
	name := agent(cluster, addOn)
	return s.Name == name || strings.HasPrefix(s.Name, name+":")
}

// Join returns the subjects of a binding shared by the agents of an add-on, plus those of one more. It drops the group of all
// of them, which older hubs have bound.
func Join(had, add []rbacv1.Subject, addOn string) []rbacv1.Subject {
	list := slices.DeleteFunc(slices.Clone(had), func(s rbacv1.Subject) bool { return s.Name == prefix+"addon:"+addOn })
	for _, s := range add {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// Leave returns the subjects of a binding without the agent of one cluster. It returns none if no other agent is left.
func Leave(had []rbacv1.Subject, cluster, addOn string) []rbacv1.Subject {
	return slices.DeleteFunc(Join(had, nil, addOn), func(s rbacv1.Subject) bool { return isAgent(s, cluster, addOn) })
}

// IsOurs reports whether the hub made a RoleBinding for an AddOnTemplate.
func IsOurs(b *rbacv1.RoleBinding) bool {
	_, marked := b.Labels[templateLabel]
	return marked
}
