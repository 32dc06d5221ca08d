package pki

import (
	"crypto/x509"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// TestAPIServerNamesAreAddedAndRemoved only in its certificate. The others of a control plane are not changed.
func TestAPIServerNamesAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	h := host{files.Host{Rootfs: strings.TrimSuffix(kubeadm.Copy(t), "/etc/kubernetes")}}
	certificate := func() *x509.Certificate {
		t.Helper()
		text, err := os.ReadFile(h.Path(serverCertificate))
		if err != nil {
			t.Fatal(err)
		}
		c, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now, before := time.Now(), certificate()
	for _, row := range []struct {
		add, drop string
		issues    int
		names     []string // that it has in addition to the old ones
	}{
		{"api.example.com", "", 1, []string{"api.example.com"}},
		{"api.example.com", "", 0, []string{"api.example.com"}},
		{"10.0.0.9", "api.example.com", 1, []string{"10.0.0.9"}},
		{"fd00::9", "other.example.com", 1, []string{"10.0.0.9", "fd00::9"}},
		{"", "fd00:0::9", 1, []string{"10.0.0.9"}},
		{"", "10.0.0.9", 1, nil},
		{"", "", 0, nil},
		{kubeadm.Address, "", 0, nil},
	} {
		r, err := NewServerNames(h.Rootfs, row.add, row.drop, now)
		if err == nil {
			err = r.Issue(now)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Files(); len(got) != row.issues || row.issues > 0 && got[0] != serverCertificate {
			t.Errorf("+%s -%s issues %v", row.add, row.drop, got)
		}
		c := certificate()
		if len(c.DNSNames)+len(c.IPAddresses) != len(before.DNSNames)+len(before.IPAddresses)+len(row.names) ||
			slices.ContainsFunc(append(row.names, kubeadm.Address, "kubernetes"), func(name string) bool { return c.VerifyHostname(name) != nil }) {
			t.Errorf("+%s -%s: it is for %v and %v", row.add, row.drop, c.DNSNames, c.IPAddresses)
		}
	}
}
