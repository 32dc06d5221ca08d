// Package join makes a cluster a member of a fleet: its ManagedCluster, its namespace on the hub, an identity for its
// agent, and the agent's rights. The agent may work in its own namespace, and report on its own ManagedCluster. It can
// read nothing of other clusters.
package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/kube"
)

// DefaultValidity is how long the token of an agent is valid.
const DefaultValidity = 365 * 24 * time.Hour

// Cluster is a cluster that joins.
type Cluster struct {
	Name string
	// Labels of the ManagedCluster, for placements.
	Labels map[string]string
	// Annotations of the ManagedCluster, such as the one of occasional clusters.
	Annotations map[string]string
	// Server is the address of the hub as the agent sees it. Empty is the address that the command uses.
	Server string
	// Validity is how long the agent's token is valid. Default DefaultValidity.
	Validity time.Duration
	// HubNamespace has the hub's own objects. No cluster has its name.
	HubNamespace string
	// HubKey is the key that the agent pins. Without one, the agent accepts unsigned works.
	HubKey *signature.PublicKey
}

// Hub joins a cluster and returns the kubeconfig of its agent. Joining a cluster again gives its agent a new token and a new
// key, and changes nothing else.
func Hub(ctx context.Context, hub *kube.Cluster, c Cluster) ([]byte, error) {
	if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
		return nil, fmt.Errorf("cluster name %q: %s; it is also the name of a namespace", c.Name, problems[0])
	}
	key, err := signature.Generate()
	if err != nil {
		return nil, err
	}
	public, err := key.Public()
	if err != nil {
		return nil, err
	}
	known, err := c.keep(ctx, hub)
	if err != nil {
		return nil, fmt.Errorf("join cluster %s: %w", c.Name, err)
	}
	if err := c.ownNamespace(ctx, hub, known); err != nil {
		return nil, err
	}
	c.Annotations[AgentKey] = string(public.Marshal())
	objects, err := objectsOf(c)
	if err != nil {
		return nil, err
	}
	set := kube.Set{Name: "fleet-join-" + c.Name, Namespace: c.Name}
	// what kubectl or another hub wrote stays, such as annotations, finalizers and client configurations of a ManagedCluster
	engine := kube.New(hub, kube.Options{TakeOver: []string{}})
	if _, err := engine.Apply(ctx, set, objects, kube.ApplyOptions{FailFast: true}); err != nil {
		return nil, fmt.Errorf("join cluster %s: %w; does a hub run? 'sealift fleet hub' installs the kinds", c.Name, err)
	}
	core, err := corev1client.NewForConfigAndClient(hub.Config())
	if err != nil {
		return nil, err
	}
	seconds := int64(cmp.Or(c.Validity, DefaultValidity) / time.Second)
	token, err := core.ServiceAccounts(c.Name).CreateToken(ctx, registration.Account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make a token for the agent of cluster %s: %w", c.Name, err)
	}
	return kubeconfig(hub, c, token.Status.Token, key)
}

// keep adds the labels and annotations that earlier joins gave the cluster. Without them, the apply would remove them: a carried cluster
// would count as lost, and lose its add-ons. Those of others stay theirs. It reports whether the hub knows the cluster.
func (c *Cluster) keep(ctx context.Context, hub *kube.Cluster) (known bool, err error) {
	live, err := hub.Dynamic().Resource(ocm.ClusterVersion.WithResource("managedclusters")).Get(ctx, c.Name, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("%w; does a hub run? 'sealift fleet hub' installs the kinds", err)
	}
	labels, annotations := make(map[string]string), make(map[string]string)
	if err == nil {
		// somebody denied the cluster: a new token must not give its agent its rights back
		if accepted, found, _ := unstructured.NestedBool(live.Object, "spec", "hubAcceptsClient"); found && !accepted {
			return false, errors.New("the hub does not accept it: set spec.hubAcceptsClient of its ManagedCluster to true, then join it again")
		}
		ours, err := kube.Owned(live, kube.Manager)
		if err != nil {
			return false, err
		}
		for name, value := range live.GetLabels() {
			if ours.Has(fieldpath.MakePathOrDie("metadata", "labels", name)) {
				labels[name] = value
			}
		}
		for name, value := range live.GetAnnotations() {
			if ours.Has(fieldpath.MakePathOrDie("metadata", "annotations", name)) {
				annotations[name] = value
			}
		}
	}
	maps.Copy(labels, c.Labels)
	maps.Copy(annotations, c.Annotations)
	c.Labels, c.Annotations = labels, annotations
	return err == nil, nil
}

