package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sealift/sealift/installer/cluster/authority"
)

// trusts checks that a client that trusts some CAs, in PEM, takes the certificate of a Secret for a name.
func trusts(secret *corev1.Secret, roots []byte, name string) error {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	o := x509.VerifyOptions{DNSName: name, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	o.Roots.AppendCertsFromPEM(roots)
	for _, der := range pair.Certificate[1:] {
		between, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		o.Intermediates.AddCert(between)
	}
	_, err = pair.Leaf.Verify(o)
	return err
}

// A certificate of a server stays while it fits, and is made again for other names.
func TestServerKeepsFittingCertificate(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	ca, err := os.ReadFile(h.Path("/etc/kubernetes/pki/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	store := Server{Namespace: "a", Secret: "tls", Names: []string{"store.a.svc", "10.96.0.50"}}
	made, err := store.Certificate(h.Rootfs, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range store.Names {
		if err := trusts(made, ca, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := trusts(made, ca, "kubernetes.default.svc"); err == nil {
		t.Error("the certificate is good for the API")
	}
	again, err := store.Certificate(h.Rootfs, made, now.AddDate(5, 0, 0))
	if err != nil || !bytes.Equal(again.Data[corev1.TLSCertKey], made.Data[corev1.TLSCertKey]) || again.Labels[ServingLabel] == "" {
		t.Errorf("a second run made another certificate, or lost the label: %v", err)
	}
	store.Names = append(store.Names, "s3.example.com")
	more, err := store.Certificate(h.Rootfs, made, now)
	if err != nil || trusts(more, ca, "s3.example.com") != nil {
		t.Errorf("with another name: %v", err)
	}
	made.Data[corev1.TLSPrivateKeyKey] = more.Data[corev1.TLSPrivateKeyKey]
	if repaired, err := store.Certificate(h.Rootfs, made, now); err != nil || trusts(repaired, ca, "store.a.svc") != nil {
		t.Errorf("with the key of another certificate: %v", err)
	}
	store.Names = []string{"store.a.svc", "two words"}
	if _, err := store.Certificate(h.Rootfs, nil, now); err == nil || !strings.Contains(err.Error(), `"two words" is not a DNS name`) {
		t.Errorf("a name with a blank: %v", err)
	}
	if _, err := (Server{Names: []string{"a"}}).Certificate(h.Rootfs, nil, now.AddDate(20, 0, 0)); err == nil || !strings.Contains(err.Error(), "CA expired") {
		t.Errorf("after the end of the CA: %v", err)
	}
}

// Clients that trust only the old CA and clients that trust only the new one take a certificate that a rotation renewed.
func TestRotationRenewsServingCertificate(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	store := Server{Namespace: "a", Secret: "tls", Names: []string{"store.a.svc"}}
	made, err := store.Certificate(h.Rootfs, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	state, err := authority.New(h.Rootfs, []string{authority.Cluster}, now)
	if err != nil {
		t.Fatal(err)
	}
	p := state.Parts[0]
	data, changed, err := Renewed(made, p, authority.Sign)
	if err != nil || !changed {
		t.Fatalf("changed %t: %v", changed, err)
	}
	maps.Copy(made.Data, data)
	for which, roots := range map[string]string{"old": p.Old, "new": p.New} {
		if err := trusts(made, []byte(roots), "store.a.svc"); err != nil {
			t.Errorf("with the %s CA: %v", which, err)
		}
	}
	if _, changed, err := Renewed(made, p, authority.Sign); changed || err != nil {
		t.Errorf("a second time: changed %t, %v", changed, err)
	}
	// an install while the rotation is under way keeps it
	for _, stage := range []authority.Stage{authority.Sign, authority.Forget} {
		if _, err := h.exchange(state.In(stage), now); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.Path(authority.File), state.In(stage).Encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		kept, err := store.Certificate(h.Rootfs, made, now)
		if err != nil || !bytes.Equal(kept.Data[corev1.TLSCertKey], made.Data[corev1.TLSCertKey]) {
			t.Errorf("in the stage %s the certificate changed: %v", stage, err)
		}
	}
}
