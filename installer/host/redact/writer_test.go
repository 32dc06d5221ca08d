package redact_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/redact"
)

// TestWriterMasksSplitSecrets cuts a text at every place.
func TestWriterMasksSplitSecrets(t *testing.T) {
	t.Parallel()
	const text = "kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef\nall is well\n-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\npassword: hunter22\nthe end"
	var want bytes.Buffer
	if err := redact.New().Copy(&want, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"abcdef.0123456789abcdef", "MIIEow", "hunter22"} {
		if strings.Contains(want.String(), secret) {
			t.Errorf("%s is in %s", secret, want.String())
		}
	}
	for at := range text {
		var got bytes.Buffer
		w := redact.New().Writer(&got)
		for _, part := range []string{text[:at], text[at:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil || got.String() != want.String() {
			t.Fatalf("cut at %d: %v\n%s\nwant\n%s", at, err, got.String(), want.String())
		}
	}
}

func TestKnownSecretsAreMaskedAnywhere(t *testing.T) {
	t.Parallel()
	d := redact.New()
	d.Hide("Tr0ub4dor&3", "Tr0ub4dor&3-longer", "first line\nsecond line", "abc", "")
	encoded := base64.StdEncoding.EncodeToString([]byte("Tr0ub4dor&3"))
	var out bytes.Buffer
	const harmless = "abc and other words\n"
	if err := d.Copy(&out, strings.NewReader("echo Tr0ub4dor&3-longer, Tr0ub4dor&3\ndata: "+encoded+"\nxsecond liney\n"+harmless)); err != nil {
		t.Fatal(err)
	}
	const want = "echo " + redact.Mask + ", " + redact.Mask + "\ndata: " + redact.Mask + "\nx" + redact.Mask + "y\n" + harmless
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestNamesOfSecrets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"adminPassword": true, "CERT_KEY": true, "authToken": true, "secretAccessKey": true, "KOTSADM_PASSWORD": true,
		"smtpPass": true, "dbpass": true, "pass": true, "PGPASS": true, "license": true, "licenceKey": true,
		"secretName": false, "tokenTTL": false, "passed": false, "version": false, "serviceCIDR": false, "keyboard": false, "passwordLength": false} {
		if redact.IsSecretName(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

// TestNamesOfSecretsAreOneSet has names by which values are masked: they are left out of what leaves a node, too.
func TestNamesOfSecretsAreOneSet(t *testing.T) {
	options := map[string]any{"secretName": "tls", "licenseServer": "a", "version": "1"}
	for _, name := range []string{"pass", "smtpPass", "license", "vpnPsk", "encryptionKey", "sessionCookie", "db_pwd", "client-key-data", "authorization"} {
		options[name] = "PEARL"
		if !redact.IsSecretName(name) {
			t.Errorf("%s is no secret", name)
		}
	}
	if kept := redact.WithoutSecrets(options, nil).(map[string]any); len(kept) != 1 || kept["version"] != "1" {
		t.Errorf("kept %v", kept)
	}
}

// TestShortValuesAreNotHidden uses a user of a database whose password is a word that every log of kURL has.
func TestShortValuesAreNotHidden(t *testing.T) {
	d := redact.New()
	d.Hide("kurl", "admin12", "kurl-kurl")
	var out strings.Builder
	if err := d.Copy(&out, strings.NewReader("kurl: admin12 runs kurl-kurl, not kurl\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "kurl: admin12 runs "+redact.Mask+", not kurl\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
