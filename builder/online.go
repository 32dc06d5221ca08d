package builder

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/manifest"
)

// answerTimeout is how long a host has to answer anything at all.
const answerTimeout = 10 * time.Second

// Online reports whether any host of a Manifest's images and assets, or a mirror of it, answers at all. A Manifest that names no
// host needs none.
func Online(ctx context.Context, mirrors mirror.Set, cas trust.CAs, m *manifest.File) bool {
	hosts := kind.NewSet(kind.Options{Mirrors: mirrors}).Servers(m)
	if len(hosts) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	transport := fetch.NewTransport(cas)
	defer transport.CloseIdleConnections()
	answers := make(chan bool, len(hosts))
	for _, host := range hosts {
		go func() { answers <- doesAnswer(ctx, transport, host) }()
	}
	for range hosts {
		if <-answers {
			return true
		}
	}
	return false
}

func doesAnswer(ctx context.Context, transport http.RoundTripper, root string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, root+"/v2/", nil)
	if err != nil {
		return false
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10))
	return response.Body.Close() == nil
}
