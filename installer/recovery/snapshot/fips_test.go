package snapshot

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestFIPSModeRefusesToEncrypt also checks that earlier snapshots can be read.
func TestFIPSModeRefusesToEncrypt(t *testing.T) {
	fixture.InFIPSMode(t, func(t *testing.T) {
		_, ofKey := Recipients("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p")
		_, ofPassphrase := Lock([]byte("open sesame"))
		_, _, ofNew := GenerateKey()
		for what, err := range map[string]error{"a key": ofKey, "a passphrase": ofPassphrase, "a new key": ofNew} {
			if err == nil || !strings.Contains(err.Error(), "X25519, scrypt and ChaCha20-Poly1305, which FIPS 140-3 does not approve") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := Unlock([]byte("open sesame")); err != nil {
			t.Errorf("an earlier snapshot: %v", err)
		}
	})
}
