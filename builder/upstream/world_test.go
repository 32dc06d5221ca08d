package upstream_test

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/catalog/origin"
)

// world plays all upstreams on loopback: a registry, and documents by host and path. It counts requests.
type world struct {
	url      string
	registry http.Handler

	mu        sync.Mutex
	documents map[string]string                                   // by "host/path", with the query if that has an entry of its own
	answers   map[string]func(http.ResponseWriter, *http.Request) // by "host/path"
	requests  map[string]int                                      // by "host/path"
	tokens    []string                                            // Authorization of all requests
}

var hosts = []string{"api.github.com", "proxy.golang.org", "endoflife.date", "charts.example.org", "packages.example.org", "page.example.org", "raw.githubusercontent.com",
	"charts.jetstack.io", "metallb.github.io", "traefik.github.io", "kubernetes-sigs.github.io", "open-policy-agent.github.io"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		registry:  registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		documents: map[string]string{}, answers: map[string]func(http.ResponseWriter, *http.Request){}, requests: map[string]int{},
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		w.registry.ServeHTTP(rw, r)
		return
	}
	key := strings.TrimPrefix(r.URL.Path, "/")
	w.mu.Lock()
	w.requests[key]++
	w.tokens = append(w.tokens, r.Header.Get("Authorization"))
	answer := w.answers[key]
	document, found := w.documents[key+"?"+r.URL.RawQuery]
	if !found {
		document, found = w.documents[key]
	}
	w.mu.Unlock()
	switch {
	case answer != nil:
		answer(rw, r)
	case found:
		_, _ = io.WriteString(rw, document)
	default:
		http.NotFound(rw, r)
	}
}

// put sets documents by "host/path".
func (w *world) put(documents map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.documents, documents)
}

func (w *world) answer(key string, f func(http.ResponseWriter, *http.Request)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[key] = f
}

func (w *world) count(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[key]
}

// push puts images with these tags into a repository of registry.example.io.
func (w *world) push(t *testing.T, repository string, tags ...string) {
	t.Helper()
	for _, tag := range tags {
		ref, err := name.ParseReference(strings.TrimPrefix(w.url, "http://") + "/" + repository + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, empty.Image); err != nil {
			t.Fatal(err)
		}
	}
}

// source returns a source of versions that finds every upstream in the world.
func (w *world) source(t *testing.T) *upstream.Source {
	t.Helper()
	rules := map[string]string{}
	for _, registry := range []string{"registry.example.io", "registry.k8s.io", "ghcr.io", "docker.io"} {
		rules[registry] = w.url
	}
	for _, host := range hosts {
		rules["https://"+host+"/"] = w.url + "/" + host + "/"
	}
	mirrors, err := mirror.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	s := upstream.NewSource(upstream.Options{
		Mirrors: mirrors, Retry: fetch.Retry{Attempts: 2, Wait: time.Millisecond}, Keychain: authn.NewMultiKeychain(), GitHubToken: "secret",
		Timeout: 20 * time.Second, Now: func() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) },
	})
	t.Cleanup(s.Close)
	return s
}

// list returns what a rule finds: versions, with "-" behind pre-releases and "!" behind withdrawn ones.
func (w *world) list(t *testing.T, rule origin.Rule) (string, error) {
	t.Helper()
	if rule.Order == "" {
		rule.Order = origin.SemVer
	}
	releases, err := w.source(t).Releases(t.Context(), rule, map[string]string{"VERSION": "1.2.3"})
	var words []string
	for _, r := range releases {
		word := r.Version
		if r.PreRelease {
			word += "-"
		}
		if r.Withdrawn != "" {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), err
}

// releasePage is a page of GitHub's releases.
func releasePage(tags ...string) string {
	var list []string
	for _, tag := range tags {
		list = append(list, fmt.Sprintf(`{"tag_name": %q, "draft": %t, "prerelease": %t}`, strings.TrimRight(tag, "?~"), strings.HasSuffix(tag, "~"), strings.HasSuffix(tag, "?")))
	}
	return "[" + strings.Join(list, ",") + "]"
}
