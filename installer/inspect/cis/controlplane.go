package cis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/regularfile"
)

const (
	configurations = "/etc/kubernetes/"
	keys           = configurations + "pki"
)

// controlPlaneFiles returns the checks of section 1.1.
func controlPlaneFiles() []check {
	cni := []string{"/etc/cni/net.d/*", "/var/lib/cni/networks/*/*"}
	return []check{
		{id: "1.1.1", title: "The API server's manifest is for root alone", find: onControlPlane(mode(0o600, manifest(server)))},
		{id: "1.1.2", title: "The API server's manifest belongs to root", find: onControlPlane(owner(manifest(server)))},
		{id: "1.1.3", title: "The controller manager's manifest is for root alone", find: onControlPlane(mode(0o600, manifest(controller)))},
		{id: "1.1.4", title: "The controller manager's manifest belongs to root", find: onControlPlane(owner(manifest(controller)))},
		{id: "1.1.5", title: "The scheduler's manifest is for root alone", find: onControlPlane(mode(0o600, manifest(scheduler)))},
		{id: "1.1.6", title: "The scheduler's manifest belongs to root", find: onControlPlane(owner(manifest(scheduler)))},
		{id: "1.1.7", title: "etcd's manifest is for root alone", find: onControlPlane(mode(0o600, manifest(etcdServer)))},
		{id: "1.1.8", title: "etcd's manifest belongs to root", find: onControlPlane(owner(manifest(etcdServer)))},
		{id: "1.1.9", title: "Files of the pod network are for root alone", find: onControlPlane(mode(0o600, cni...)),
			why: "the pod network's own pods write these files again whenever they start"},
		{id: "1.1.10", title: "Files of the pod network belong to root", find: onControlPlane(owner(cni...))},
		{id: "1.1.11", title: "etcd's data folder is for its owner alone", find: onControlPlane(mode(0o700, "/var/lib/etcd"))},
		{id: "1.1.12", title: "etcd's data belongs to a user of its own", find: onControlPlane(etcdUser),
			why: "kubeadm runs etcd as root; nobody else can read the folder"},
		{id: "1.1.13", title: "Credentials of administrators are for root alone", find: onControlPlane(mode(0o600, configurations+"admin.conf", configurations+"super-admin.conf"))},
		{id: "1.1.14", title: "Credentials of administrators belong to root", find: onControlPlane(owner(configurations+"admin.conf", configurations+"super-admin.conf"))},
		{id: "1.1.15", title: "scheduler.conf is for root alone", find: onControlPlane(mode(0o600, configurations+"scheduler.conf"))},
		{id: "1.1.16", title: "scheduler.conf belongs to root", find: onControlPlane(owner(configurations + "scheduler.conf"))},
		{id: "1.1.17", title: "controller-manager.conf is for root alone", find: onControlPlane(mode(0o600, configurations+"controller-manager.conf"))},
		{id: "1.1.18", title: "controller-manager.conf belongs to root", find: onControlPlane(owner(configurations + "controller-manager.conf"))},
		{id: "1.1.19", title: "The folder of keys and all in it belongs to root", find: onControlPlane(owner(keys + "/**"))},
		{id: "1.1.20", was: notIn18, title: "Certificates are changed by root alone", find: onControlPlane(mode(0o644, keys+"/*.crt", keys+"/etcd/*.crt"))},
		{was: "1.1.20", title: "Certificates are for root alone", find: onControlPlane(mode(0o600, keys+"/*.crt", keys+"/etcd/*.crt"))},
		{id: "1.1.21", title: "Keys are for root alone", find: onControlPlane(mode(0o600, keys+"/*.key", keys+"/etcd/*.key"))},
	}
}

func etcdUser(ctx context.Context, f *facts) (finding, error) {
	found, err := owner("/var/lib/etcd")(ctx, f)
	switch {
	case err != nil || found.status == NotApplicable:
		return found, err
	case found.status == Met: // it is root's
		return notMet(found.found, ""), nil
	}
	return met(found.found), nil
}

