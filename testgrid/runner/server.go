package runner

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/spec"
)

// registerTimeout is how long a server may take to store an Installer, with the start of a few processes on a busy machine.
const registerTimeout = 2 * time.Minute

// server is the server from which a test installs, or "" if it installs from a bundle. An airgap test has no network for it.
func (r *runner) server(t spec.Test) string {
	if t.Airgap {
		return ""
	}
	return strings.TrimRight(r.Server, "/")
}

func (c *cell) server() string { return c.runner.server(c.test) }

// register stores an Installer on the server, as often as it is asked to, and returns the URL of its script. The first machine asks:
// its network reaches the server, and perhaps not this program's.
func (c *cell) register(ctx context.Context, b *bundle) (script string, err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server()+"/installer", strings.NewReader(b.text))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "text/yaml")
	transport := through(ctx, c.machines[0])
	transport.TLSClientConfig = c.runner.CAs.TLS()
	status, body, err := send(transport, request)
	if err != nil {
		return "", fmt.Errorf("store the Installer on %s, from %s: %w", c.server(), c.machines[0].Name(), err)
	}
	script = strings.TrimSpace(string(body))
	if at, err := url.Parse(script); status/100 != 2 || err != nil || at.Host != request.URL.Host {
		return "", fmt.Errorf("store the Installer on %s: it answers %d and no URL of an Installer: %.500s", c.server(), status, body)
	}
	return script, nil
}

// piped is the command that the server's page shows.
func piped(script, arguments string) string {
	return "set -o pipefail; curl -fsSL " + machine.Quote(script) + " | bash -s " + arguments
}
