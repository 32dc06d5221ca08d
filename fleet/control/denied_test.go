package control_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/carry"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/fleet/seal"
)

// tolerant selects all clusters, whatever their taints.
const tolerant = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: default}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: tolerant, namespace: default}
spec: {tolerations: [{operator: Exists}]}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: rome}
spec: {hubAcceptsClient: true}
`

// membership is what the hub does for oslo as a member, observed.
type membership struct {
	*grid
	agent dynamic.Interface // with the rights of oslo's agent
}

// accepts changes whether the hub accepts oslo.
func (m *membership) accepts(yes bool) {
	m.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%v}}`, yes))
	m.must(m.client.Patch(m.Context(), &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "oslo"}}, patch))
}

// isMember waits until the hub treats oslo as a member, or as none.
func (m *membership) isMember(yes bool) {
	m.Helper()
	m.eventually("the agent reads its works", func() string {
		_, err := m.agent.Resource(ocm.WorkVersion.WithResource("manifestworks")).Namespace("oslo").List(m.Context(), metav1.ListOptions{})
		if yes && err != nil || !yes && !apierrors.IsForbidden(err) {
			return fmt.Sprintf("want %v: %v", yes, err)
		}
		return ""
	})
	m.eventually("the taint", func() string {
		var c ocm.ManagedCluster
		m.must(m.client.Get(m.Context(), types.NamespacedName{Name: "oslo"}, &c))
		if tainted := len(c.Spec.Taints) == 1 && c.Spec.Taints[0].Effect == ocm.NoSelect; tainted == yes {
			return fmt.Sprintf("want none %v: %+v", yes, c.Spec.Taints)
		}
		return ""
	})
	m.eventually("a placement that tolerates all taints", func() string {
		var list ocm.List[ocm.PlacementDecision]
		m.must(m.client.List(m.Context(), &list, client.MatchingLabels{ocm.PlacementLabel: "tolerant"}))
		if got := fmt.Sprint(list.Items); !strings.Contains(got, "rome") || strings.Contains(got, "{oslo") != yes {
			return fmt.Sprintf("want oslo %v: %s", yes, got)
		}
		return ""
	})
	m.eventually("the rights of an add-on's agent", func() string {
		_, err := m.hub().RbacV1().RoleBindings("oslo").Get(m.Context(), "open-cluster-management:guard:clusterrole:agent", metav1.GetOptions{})
		if yes && err != nil || !yes && !apierrors.IsNotFound(err) {
			return fmt.Sprintf("want %v: %v", yes, err)
		}
		return ""
	})
}

// asks makes a request for a certificate that no registration allows: a hub that looks at it denies it.
func (m *membership) asks(cluster string) {
	m.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.must(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "guard"}}, key)
	m.must(err)
	_, err = m.hub().CertificatesV1().CertificateSigningRequests().Create(m.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "of-" + cluster, Labels: map[string]string{ocm.ClusterLabel: cluster, ocm.AddOnLabel: "guard"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "example.com/other", Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	m.must(err)
}

func (m *membership) isAnswered(cluster string) string {
	for _, r := range m.requests() {
		if r.Name == "of-"+cluster && len(r.Status.Conditions) > 0 {
			return ""
		}
	}
	return "the request has no answer"
}

// sealed reports why a work that a user made does not have the hub's seal for its content.
func (m *membership) sealed(cluster string) string {
	var work ocm.ManifestWork
	m.must(m.client.Get(m.Context(), types.NamespacedName{Namespace: cluster, Name: "mine"}, &work))
	digest, err := seal.Digest(work.Spec)
	m.must(err)
	if had, err := seal.Read(work.Annotations[seal.Annotation]); err != nil || had.Digest != digest {
		return fmt.Sprintf("the work has %+v, %v", had, err)
	}
	return ""
}

// TestDeniedClusterIsLockedOut denies a member, and accepts it again.
func TestDeniedClusterIsLockedOut(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo")
	agent, err := dynamic.NewForConfig(g.agents["oslo"])
	g.must(err)
	m := &membership{g, agent}
	_, err = g.hub().RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{ocm.AddOnVersion.Group}, Resources: []string{"managedclusteraddons"}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	g.must(err)
	simple, rest, _ := strings.Cut(fmt.Sprintf(registered, "guard", "north"), "      - {type: SingleNamespace")
	g.apply(tolerant + "---" + simple + "---" + rest[strings.Index(rest, "---")+3:])
	for _, cluster := range []string{"rome", "oslo"} {
		g.eventually("the namespace of "+cluster, func() string {
			o := strings.Replace(fmt.Sprintf(aWork, "one"), "namespace: oslo", "namespace: "+cluster, 1)
			if _, err := g.hub().CoreV1().Namespaces().Get(t.Context(), cluster, metav1.GetOptions{}); err != nil {
				return err.Error()
			}
			g.apply(on("guard", cluster, "") + "---" + o)
			return ""
		})
	}
	m.isMember(true)
	g.eventually("the work arrives", func() string { return g.verified(seal.Accepted, "one") })

	t.Log("denied")
	m.accepts(false)
	m.isMember(false)
	g.apply(fmt.Sprintf(aWork, "two"))
	g.apply(strings.Replace(fmt.Sprintf(aWork, "two"), "namespace: oslo", "namespace: rome", 1))
	m.asks("oslo")
	m.asks("rome")
	g.eventually("works of rome are signed", func() string { return m.sealed("rome") })
	g.eventually("requests of rome are answered", func() string { return m.isAnswered("rome") })
	if m.sealed("oslo") == "" || m.isAnswered("oslo") == "" {
		t.Error("the hub has signed a work for a cluster that it does not accept, or answered a request")
	}
	l, err := ledger.Open(g.kube, hub.DefaultNamespace)
	g.must(err)
	packer := carry.Hub{Client: g.client, Ledger: l, Now: time.Now}
	if _, err := packer.Pack(t.Context(), carry.Pack{Cluster: "oslo", Plan: true}); err == nil || !strings.Contains(err.Error(), "the hub does not accept cluster oslo") {
		t.Errorf("a parcel for it: %v", err)
	}

	t.Log("accepted again, and joined again")
	m.accepts(true)
	g.eventually("the work is signed", func() string { return m.sealed("oslo") })
	_, err = join.Hub(t.Context(), g.kube, join.Cluster{Name: "oslo", Labels: map[string]string{"name": "oslo"}})
	g.must(err)
	if _, err := g.hub().RbacV1().RoleBindings("oslo").Get(t.Context(), registration.Account, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	m.isMember(true)
	g.eventually("the work arrives", func() string { return g.verified(seal.Accepted, "two") })
	g.eventually("requests are answered", func() string { return m.isAnswered("oslo") })
}