// apiServer returns the checks of section 1.2.
func apiServer() []check {
	const plugins = "enable-admission-plugins"
	return []check{
		{id: "1.2.1", title: "Nobody is served without credentials", find: flag(server, "anonymous-auth", is("false")),
			why: "kubeadm's health probes and joins ask without credentials; RBAC lets such requests read /healthz, /livez, /readyz, /version and the cluster-info alone"},
		{id: "1.2.2", title: "There is no file with tokens of users", find: flag(server, "token-auth-file", absent())},
		{id: "1.2.3", title: "Services cannot take foreign addresses (DenyServiceExternalIPs)", find: flag(server, plugins, has("DenyServiceExternalIPs"))},
		{id: "1.2.4", title: "The API server shows kubelets a certificate", find: both(server, "kubelet-client-certificate", "kubelet-client-key")},
		{id: "1.2.5", title: "The API server verifies the certificates of kubelets", find: flag(server, "kubelet-certificate-authority", given())},
		{id: "1.2.6", title: "Not every request is allowed", find: onControlPlane(authorization)},
		{id: "1.2.7", title: "Kubelets see what concerns their own node (Node authorization)", find: flag(server, "authorization-mode", has("Node"))},
		{id: "1.2.8", title: "Rights are given by roles (RBAC)", find: flag(server, "authorization-mode", has("RBAC"))},
		{id: "1.2.9", title: "The rate of events is limited (EventRateLimit)", find: flag(server, plugins, has("EventRateLimit")),
			why: "the plugin is in its alpha stage and wants limits that fit the cluster; kubernetes.hardening sets some, and the API server's own fairness limits clients"},
		{id: "1.2.10", title: "Not every object is admitted", find: flag(server, plugins, lacks("AlwaysAdmit"))},
		{id: "1.2.11", title: "Images are always pulled (AlwaysPullImages)", find: flag(server, plugins, has("AlwaysPullImages")),
			why: "behind an air gap there is no registry to pull from: images come with the bundle, checked against its index"},
		{was: "1.2.12", title: "Contexts of pods are denied where no policy is in force (SecurityContextDeny)", find: func(context.Context, *facts) (finding, error) {
			return notApplicable("Kubernetes 1.30 removed the plugin; Pod Security admission took its place, see 5.2"), nil
		}},
		{id: "1.2.12", was: "1.2.13", title: "Pods get service accounts", find: flag(server, "disable-admission-plugins", lacks("ServiceAccount"))},
		{id: "1.2.13", was: "1.2.14", title: "Nothing is made in namespaces that end", find: flag(server, "disable-admission-plugins", lacks("NamespaceLifecycle"))},
		{id: "1.2.14", was: "1.2.15", title: "Kubelets change their own node and pods alone (NodeRestriction)", find: flag(server, plugins, has("NodeRestriction"))},
		{id: "1.2.15", was: "1.2.16", title: "The API server has no profiling", find: flag(server, "profiling", is("false"))},
		{id: "1.2.16", was: "1.2.17", title: "There is an audit log", find: flag(server, "audit-log-path", given())},
		{id: "1.2.17", was: "1.2.18", title: "The audit log is kept for 30 days", find: flag(server, "audit-log-maxage", atLeast(30))},
		{id: "1.2.18", was: "1.2.19", title: "10 files of the audit log are kept", find: flag(server, "audit-log-maxbackup", atLeast(10))},
		{id: "1.2.19", was: "1.2.20", title: "A file of the audit log may have 100 MB", find: flag(server, "audit-log-maxsize", atLeast(100))},
		{id: "1.2.20", was: "1.2.21", title: "Requests end in time", find: flag(server, "request-timeout", isNot("0"))},
		{id: "1.2.21", was: "1.2.22", title: "Tokens of removed service accounts are refused", find: flag(server, "service-account-lookup", isOrUnset("true"))},
		{id: "1.2.22", was: "1.2.23", title: "Tokens of service accounts are verified with a key of their own", find: flag(server, "service-account-key-file", given())},
		{id: "1.2.23", was: "1.2.24", title: "The API server shows etcd a certificate", find: both(server, "etcd-certfile", "etcd-keyfile")},
		{id: "1.2.24", was: "1.2.25", title: "The API server serves TLS", find: both(server, "tls-cert-file", "tls-private-key-file")},
		{id: "1.2.25", was: "1.2.26", title: "Certificates of clients are verified", find: flag(server, "client-ca-file", given())},
		{id: "1.2.26", was: "1.2.27", title: "The API server verifies etcd's certificate", find: flag(server, "etcd-cafile", given())},
		{id: "1.2.27", was: "1.2.28", title: "Secrets are encrypted in etcd", find: flag(server, "encryption-provider-config", given()),
			why: "new clusters encrypt Secrets with kubernetes.encryptSecrets, cisCompliance or hardening; 'sealift certs rotate-encryption' turns it on in one that runs"},
		{id: "1.2.28", was: "1.2.29", title: "The encryption in etcd is a strong one", find: onControlPlane(encryption)},
		{id: "1.2.29", was: "1.2.30", title: "The API server accepts strong TLS suites only", find: flag(server, "tls-cipher-suites", strongOnly())},
		{id: "1.2.30", was: notIn18, title: "Tokens of pods end after an hour", find: flag(server, "service-account-extend-token-expiration", is("false")),
			why: "the API server accepts them for a year, for programs that never read a new one; kubernetes.cisCompliance ends that in a new cluster"},
	}
}

