package builder

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/manifest"
)

// answerTimeout is how long a host has to answer anything at all.
const answerTimeout = 10 * time.Second

// Online tells whether any of the hosts that a Manifest's images and assets come from, or their mirrors, answers. What
// it answers does not matter. A Manifest that names no host needs none.
func Online(ctx context.Context, mirrors mirror.Set, m *manifest.File) bool {
	hosts := hostsOf(mirrors, m)
	if len(hosts) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	transport := fetch.NewTransport()
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

// hostsOf lists the roots of the servers that are asked for what a Manifest names.
func hostsOf(mirrors mirror.Set, m *manifest.File) []string {
	var urls []string
	for _, i := range m.Images() {
		named, err := reference.ParseNormalizedNamed(i.Ref)
		if err != nil {
			continue // is told when it is resolved
		}
		repository, plain := mirrors.Repository(named.Name())
		options := []name.Option{name.WeakValidation}
		if plain {
			options = append(options, name.Insecure)
		}
		r, err := name.NewRepository(repository, options...)
		if err != nil {
			continue // is told when it is resolved
		}
		urls = append(urls, r.Scheme()+"://"+r.RegistryStr())
	}
	for _, a := range m.Assets() {
		if !asset.IsURL(a.Source) {
			continue
		}
		scheme, rest, _ := strings.Cut(mirrors.URL(a.Source), "://")
		host, _, _ := strings.Cut(rest, "/")
		urls = append(urls, scheme+"://"+host)
	}
	return distinct(urls)
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
