package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestHostTrustStoreTakesCertificates lets Debian's own program rebuild a store, in a folder.
func TestHostTrustStoreTakesCertificates(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	local, etc := folder("local"), folder("etc")
	s := trustStore{local, ".crt", []string{"update-ca-certificates", "--localcertsdir", local, "--etccertsdir", etc, "--hooksdir", folder("hooks")}}
	one, two := fixture.Certificate(t, "one", true), fixture.Certificate(t, "two", true)
	for _, trusted := range [][]string{{one, two}, {two}, {}} {
		var all [][]byte
		for _, c := range trusted {
			all = append(all, []byte(c))
		}
		if err := s.trust(t.Context(), t.Output(), all); err != nil {
			t.Fatal(err)
		}
		bundle, err := os.ReadFile(filepath.Join(etc, "ca-certificates.crt"))
		if err != nil {
			t.Fatal(err)
		}
		for n, c := range []string{one, two} {
			want := n == 1 && len(trusted) > 0 || n == 0 && len(trusted) == 2
			if got := strings.Contains(string(bundle), c); got != want {
				t.Errorf("with %d certificates, number %d is trusted: %t, want %t", len(trusted), n+1, got, want)
			}
		}
	}
}
