package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"
)

// TestRenewalKeepsBeginning renews certificates of a CA that is a year old.
func TestRenewalKeepsBeginning(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	made := now.AddDate(-1, 0, 0)
	ca := issuer{&x509.Certificate{NotBefore: made, NotAfter: now.AddDate(9, 0, 0)}, key}
	for why, row := range map[string]struct{ began, begins time.Time }{
		"with its CA":                  {made, made},
		"of a host that joined later":  {made.AddDate(0, 6, 0), made.AddDate(0, 6, 0)},
		"of a CA before":               {made.AddDate(0, -6, 0), made},
		"made while a clock was ahead": {now.AddDate(0, 1, 0), now.Add(-lateness)},
	} {
		der, err := ca.sign(&x509.Certificate{NotBefore: row.began, NotAfter: now.AddDate(0, 1, 0), PublicKey: key.Public()}, now)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x509.ParseCertificate(der); err != nil || !got.NotBefore.Equal(row.begins) || got.NotAfter.Before(now.AddDate(0, 11, 0)) {
			t.Errorf("%s: valid from %s to %s, %v", why, got.NotBefore, got.NotAfter, err)
		}
	}
}
