package registration_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
)

func block(kind string, der []byte, err error) []byte {
	if err != nil {
		panic(err) // keys of this test
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// request requests a certificate of hello's agent on rome, with a change.
func request(t *testing.T, change func(*x509.CertificateRequest, *registration.Request)) registration.Request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	identity := hello()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: identity.Subject.User, Organization: identity.Subject.Groups}}
	r := registration.Request{
		Signer: registration.KubeSigner, Username: "system:serviceaccount:rome:sealift-fleet-agent", Usages: []string{"digital signature", "client auth"},
	}
	change(template, &r)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if r.PEM == nil {
		r.PEM = block("CERTIFICATE REQUEST", der, err)
	}
	return r
}

func hello() ocm.RegistrationInfo {
	return registration.Identities("rome", "hello", []ocm.Registration{{Type: ocm.KubeClient}})[0]
}

func TestVerify(t *testing.T) {
	for want, change := range map[string]func(*x509.CertificateRequest, *registration.Request){
		"": func(*x509.CertificateRequest, *registration.Request) {},
		"requester is \"system:serviceaccount:oslo:sealift-fleet-agent\", which is not the agent of cluster rome": func(_ *x509.CertificateRequest, r *registration.Request) {
			r.Username = "system:serviceaccount:oslo:sealift-fleet-agent"
		},
		// upstream compares the beginning of the name only
		"requester is \"system:open-cluster-management:rome2\"": func(_ *x509.CertificateRequest, r *registration.Request) {
			r.Username = "system:open-cluster-management:rome2"
		},
		"requester is \"system:open-cluster-management:rome:x:y\"": func(_ *x509.CertificateRequest, r *registration.Request) {
			r.Username = "system:open-cluster-management:rome:x:y" // of a cluster named "cluster", an agent of an add-on anywhere
		},
		"its signer is \"example.com/x\"": func(_ *x509.CertificateRequest, r *registration.Request) { r.Signer = "example.com/x" },
		"common name is \"system:admin\"": func(c *x509.CertificateRequest, _ *registration.Request) { c.Subject.CommonName = "system:admin" },
		"organizations are": func(c *x509.CertificateRequest, _ *registration.Request) {
			c.Subject.Organization = append(c.Subject.Organization, "system:masters")
		},
		"organizational units are [\"x\"]": func(c *x509.CertificateRequest, _ *registration.Request) {
			c.Subject.OrganizationalUnit = []string{"x"}
		},
		"its subject has more": func(c *x509.CertificateRequest, _ *registration.Request) { c.Subject.Country = []string{"IT"} },
		"alternative names":    func(c *x509.CertificateRequest, _ *registration.Request) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} },
		"usages have \"server auth\"": func(_ *x509.CertificateRequest, r *registration.Request) {
			r.Usages = append(r.Usages, "server auth")
		},
		"usages lack client auth": func(_ *x509.CertificateRequest, r *registration.Request) { r.Usages = r.Usages[:1] },
		"not a PEM block":         func(_ *x509.CertificateRequest, r *registration.Request) { r.PEM = []byte("hello") },
		"it cannot be read": func(_ *x509.CertificateRequest, r *registration.Request) {
			r.PEM = block("CERTIFICATE REQUEST", []byte("hello"), nil)
		},
	} {
		err := request(t, change).Verify("rome", hello())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// authority makes an authority. Its key is in one of the formats.
func authority(t *testing.T, format string, change func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
	}
	change(template)
	if format == "RSA PRIVATE KEY" {
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
		return block("CERTIFICATE", der, err), block(format, x509.MarshalPKCS1PrivateKey(private), nil)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	cert = block("CERTIFICATE", der, err)
	if format == "PRIVATE KEY" {
		der, err = x509.MarshalPKCS8PrivateKey(private)
	} else {
		der, err = x509.MarshalECPrivateKey(private)
	}
	return cert, block(format, der, err)
}

func TestSign(t *testing.T) {
	now := time.Now()
	r := request(t, func(c *x509.CertificateRequest, _ *registration.Request) { c.DNSNames = []string{"hello.example.com"} })
	for _, format := range []string{"RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"} {
		cert, key := authority(t, format, func(*x509.Certificate) {})
		a, err := registration.ParseAuthority(cert, key, now)
		if err != nil {
			t.Fatal(format, err)
		}
		signed, err := a.Sign(r, now, registration.Validity)
		if err != nil {
			t.Fatal(format, err)
		}
		b, _ := pem.Decode(signed)
		got, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(cert)
		if _, err := got.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Error(format, err)
		}
		if _, err := got.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil || got.IsCA {
			t.Error(format, "the certificate is good for more than clients")
		}
		if got.Subject.CommonName != hello().Subject.User || got.NotAfter.After(time.Now().Add(time.Hour)) {
			t.Errorf("%s: %s until %s, which is after its authority", format, got.Subject, got.NotAfter)
		}
	}
	cert, key := authority(t, "PRIVATE KEY", func(*x509.Certificate) {})
	other, otherKey := authority(t, "PRIVATE KEY", func(c *x509.Certificate) { c.IsCA = false })
	old, oldKey := authority(t, "PRIVATE KEY", func(c *x509.Certificate) { c.NotAfter = time.Unix(1000, 0) })
	for want, pair := range map[string][2][]byte{
		"tls.crt has no certificate":                    {key, key},
		"tls.key: it has no private key":                {cert, nil},
		"tls.key: its block \"PRIVATE KEY\" is damaged": {cert, block("PRIVATE KEY", []byte("x"), nil)},
		"tls.key is not the key of tls.crt":             {cert, otherKey},
		"tls.crt is not a certificate authority":        {other, otherKey},
		"tls.crt expired at 1970-01-01T00:16:40Z":       {old, oldKey},
	} {
		if _, err := registration.ParseAuthority(pair[0], pair[1], now.UTC()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTemplateCannotUseKubernetesSigner shows that a template cannot ask the hub for an administrator's certificate.
func TestTemplateCannotUseKubernetesSigner(t *testing.T) {
	for signer, ok := range map[string]bool{"example.com/x": true, "kubernetes.io/kube-apiserver-client": false, "x.k8s.io/y": false, "a.kubernetes.io/z": false} {
		err := registration.Check([]ocm.Registration{{Type: ocm.CustomSigner, CustomSigner: &ocm.CustomSignerSpec{SignerName: signer}}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", signer, err)
		}
	}
}

func TestHubPermissionsBecomeBindings(t *testing.T) {
	a := &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "rome"}}
	permission := func(p ...ocm.HubPermission) []ocm.Registration {
		return []ocm.Registration{{Type: ocm.KubeClient, KubeClient: ocm.KubeClientSpec{HubPermissions: p}}}
	}
	role := func(name string) ocm.HubPermission {
		return ocm.HubPermission{Type: ocm.CurrentCluster, CurrentCluster: &ocm.CurrentClusterRole{ClusterRoleName: name}}
	}
	got, err := registration.Bindings(a, permission(role("a"), role("b")), []ocm.RegistrationInfo{hello()})
	if err != nil || len(got) != 2 || got[0].Name == got[1].Name || got[1].RoleRef.Name != "b" {
		t.Errorf("%+v %v", got, err)
	}
	for want, p := range map[string]ocm.HubPermission{
		"a permission of type CurrentCluster has no member currentCluster":                 {Type: ocm.CurrentCluster},
		"a permission of type SingleNamespace has no member singleNamespace":               {Type: ocm.SingleNamespace},
		`a permission has type "All", which is neither CurrentCluster nor SingleNamespace`: {Type: "All"},
	} {
		if _, err := registration.Bindings(a, permission(p), nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestClustersShareBinding has the agents of two clusters in one binding. An older hub has bound the group of both.
func TestClustersShareBinding(t *testing.T) {
	subjects := func(cluster string) []rbacv1.Subject {
		a := &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: cluster}}
		wanted := []ocm.Registration{{Type: ocm.KubeClient, KubeClient: ocm.KubeClientSpec{HubPermissions: []ocm.HubPermission{
			{Type: ocm.SingleNamespace, SingleNamespace: &ocm.SingleNamespaceRole{Namespace: "shared"}},
		}}}}
		list, err := registration.Bindings(a, wanted, registration.Identities(cluster, "hello", wanted))
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Subjects
	}
	everybody := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:open-cluster-management:addon:hello"}
	both := registration.Join(append(subjects("rome"), everybody), subjects("rome2"), "hello")
	if len(both) != 4 || strings.Contains(text(t, both), everybody.Name+`"`) { // a user and a group of each
		t.Fatalf("%v", both)
	}
	left := registration.Leave(both, "rome", "hello")
	if len(left) != 2 || strings.Contains(text(t, left), ":rome:") {
		t.Errorf("%v", left)
	}
	if left = registration.Leave(append(left, everybody), "rome2", "hello"); len(left) != 0 {
		t.Errorf("%v is left of nobody", left)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := registration.Request{Signer: registration.KubeSigner, Username: "system:open-cluster-management:rome", Usages: []string{"client auth"}, PEM: data}
		if r.Verify("rome", hello()) == nil && !strings.Contains(string(data), "CERTIFICATE REQUEST") {
			t.Fatal("something else was accepted")
		}
		_, _ = registration.ParseAuthority(data, data, time.Now())
	})
}