// authorization requires requests to be authorized. Without a mode or a configuration, the API server allows all of them.
func authorization(_ context.Context, f *facts) (finding, error) {
	const mode, file = "authorization-mode", "authorization-config"
	if name := f.flags[server][file]; name != "" {
		return met("--" + file + "=" + name), nil
	}
	value, set := f.flags[server][mode]
	return look("--"+mode, value, set, test{"it must be set, without AlwaysAllow", func(value string, set bool) bool {
		return set && lacks("AlwaysAllow").ok(value, set)
	}}), nil
}

// encryption requires Secrets to be written with a provider that the benchmark counts as strong.
func encryption(_ context.Context, f *facts) (finding, error) {
	name := f.flags[server]["encryption-provider-config"]
	if name == "" {
		return notApplicable("Secrets are not encrypted"), nil
	}
	text, err := regularfile.ReadFile(f.path(name))
	if err != nil {
		return finding{}, err
	}
	var config apiserverv1.EncryptionConfiguration
	if err := yaml.Unmarshal(text, &config); err != nil {
		return finding{}, fmt.Errorf("%s: %w", name, err)
	}
	for _, r := range config.Resources {
		if slices.Contains(r.Resources, "secrets") && len(r.Providers) > 0 {
			first := r.Providers[0]
			return judge(first.AESCBC != nil || first.KMS != nil || first.Secretbox != nil, name, "the first provider of secrets must be aescbc, kms or secretbox"), nil
		}
	}
	return notMet(name, "it does not name secrets"), nil
}

// controllers returns the checks of sections 1.3 and 1.4.
func controllers() []check {
	return []check{
		{id: "1.3.1", title: "Pods that have ended are removed in time", find: flag(controller, "terminated-pod-gc-threshold", given())},
		{id: "1.3.2", title: "The controller manager has no profiling", find: flag(controller, "profiling", is("false"))},
		{id: "1.3.3", title: "Each controller has an account of its own", find: flag(controller, "use-service-account-credentials", is("true"))},
		{id: "1.3.4", title: "Tokens of service accounts are signed with a key of their own", find: flag(controller, "service-account-private-key-file", given())},
		{id: "1.3.5", title: "Pods get the cluster's CA", find: flag(controller, "root-ca-file", given())},
		{id: "1.3.6", title: "Serving certificates of kubelets may rotate", find: flag(controller, "feature-gates", lacks("RotateKubeletServerCertificate=false"))},
		{id: "1.3.7", title: "The controller manager listens on the host alone", find: flag(controller, "bind-address", isOrUnset("127.0.0.1"))},
		{id: "1.4.1", title: "The scheduler has no profiling", find: flag(scheduler, "profiling", is("false"))},
		{id: "1.4.2", title: "The scheduler listens on the host alone", find: flag(scheduler, "bind-address", isOrUnset("127.0.0.1"))},
	}
}

