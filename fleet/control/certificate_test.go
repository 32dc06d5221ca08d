package control_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/hub"
)

// registered is an add-on whose agent has rights on the hub, and a certificate of its own signer.
const registered = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: guard}
spec:
  addonName: guard
  agentSpec:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: guard, namespace: default}}
  registration:
  - type: KubeClient
    kubeClient:
      hubPermissions:
      - {type: CurrentCluster, currentCluster: {clusterRoleName: %[1]s}}
      - {type: SingleNamespace, singleNamespace: {namespace: shared, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}}
  - type: CustomSigner
    customSigner:
      signerName: example.com/guard
      signingCA: {name: guard-ca}
      subject: {user: guard, groups: [guards], organizationUnit: [%[2]s]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: guard}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: guard}}
`

// authority makes the Secret of a signer.
func (g *grid) authority(name string) {
	g.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	g.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	g.must(err)
	_, err = g.hub().CoreV1().Secrets(hub.DefaultNamespace).Create(g.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		},
	}, metav1.CreateOptions{})
	g.must(err)
}

// hub is the administrator of the hub.
func (g *grid) hub() kubernetes.Interface {
	g.Helper()
	c, err := kubernetes.NewForConfig(g.cfg)
	g.must(err)
	return c
}

// registration shows who an add-on's agent is on the hub: its rights, its certificates, and those that it does not get.
func (g *grid) registration() {
	admin := g.hub()
	for _, ns := range []string{"shared"} {
		_, err := admin.CoreV1().Namespaces().Create(g.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		g.must(err)
	}
	reads := []rbacv1.PolicyRule{
		{APIGroups: []string{"addon.open-cluster-management.io"}, Resources: []string{"managedclusteraddons"}, Verbs: []string{"get"}},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"rolebindings"}, Verbs: []string{"get"}},
	}
	_, err := admin.RbacV1().ClusterRoles().Create(g.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Rules: reads}, metav1.CreateOptions{})
	g.must(err)
	_, err = admin.RbacV1().Roles("shared").Create(g.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: reads}, metav1.CreateOptions{})
	g.must(err)

	g.apply(fmt.Sprintf(registered, "cluster-admin", "north") + "---" + on("guard", "oslo", "") + "---" + on("guard", "rome", ""))
	g.says("oslo", "guard", "RegistrationApplied", "False/SetPermissionFailed", `signer example.com/guard: secrets "guard-ca" not found`)
	g.authority("guard-ca")
	g.apply(fmt.Sprintf(registered, "cluster-admin", "south")) // whose hash is another one
	g.says("oslo", "guard", "RegistrationApplied", "False/SetPermissionFailed", "the hub can grant only rights that it has itself")
	older := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:guard:role:agent:older", Labels: map[string]string{"open-cluster-management.io/addon-name": "guard", "open-cluster-management.io/addon-template-name": ""}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:open-cluster-management:cluster:oslo:addon:guard"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:open-cluster-management:addon:guard"},
		},
	}
	_, err = admin.RbacV1().RoleBindings("rome").Create(g.Context(), older, metav1.CreateOptions{})
	g.must(err)
	g.apply(strings.Replace(fmt.Sprintf(registered, "guard", "east"), "namespace: shared", "namespace: rome", 1))
	g.says("oslo", "guard", "RegistrationApplied", "False/SetPermissionFailed", "singleNamespace.namespace is rome, the namespace of a cluster")
	for namespace, name := range map[string]string{"rome": older.Name, "shared": "open-cluster-management:guard:role:agent"} {
		g.eventually("what was bound in "+namespace+" is gone, also what an older hub bound", func() string {
			if b, err := admin.RbacV1().RoleBindings(namespace).Get(g.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Sprint(b.Subjects, err)
			}
			return ""
		})
	}
	theirs := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:guard:role:agent"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"}}
	_, err = admin.RbacV1().RoleBindings("shared").Create(g.Context(), theirs, metav1.CreateOptions{})
	g.must(err)
	g.apply(fmt.Sprintf(registered, "guard", "west"))
	g.says("oslo", "guard", "RegistrationApplied", "False/SetPermissionFailed", "in namespace shared was not created by a hub")
	g.must(admin.RbacV1().RoleBindings("shared").Delete(g.Context(), theirs.Name, metav1.DeleteOptions{}))
	g.apply(fmt.Sprintf(registered, "guard", "south"))
	g.eventually("it is registered", func() string { return g.has("oslo", "guard", "RegistrationApplied", "True/SetPermissionApplied") })
	g.eventually("both clusters share a binding", func() string {
		b, err := admin.RbacV1().RoleBindings("shared").Get(g.Context(), "open-cluster-management:guard:role:agent", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if len(b.Subjects) != 4 {
			return fmt.Sprint(b.Subjects)
		}
		return ""
	})

	g.certificates()
	g.refusals()
	rome := g.boundaries()
	g.twoRoles(admin)

	g.uninstall("guard", "rome")
	g.eventually("rome has left the shared binding", func() string {
		b, err := admin.RbacV1().RoleBindings("shared").Get(g.Context(), "open-cluster-management:guard:role:agent", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if len(b.Subjects) != 2 {
			return fmt.Sprint(b.Subjects)
		}
		return ""
	})
	g.eventually("the agent of an add-on that rome has lost reads no more", func() string { // an API server follows bindings a moment later
		if _, err := rome.RbacV1().RoleBindings("shared").Get(g.Context(), "x", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Sprint("it reads on: ", err)
		}
		return ""
	})
	g.uninstall("guard", "oslo")
	g.eventually("the shared binding is gone", func() string {
		if _, err := admin.RbacV1().RoleBindings("shared").Get(g.Context(), "open-cluster-management:guard:role:agent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
	g.eventually("oslo has no identity of it", func() string {
		list, err := g.local("oslo").CoreV1().Secrets("").List(g.Context(), metav1.ListOptions{LabelSelector: "fleet.sealift.dev/identity-of=guard"})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprint(len(list.Items), " Secrets are left, ", err)
		}
		return ""
	})
}

// twoRoles gives oslo another template, whose agent has another role in the shared namespace. Both agents keep their roles.
func (g *grid) twoRoles(admin kubernetes.Interface) {
	reads, err := admin.RbacV1().Roles("shared").Get(g.Context(), "reader", metav1.GetOptions{})
	g.must(err)
	_, err = admin.RbacV1().Roles("shared").Create(g.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Rules: reads.Rules}, metav1.CreateOptions{})
	g.must(err)
	next := strings.Replace(strings.Split(fmt.Sprintf(registered, "guard", "south"), "---")[0], "metadata: {name: guard}", "metadata: {name: guard-next}", 1)
	mine := strings.Replace(on("guard", "oslo", ""), "spec: {}", "spec: {configs: [{group: addon.open-cluster-management.io, resource: addontemplates, name: guard-next}]}", 1)
	g.apply(strings.Replace(next, "name: reader", "name: other", 1) + "---" + mine)
	for name, cluster := range map[string]string{"open-cluster-management:guard:role:agent:other": "oslo", "open-cluster-management:guard:role:agent": "rome"} {
		g.eventually("the role of "+cluster, func() string {
			b, err := admin.RbacV1().RoleBindings("shared").Get(g.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if text := fmt.Sprint(b.Subjects); len(b.Subjects) != 2 || !strings.Contains(text, ":"+cluster+":") {
				return text
			}
			return ""
		})
	}
	g.apply(strings.Replace(mine, "spec: {configs: [{group: addon.open-cluster-management.io, resource: addontemplates, name: guard-next}]}", "spec: {configs: []}", 1))
	g.eventually("both clusters share a binding again", func() string {
		list, err := admin.RbacV1().RoleBindings("shared").List(g.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 || len(list.Items[0].Subjects) != 4 {
			return fmt.Sprint(list.Items)
		}
		return ""
	})
}

// local is the administrator of a cluster.
func (g *grid) local(cluster string) kubernetes.Interface {
	g.Helper()
	c, err := kubernetes.NewForConfig(g.configs[cluster])
	g.must(err)
	return c
}

// boundaries uses the certificates of the add-on's agents on both clusters: each reads the namespace of its own cluster and the
// shared one, and is refused in the other cluster's. It returns rome's agent.
func (g *grid) boundaries() (rome kubernetes.Interface) {
	for cluster, other := range map[string]string{"oslo": "rome", "rome": "oslo"} {
		var client kubernetes.Interface
		g.eventually("the agent on "+cluster+" has its certificate", func() string {
			secret, err := g.local(cluster).CoreV1().Secrets("open-cluster-management-agent-addon").Get(g.Context(), "guard-hub-kubeconfig", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			client, err = kubernetes.NewForConfig(&rest.Config{Host: g.cfg.Host, TLSClientConfig: rest.TLSClientConfig{
				CAData: g.cfg.CAData, CertData: secret.Data["tls.crt"], KeyData: secret.Data["tls.key"],
			}})
			g.must(err)
			return ""
		})
		read := func(namespace string) error {
			_, err := client.RbacV1().RoleBindings(namespace).Get(g.Context(), "x", metav1.GetOptions{})
			return err
		}
		for _, mine := range []string{cluster, "shared"} {
			g.eventually("the agent on "+cluster+" reads in "+mine, func() string {
				if err := read(mine); !apierrors.IsNotFound(err) {
					return fmt.Sprint(err)
				}
				return ""
			})
		}
		if err := read(other); !apierrors.IsForbidden(err) {
			g.Errorf("the agent on %s reads in the namespace of %s: %v", cluster, other, err)
		}
		if cluster == "rome" {
			rome = client
		}
	}
	return rome
}

// certificates shows that the agent of the cluster gets them for the agent of the add-on.
func (g *grid) certificates() {
	g.eventually("the custom signer's certificate is on the cluster", func() string {
		secret, err := g.local("oslo").CoreV1().Secrets("open-cluster-management-agent-addon").Get(g.Context(), "guard-example.com-guard-client-cert", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		block, _ := pem.Decode(secret.Data["tls.crt"])
		cert, err := x509.ParseCertificate(block.Bytes)
		g.must(err)
		// the first one may belong to the previous template, which names the west
		if s := cert.Subject; s.CommonName != "guard" || !slices.Equal(s.Organization, []string{"guards"}) || !slices.Equal(s.OrganizationalUnit, []string{"south"}) || cert.Issuer.CommonName != "guard-ca" {
			return fmt.Sprintf("it is that of %s, by %s", s, cert.Issuer)
		}
		return ""
	})
	g.eventually("the request to the API server's signer is approved", func() string {
		for _, r := range g.requests() {
			if r.Spec.SignerName == "kubernetes.io/kube-apiserver-client" && r.Labels["open-cluster-management.io/cluster-name"] == "oslo" && len(r.Status.Conditions) == 1 && r.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
				return ""
			}
		}
		return "it is not"
	})
}

func (g *grid) requests() []certificatesv1.CertificateSigningRequest {
	g.Helper()
	list, err := g.hub().CertificatesV1().CertificateSigningRequests().List(g.Context(), metav1.ListOptions{LabelSelector: "open-cluster-management.io/addon-name=guard"})
	g.must(err)
	return list.Items
}

// refusals shows that rome's agent gets no certificate of oslo, and none of another signer.
func (g *grid) refusals() {
	rome, err := kubernetes.NewForConfig(rest.CopyConfig(g.agents["rome"]))
	g.must(err)
	if _, err := rome.CertificatesV1().CertificateSigningRequests().List(g.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		g.Errorf("rome reads the requests of all clusters: %v", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.must(err)
	for name, tt := range map[string]struct {
		cluster, signer string
		subject         pkix.Name
		want            string
	}{
		"of-oslo":     {"oslo", "example.com/guard", pkix.Name{CommonName: "guard", Organization: []string{"guards"}, OrganizationalUnit: []string{"south"}}, "which is not the agent of cluster oslo"},
		"of-masters":  {"rome", "example.com/guard", pkix.Name{CommonName: "guard", Organization: []string{"system:masters"}, OrganizationalUnit: []string{"south"}}, "its organizations are"},
		"of-somebody": {"rome", "example.com/other", pkix.Name{CommonName: "guard"}, `has no registration with signer "example.com/other"`},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: tt.subject}, key)
		g.must(err)
		_, err = rome.CertificatesV1().CertificateSigningRequests().Create(g.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"open-cluster-management.io/cluster-name": tt.cluster, "open-cluster-management.io/addon-name": "guard"}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: tt.signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			},
		}, metav1.CreateOptions{})
		g.must(err)
		g.eventually("request "+name+" is denied", func() string {
			for _, r := range g.requests() {
				for _, c := range r.Status.Conditions {
					if r.Name == name && c.Type == certificatesv1.CertificateDenied && strings.Contains(c.Message, tt.want) {
						return ""
					}
					if r.Name == name {
						return fmt.Sprint(c)
					}
				}
			}
			return "it has no answer"
		})
	}
}