// ownNamespace refuses a cluster named like a namespace with another purpose, which its agent could read and write. known means that the
// hub has the cluster.
func (c *Cluster) ownNamespace(ctx context.Context, hub *kube.Cluster, known bool) error {
	if c.Name == metav1.NamespaceDefault || strings.HasPrefix(c.Name, "kube-") {
		return fmt.Errorf("cluster name %q: the namespace with this name belongs to Kubernetes, and a cluster gets a namespace of its own; choose another name", c.Name)
	}
	if c.Name == c.HubNamespace {
		return fmt.Errorf("cluster name %q: the namespace with this name has the objects of the hub; choose another name", c.Name)
	}
	core, err := corev1client.NewForConfigAndClient(hub.Config())
	if err != nil {
		return err
	}
	live, err := core.Namespaces().Get(ctx, c.Name, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("look for namespace %s on the hub: %w", c.Name, err)
	}
	if err == nil && !known && live.Labels[ocm.ClusterLabel] != c.Name {
		return fmt.Errorf("cluster name %q: the hub has a namespace with this name already; choose another name or, if it is for this cluster, run 'kubectl label namespace %s %s=%s' on the hub",
			c.Name, c.Name, ocm.ClusterLabel, c.Name)
	}
	return nil
}

// kubeconfig is the agent's access to the hub, and its trust settings.
func kubeconfig(hub *kube.Cluster, c Cluster, token string, key *signature.Key) ([]byte, error) {
	cfg, _ := hub.Config()
	ca := cfg.CAData
	if len(ca) == 0 && cfg.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(cfg.CAFile); err != nil {
			return nil, fmt.Errorf("read the certificate authority of the hub: %w", err)
		}
	}
	trust, err := extension(c, key)
	if err != nil {
		return nil, err
	}
	const name = "hub"
	return clientcmd.Write(clientcmdapi.Config{
		Extensions:     map[string]runtime.Object{extensionName: trust},
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cmp.Or(c.Server, cfg.Host), CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{c.Name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{c.Name: {Cluster: name, AuthInfo: c.Name, Namespace: c.Name}},
		CurrentContext: c.Name,
	})
}

// objectsOf returns the objects of a cluster on the hub.
func objectsOf(c Cluster) ([]*unstructured.Unstructured, error) {
	group := ocm.ClusterVersion.Group
	agent := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: c.Name, Name: registration.Account}}
	name := "sealift-fleet-agent:" + c.Name
	typed := []runtime.Object{
		&corev1.Namespace{TypeMeta: kind("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: map[string]string{ocm.ClusterLabel: c.Name}}},
		&corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Name: registration.Account, Namespace: c.Name}},
		&rbacv1.Role{TypeMeta: kind("rbac.authorization.k8s.io/v1", "Role"), ObjectMeta: metav1.ObjectMeta{Name: registration.Account, Namespace: c.Name}, Rules: []rbacv1.PolicyRule{
			// patch is for the finalizer; the hub's admission policies refuse a change of anything else
			{APIGroups: []string{ocm.WorkVersion.Group}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "list", "watch", "patch", "update"}},
			{APIGroups: []string{ocm.WorkVersion.Group}, Resources: []string{"manifestworks/status"}, Verbs: []string{"patch", "update"}},
			{APIGroups: []string{ocm.AddOnVersion.Group}, Resources: []string{"managedclusteraddons"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{ocm.AddOnVersion.Group}, Resources: []string{"managedclusteraddons/status"}, Verbs: []string{"patch", "update"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "patch", "update"}},
		}},
		&rbacv1.RoleBinding{TypeMeta: kind("rbac.authorization.k8s.io/v1", "RoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: registration.Account, Namespace: c.Name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: registration.Account}, Subjects: agent},
		&rbacv1.ClusterRole{TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{"managedclusters"}, ResourceNames: []string{c.Name}, Verbs: []string{"get"}},
			{APIGroups: []string{group}, Resources: []string{"managedclusters/status"}, ResourceNames: []string{c.Name}, Verbs: []string{"patch", "update"}},
			// it may create requests but not read them: other clusters have requests there, too
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRoleBinding{TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: agent},
		&ocm.ManagedCluster{TypeMeta: kind(ocm.ClusterVersion.String(), "ManagedCluster"),
			ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}, Spec: ocm.ManagedClusterSpec{HubAcceptsClient: true}},
	}
	var objects []*unstructured.Unstructured
	for _, o := range typed {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		delete(content, "status")
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

func kind(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}
