package cis

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/regularfile"
)

// access returns the checks of section 5.1.
func access() []check {
	const admission, auth = "admissionregistration.k8s.io", "certificates.k8s.io"
	return []check{
		{id: "5.1.1", title: "cluster-admin is given where it is needed alone", find: fromAPI(administrators)},
		{id: "5.1.2", title: "Few may read Secrets", find: grants("", "secrets", "get", "list", "watch")},
		{id: "5.1.3", title: "Roles have no wildcards", find: withRule(func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, "*") || slices.Contains(r.Resources, "*") || slices.Contains(r.Verbs, "*")
		})},
		{id: "5.1.4", title: "Few may make pods", find: grants("", "pods", "create")},
		{id: "5.1.5", title: "Default service accounts are not used", find: fromAPI(defaultAccounts)},
		{id: "5.1.6", title: "Pods have tokens only if they need them", find: fromAPI(idleTokens)},
		{id: "5.1.7", title: "Nobody uses the group system:masters", find: fromAPI(masters)},
		{id: "5.1.8", title: "Few may bind, impersonate or escalate", find: withRule(func(r rbacv1.PolicyRule) bool {
			return slices.ContainsFunc(r.Verbs, func(v string) bool { return slices.Contains([]string{"bind", "impersonate", "escalate"}, v) })
		})},
		{id: "5.1.9", title: "Few may make persistent volumes", find: grants("", "persistentvolumes", "create")},
		{id: "5.1.10", title: "Few may ask kubelets through the API", find: grants("", "nodes/proxy", "get", "create")},
		{id: "5.1.11", title: "Few may approve certificates", find: grants(auth, "certificatesigningrequests/approval", "update", "patch")},
		{id: "5.1.12", title: "Few may change webhooks of the API", find: withRule(func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, admission) && slices.ContainsFunc(r.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
		})},
		{id: "5.1.13", title: "Few may make tokens of service accounts", find: grants("", "serviceaccounts/token", "create")},
	}
}

// administrators finds holders of cluster-admin other than the groups of Kubernetes and kubeadm.
func administrators(_ context.Context, f *facts) (finding, error) {
	var found []string
	for _, b := range f.objects.bindings {
		if b.role == "cluster-admin" && !slices.Contains([]string{"cluster-admin", "kubeadm:cluster-admins"}, b.name) {
			found = append(found, b.name)
		}
	}
	return none("binding", found), nil
}

// account names the service account of a pod.
func account(p corev1.Pod) string {
	if p.Spec.ServiceAccountName == "" {
		return "default"
	}
	return p.Spec.ServiceAccountName
}

// hasToken reports whether a pod has a token of its service account.
func hasToken(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// rights reports whether a service account has rights by a binding that names it.
func (o *objects) rights(namespace, name string) bool {
	return slices.ContainsFunc(o.bindings, func(b binding) bool {
		return slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == name && (s.Namespace == namespace || s.Namespace == "" && b.namespace == namespace)
		})
	})
}

func defaultAccounts(_ context.Context, f *facts) (finding, error) {
	var found []string
	for _, p := range f.objects.pods {
		if account(p) == "default" && hasToken(p) {
			found = append(found, "pod "+p.Namespace+"/"+p.Name)
		}
	}
	for _, n := range f.objects.namespaces {
		if f.objects.rights(n.Name, "default") {
			found = append(found, "rights of "+n.Name+"/default")
		}
	}
	return none("use", found), nil
}

func idleTokens(_ context.Context, f *facts) (finding, error) {
	var found []string
	for _, p := range f.objects.pods {
		if hasToken(p) && !f.objects.rights(p.Namespace, account(p)) {
			found = append(found, p.Namespace+"/"+p.Name)
		}
	}
	return none("pod", found), nil
}

