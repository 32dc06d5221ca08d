package hub

import (
	"testing"
	"time"
)

// TestCertificateBeginsWithItsAuthority: the authority is older, or its clock was ahead when it was asked.
func TestCertificateBeginsWithItsAuthority(t *testing.T) {
	data, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	a, err := parseAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	a.cert.NotBefore = a.cert.NotBefore.Add(-24 * time.Hour)
	made, err := (&issuer{authority: a, names: []string{"hub.example.com"}}).certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !made.Leaf.NotBefore.Equal(a.cert.NotBefore) || time.Until(made.Leaf.NotAfter) < certRenewal {
		t.Errorf("it is valid from %s to %s, and its authority from %s", made.Leaf.NotBefore, made.Leaf.NotAfter, a.cert.NotBefore)
	}
}
