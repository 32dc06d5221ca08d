package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestOnlyCACertificatesAreAccepted(t *testing.T) {
	one, two, leaf := fixture.Certificate(t, "one", true), fixture.Certificate(t, "two", true), fixture.Certificate(t, "leaf", false)
	for name, row := range map[string]struct {
		text, wrong string
		count       int
	}{
		"one":                      {one, "", 1},
		"several, with text":       {"# of the proxy\n" + one + "\n# of the registry\n" + two, "", 2},
		"nothing":                  {"", "are not CA certificates", 0},
		"what is none":             {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1: ", 0},
		"one of a server":          {one + leaf, "certificate 2, of CN=leaf, is not a CA certificate", 0},
		"a key":                    {"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", "has a EC PRIVATE KEY", 0},
		"one that is cut off":      {one + two[:100], "are not CA certificates", 0},
		"what a shell would run":   {"$(touch /tmp/owned)", "are not CA certificates", 0},
		"a certificate, then text": {one + "and so on", "are not CA certificates", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(row.text))
			if len(got) != row.count || (err == nil) != (row.wrong == "") || err != nil && !strings.Contains(err.Error(), row.wrong) {
				t.Errorf("%d certificates, %v", len(got), err)
			}
		})
	}
}

func TestCAsCompareByValue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := fixture.Certificate(t, "one", true)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if all.Text() != text || all.TLS() == nil || len(all.Environment()) != 1 || os.Getenv("SSL_CERT_FILE") == file {
		t.Errorf("text %q, TLS %v, environment %v", all.Text(), all.TLS(), all.Environment())
	}
	if none := (CAs{}); none.Text() != "" || none.TLS() != nil || none.Environment() != nil {
		t.Error("the zero value is not that of the system alone")
	}
}