// masters finds members of a group that no role can hold back.
func masters(_ context.Context, f *facts) (finding, error) {
	var found []string
	for _, b := range f.objects.bindings {
		if b.name != "cluster-admin" && slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool { return s.Kind == rbacv1.GroupKind && s.Name == "system:masters" }) {
			found = append(found, b.name)
		}
	}
	const super = configurations + "super-admin.conf"
	if _, err := os.Stat(f.path(super)); err == nil {
		return notMet(strings.Join(append(found, super), ", "), "kubeadm makes "+super+" for emergencies; keep it in a safe place, away from the node"), nil
	}
	return none("binding", found), nil
}

// The levels of Pod Security admission that users' namespaces may have.
const (
	baseline   = "baseline"
	restricted = "restricted"
)

// podSecurity returns the checks of section 5.2.
func podSecurity() []check {
	any, most := []string{baseline, restricted, "privileged"}, []string{baseline, restricted}
	strict := []string{restricted}
	return []check{
		{id: "5.2.1", title: "Every namespace has a level of Pod Security", find: fromAPI(levels(any))},
		{id: "5.2.2", title: "No privileged containers", find: fromAPI(levels(most))},
		{id: "5.2.3", title: "No processes of the host", find: fromAPI(levels(most))},
		{id: "5.2.4", title: "No shared memory of the host", find: fromAPI(levels(most))},
		{id: "5.2.5", title: "No network of the host", find: fromAPI(levels(most))},
		{id: "5.2.6", title: "No gain of rights", find: fromAPI(levels(strict))},
		{id: "5.2.7", title: "No containers as root", find: fromAPI(levels(strict))},
		{id: "5.2.8", title: "No raw sockets", find: fromAPI(levels(strict))},
		{was: "5.2.9", title: "No added capabilities", find: fromAPI(levels(strict))},
		{id: "5.2.9", was: "5.2.10", title: "No capabilities at all", find: fromAPI(levels(strict))},
		{id: "5.2.10", was: "5.2.11", title: "No processes of Windows hosts", find: fromAPI(levels(most))},
		{id: "5.2.11", was: "5.2.12", title: "No folders of the host", find: fromAPI(levels(most))},
		{id: "5.2.12", was: "5.2.13", title: "No ports of the host", find: fromAPI(levels(most))},
	}
}

// levels requires every namespace of users to enforce one of these levels.
func levels(wanted []string) func(context.Context, *facts) (finding, error) {
	return func(_ context.Context, f *facts) (finding, error) {
		standard, err := f.defaultLevel()
		if err != nil {
			return finding{}, err
		}
		var found []string
		for _, n := range f.objects.namespaces {
			if level := cmp.Or(n.Labels["pod-security.kubernetes.io/enforce"], standard); !system(n.Name) && !slices.Contains(wanted, level) {
				found = append(found, n.Name)
			}
		}
		if len(found) == 0 {
			return met("every namespace of users enforces " + strings.Join(wanted, " or ")), nil
		}
		return notMet(strings.Join(found, ", "), "these namespaces do not enforce "+strings.Join(wanted, " or ")), nil
	}
}