// etcd returns the checks of section 2.
func etcd() []check {
	return []check{
		{id: "2.1", title: "etcd serves TLS", find: both(etcdServer, "cert-file", "key-file")},
		{id: "2.2", title: "etcd wants a certificate of its clients", find: flag(etcdServer, "client-cert-auth", is("true"))},
		{id: "2.3", title: "etcd makes no certificates for itself", find: flag(etcdServer, "auto-tls", isNot("true"))},
		{id: "2.4", title: "Members of etcd talk by TLS", find: both(etcdServer, "peer-cert-file", "peer-key-file")},
		{id: "2.5", title: "Members of etcd want a certificate of each other", find: flag(etcdServer, "peer-client-cert-auth", is("true"))},
		{id: "2.6", title: "Members of etcd make no certificates for themselves", find: flag(etcdServer, "peer-auto-tls", isNot("true"))},
		{id: "2.7", title: "etcd has a CA of its own", find: onControlPlane(func(_ context.Context, f *facts) (finding, error) {
			if f.flags[etcdServer] == nil {
				return notApplicable("this node has no static pod etcd"), nil
			}
			own, cluster := f.flags[etcdServer]["trusted-ca-file"], f.flags[server]["client-ca-file"]
			return judge(own != "" && own != cluster, "--trusted-ca-file="+own, "it must not be the CA of the cluster's clients, "+cluster), nil
		})},
	}
}

// controlPlaneConfiguration returns the checks of section 3.
func controlPlaneConfiguration() []check {
	return []check{
		{id: "3.1.1", title: "People do not use client certificates", find: onControlPlane(func(_ context.Context, f *facts) (finding, error) {
			own := f.flags[server]
			found := "--oidc-issuer-url=" + own["oidc-issuer-url"] + " --authentication-config=" + own["authentication-config"]
			return judge(own["oidc-issuer-url"] != "" || own["authentication-config"] != "", found, ""), nil
		}), why: "a cluster behind an air gap has no provider of identities unless somebody brings one; admin.conf, which is for root alone, has a certificate"},
		{id: "3.1.2", title: "People do not use tokens of service accounts", find: fromAPI(secretTokens)},
		{id: "3.1.3", title: "People do not use bootstrap tokens", find: fromAPI(bootstrapTokens)},
		{id: "3.2.1", title: "There is an audit policy", find: flag(server, "audit-policy-file", given())},
		{id: "3.2.2", title: "The audit policy covers all that matters", find: onControlPlane(auditPolicy)},
	}
}

// auditPolicy requires requests that no earlier rule selects to be logged, too.
func auditPolicy(_ context.Context, f *facts) (finding, error) {
	name := f.flags[server]["audit-policy-file"]
	if name == "" {
		return notMet("--audit-policy-file is not set", "nothing is logged"), nil
	}
	text, err := regularfile.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return notMet(name, "the file is not there"), nil
	}
	if err != nil {
		return finding{}, err
	}
	var policy auditv1.Policy
	if err := yaml.Unmarshal(text, &policy); err != nil {
		return finding{}, fmt.Errorf("%s: %w", name, err)
	}
	all := slices.ContainsFunc(policy.Rules, func(r auditv1.PolicyRule) bool {
		return r.Level != auditv1.LevelNone && len(r.Users)+len(r.UserGroups)+len(r.Verbs)+len(r.Resources)+len(r.Namespaces)+len(r.NonResourceURLs) == 0
	})
	return judge(all, fmt.Sprintf("%s has %d rules", name, len(policy.Rules)), "a rule must log all that no rule before it selects"), nil
}
