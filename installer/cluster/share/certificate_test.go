package share

import (
	"crypto/x509"
	"strings"
	"testing"
)

func TestClockSkewIsReported(t *testing.T) {
	for err, want := range map[error]string{
		x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}: "timedatectl",
		x509.UnknownAuthorityError{}: "sealift token create",
	} {
		if got := (&CAError{Address: "10.0.0.1:6445", Err: err}).Error(); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
