package identity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"
	"time"
)

func TestCertificatesAreReplacedInTime(t *testing.T) {
	made := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	leaf := &x509.Certificate{NotBefore: made.Add(-lateness), NotAfter: made.Add(validity)}
	for name, row := range map[string]struct {
		after time.Duration
		want  bool
	}{
		"at once":                           {0, false},
		"before its last days":              {validity - renewal - time.Minute, false},
		"in its last days":                  {validity - renewal + time.Minute, true},
		"years later":                       {10 * 365 * 24 * time.Hour, true},
		"the clock was set back by minutes": {-5 * time.Minute, false},
		"the clock was set back by a day":   {-24 * time.Hour, true},
	} {
		if got := stale(leaf, made.Add(row.after)); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestSinceIsWhenACertificateWasSigned counts the hour by which a control plane dates its own certificate back.
func TestSinceIsWhenACertificateWasSigned(t *testing.T) {
	signed := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	own := &x509.Certificate{NotBefore: signed.Add(-lateness), Subject: pkix.Name{CommonName: controlPlaneUser + "host-1"}, UnknownExtKeyUsage: []asn1.ObjectIdentifier{controlPlaneUsage}}
	kubelet := &x509.Certificate{NotBefore: signed, Subject: pkix.Name{CommonName: NodeUser + "host-1", Organization: []string{NodeGroup}}}
	for _, one := range []*x509.Certificate{own, kubelet} {
		if got := Since(one); !got.Equal(signed) {
			t.Errorf("%s: %s", one.Subject, got)
		}
	}
}
