package runner

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/testgrid/gridspec"
)

// registerTimeout is how long a server may take to store an Installer, with the start of a few processes on a busy machine.
const registerTimeout = 2 * time.Minute

// server is the server from which a test installs or upgrades, or "" if it does so from a bundle. An airgap test has no network for it.
// elsewhere means that the test names the server, whose packages differ from the store's.
func (r *runner) server(t gridspec.Test, endpoint string) (url string, elsewhere bool) {
	if t.Airgap {
		return "", false
	}
	return strings.TrimRight(cmp.Or(endpoint, r.Server), "/"), endpoint != ""
}

// ofKurl reports whether a server is kURL's own.
func ofKurl(endpoint string) bool {
	at, err := url.Parse(endpoint)
	return err == nil && (at.Hostname() == "kurl.sh" || strings.HasSuffix(at.Hostname(), ".kurl.sh"))
}

// register stores an Installer on its server, as often as requested, and returns the URL of its script. The first machine asks: its
// network reaches the server, and perhaps not this program's.
func (c *cell) register(ctx context.Context, b *bundle) (script string, err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server+"/installer", strings.NewReader(b.text))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "text/yaml")
	transport := through(ctx, c.machines[0])
	transport.TLSClientConfig = c.runner.CAs.TLS()
	status, body, err := send(transport, request)
	if err != nil {
		return "", fmt.Errorf("store the Installer on %s, from %s: %w", b.server, c.machines[0].Name(), err)
	}
	script = strings.TrimSpace(string(body))
	if at, err := url.Parse(script); status/100 != 2 || err != nil || at.Host != request.URL.Host {
		return "", fmt.Errorf("store the Installer on %s: it answers %d without the URL of an Installer: %.500s", b.server, status, body)
	}
	return script, nil
}

// piped is the command that the server's page shows.
func piped(script, arguments string) string {
	return "set -o pipefail; curl -fsSL " + shellword.Quote(script) + " | bash -s " + arguments
}
