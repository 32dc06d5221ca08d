package source

import (
	"encoding/json"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
)

// TestCredentialsAreThoseOfTheNearestName reads files with several names of one host. Go visits them in any order, so each is read often.
func TestCredentialsAreThoseOfTheNearestName(t *testing.T) {
	for _, tt := range []struct {
		host string
		keys []string
		want string
	}{
		{"index.docker.io", []string{"https://index.docker.io/v1/"}, "https://index.docker.io/v1/"},
		{"index.docker.io", []string{"docker.io"}, "docker.io"},
		{"registry-1.docker.io", []string{"docker.io", "ghcr.io"}, "docker.io"},
		{"index.docker.io", []string{"https://index.docker.io/v1/", "registry-1.docker.io", "index.docker.io"}, "index.docker.io"},
		{"index.docker.io", []string{"https://index.docker.io/v1/", "https://index.docker.io/v2/", "registry-1.docker.io"}, "registry-1.docker.io"},
		{"ghcr.io", []string{"ghcr.io/b", "ghcr.io/a", "docker.io"}, "ghcr.io/a"},
		{"ghcr.io", []string{"ghcr.io/a", "https://GHCR.io"}, "https://GHCR.io"},
		{"ghcr.io", []string{"docker.io", "ghcr.io.example.org"}, ""},
		{"docker.io.example.org", []string{"docker.io"}, ""},
	} {
		auths := make(map[string]authn.AuthConfig)
		for _, key := range tt.keys {
			auths[key] = authn.AuthConfig{Username: "captain", Password: key}
		}
		file, err := json.Marshal(map[string]any{"auths": auths})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got, err := credentials(file, tt.host); err != nil || got.Password != tt.want {
				t.Fatalf("%s with %q: got %q, %v, want %q", tt.host, tt.keys, got.Password, err, tt.want)
			}
		}
	}
}