// defaultLevel returns the level of namespaces without a label, which the API server reads from a file; "" if it has none.
func (f *facts) defaultLevel() (string, error) {
	name := f.flags[server]["admission-control-config-file"]
	if name == "" {
		return "", nil
	}
	text, err := regularfile.ReadFile(f.path(name))
	if err != nil {
		return "", err
	}
	var config struct {
		Plugins []struct {
			Name          string
			Configuration struct{ Defaults struct{ Enforce string } }
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range config.Plugins {
		if p.Name == "PodSecurity" {
			return p.Configuration.Defaults.Enforce, nil
		}
	}
	return "", nil
}

// enforcers are pods that enforce NetworkPolicies, by the beginnings of their names.
var enforcers = []string{"calico-node", "cilium", "antrea-agent", "weave-net", "kube-router", "canal", "ovnkube", "kube-network-policies", "kindnet"}

// policies returns the checks of sections 5.3 to 5.6.
func policies() []check {
	judgement := func(reason string) func(context.Context, *facts) (finding, error) {
		return func(context.Context, *facts) (finding, error) { return unchecked(reason), nil }
	}
	return []check{
		{id: "5.3.1", title: "The pod network enforces NetworkPolicies", find: fromAPI(func(_ context.Context, f *facts) (finding, error) {
			for _, p := range f.objects.pods {
				if slices.ContainsFunc(enforcers, func(name string) bool { return strings.HasPrefix(p.Name, name) }) {
					return met("pod " + p.Namespace + "/" + p.Name), nil
				}
			}
			return notMet("no pod that enforces them", "flannel does not; add kubeNetworkPolicies to the Installer, or use a pod network that does"), nil
		})},
		{id: "5.3.2", title: "Every namespace has NetworkPolicies", find: fromAPI(unpoliced)},
		{id: "5.4.1", title: "Secrets are files, not variables", find: fromAPI(secretVariables)},
		{id: "5.4.2", title: "Secrets lie in a store of their own", find: judgement("people have to decide about it; nothing in the cluster says so")},
		{id: "5.5.1", title: "Images are admitted by their origin (ImagePolicyWebhook)", find: flag(server, "enable-admission-plugins", has("ImagePolicyWebhook")),
			why: "it needs a service that answers; images come with the bundle, whose signed index has their digests"},
		{id: "5.6.1", was: "5.7.1", title: "Namespaces are boundaries of administration", find: judgement("people have to decide which boundaries there are")},
		{id: "5.6.2", was: "5.7.2", title: "Pods have the runtime's seccomp profile", find: fromAPI(seccomp)},
		{id: "5.6.3", was: "5.7.3", title: "Pods and containers have a security context", find: fromAPI(securityContexts)},
		{id: "5.6.4", was: "5.7.4", title: "The namespace default is empty", find: fromAPI(func(_ context.Context, f *facts) (finding, error) {
			return none("pod", f.podNames(func(p corev1.Pod) bool { return p.Namespace == metav1.NamespaceDefault })), nil
		})},
	}
}

// podNames names the pods that are such.
func (f *facts) podNames(such func(corev1.Pod) bool) (names []string) {
	for _, p := range f.objects.pods {
		if such(p) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names
}

func unpoliced(_ context.Context, f *facts) (finding, error) {
	var found []string
	for _, n := range f.objects.namespaces {
		if !system(n.Name) && !slices.ContainsFunc(f.objects.policies, func(p networkingv1.NetworkPolicy) bool { return p.Namespace == n.Name }) {
			found = append(found, n.Name)
		}
	}
	return judge(len(found) == 0, fmt.Sprintf("%d namespaces without: %s", len(found), strings.Join(found, ", ")), "each wants at least one"), nil
}

func secretVariables(_ context.Context, f *facts) (finding, error) {
	return none("pod", f.podNames(func(p corev1.Pod) bool {
		return slices.ContainsFunc(containers(p), func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }) ||
				slices.ContainsFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil })
		})
	})), nil
}

// seccomp accepts the kubelet's default for pods that say nothing.
func seccomp(_ context.Context, f *facts) (finding, error) {
	if f.setting("seccompDefault") == "true" {
		return met("seccompDefault=true: the kubelet gives it to pods that ask for none"), nil
	}
	return none("pod", f.podNames(func(p corev1.Pod) bool {
		own := func(o *corev1.SeccompProfile) bool { return o != nil && o.Type != corev1.SeccompProfileTypeUnconfined }
		return (p.Spec.SecurityContext == nil || !own(p.Spec.SecurityContext.SeccompProfile)) && slices.ContainsFunc(containers(p), func(c corev1.Container) bool {
			return c.SecurityContext == nil || !own(c.SecurityContext.SeccompProfile)
		})
	})), nil
}

func securityContexts(_ context.Context, f *facts) (finding, error) {
	return none("pod", f.podNames(func(p corev1.Pod) bool {
		return !system(p.Namespace) && slices.ContainsFunc(containers(p), func(c corev1.Container) bool { return c.SecurityContext == nil })
	})), nil
}

func containers(p corev1.Pod) []corev1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
}
