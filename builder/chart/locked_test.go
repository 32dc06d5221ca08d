package chart

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/sha256hex"
)

// counted serves files by path, and counts its requests.
func counted(t *testing.T, files map[string]string) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		content, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, content)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func sourceOf(t *testing.T) *Source {
	t.Helper()
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return NewSource(Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{Attempts: 1}, nil), Transport: http.DefaultTransport})
}

func TestLockedChartIsInItsRepositoryOrItsIndex(t *testing.T) {
	const good, bad = "the archive", "another archive"
	elsewhere, _ := counted(t, map[string]string{"/metrics-1.0.0.tgz": good})
	attacker, attacks := counted(t, map[string]string{"/metrics-1.0.0.tgz": bad})
	index := fmt.Sprintf("entries:\n  metrics:\n  - {version: 1.0.0, urls: [%s/metrics-1.0.0.tgz], digest: %s}\n", elsewhere, sha256hex.Of(good))
	repository, asked := counted(t, map[string]string{"/stable/index.yaml": index, "/stable/old/metrics-1.0.0.tgz": good})
	locked := func(url, content string) *Resolved {
		return &Resolved{Chart: lock.Chart{
			Name: "metrics", Repository: repository + "/stable", Version: "1.0.0", URL: url,
			Blob: bundle.Blob{SHA256: sha256hex.Of(content), Size: int64(len(content))},
		}}
	}
	for name, chart := range map[string]*Resolved{
		"another server":                       locked(attacker+"/metrics-1.0.0.tgz", bad),
		"another server with the right digest": locked(attacker+"/metrics-1.0.0.tgz", good),
		"the right server with another digest": locked(elsewhere+"/metrics-1.0.0.tgz", bad),
		"another registry":                     locked("oci://registry.example.com/metrics@sha256:"+strings.Repeat("0", 64), bad),
	} {
		err := sourceOf(t).FetchLocked(t.Context(), chart)
		if err == nil || !strings.Contains(err.Error(), lock.FileName) || !strings.Contains(err.Error(), "sealift lock --update") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := attacks.Load(); n != 0 {
		t.Errorf("a server that only the lock names was asked %d times", n)
	}
	asked.Store(0)
	if err := sourceOf(t).FetchLocked(t.Context(), locked(repository+"/stable/old/metrics-1.0.0.tgz", good)); err != nil || asked.Load() != 1 {
		t.Errorf("an archive of the repository: %v after %d requests", err, asked.Load())
	}
	asked.Store(0)
	s := sourceOf(t)
	for range 2 {
		if err := s.FetchLocked(t.Context(), locked(elsewhere+"/metrics-1.0.0.tgz", good)); err != nil || asked.Load() != 1 {
			t.Errorf("an archive of the index: %v after %d requests to the repository", err, asked.Load())
		}
	}
	asked.Store(0)
	s = sourceOf(t)
	resolved, err := s.Resolve(t.Context(), repository+"/stable", "metrics", "1.0.0")
	if err == nil {
		err = s.FetchLocked(t.Context(), &Resolved{Chart: resolved.Chart})
	}
	if err != nil || asked.Load() != 1 {
		t.Errorf("a chart that was just resolved: %v after %d requests to the repository", err, asked.Load())
	}
}

func TestIndexWithUnsupportedSchemeIsRefused(t *testing.T) {
	for _, address := range []string{"s3://charts/metrics-1.0.0.tgz", "gs://charts/metrics-1.0.0.tgz", "file:///etc/passwd", "ftp://charts.example.com/metrics-1.0.0.tgz"} {
		repository, _ := counted(t, map[string]string{"/index.yaml": "entries:\n  metrics:\n  - {version: 1.0.0, urls: ['" + address + "']}\n"})
		_, err := sourceOf(t).Resolve(t.Context(), repository, "metrics", "1.0.0")
		if err == nil || !strings.Contains(err.Error(), "chart repository "+repository+": metrics 1.0.0 is at "+address) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

func TestPlaceInRepository(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for _, test := range []struct {
		repository, address string
		want                bool
	}{
		{"https://charts.example.com/stable", "https://charts.example.com/stable/a-1.tgz", true},
		{"https://charts.example.com/stable/", "https://charts.example.com/stable/archives/a-1.tgz", true},
		{"https://charts.example.com", "https://charts.example.com/a-1.tgz", true},
		{"https://charts.example.com/stable", "https://charts.example.com/stables/a-1.tgz", false},
		{"https://charts.example.com/stable", "https://charts.example.com/stable/../other/a-1.tgz", false},
		{"https://charts.example.com/stable", "https://charts.example.com/stable/%2e%2e/other/a-1.tgz", false},
		{"https://charts.example.com/stable", "https://charts.example.com/stable/a-1.tgz?to=x", false},
		{"https://charts.example.com/stable", "https://charts.example.com@evil.example.com/stable/a-1.tgz", false},
		{"https://charts.example.com/stable", "http://charts.example.com/stable/a-1.tgz", false},
		{"https://charts.example.com/stable", "oci://charts.example.com/stable/a" + digest, false},
		{"oci://registry.example.com/charts/a", "oci://registry.example.com/charts/a" + digest, true},
		{"oci://registry.example.com/charts/a", "oci://registry.example.com/charts/b" + digest, false},
		{"oci://registry.example.com/charts/a", "oci://evil.example.com/charts/a" + digest, false},
		{"oci://registry.example.com/charts/a", "https://registry.example.com/charts/a", false},
	} {
		if got := isIn(test.repository, test.address); got != test.want {
			t.Errorf("%s in %s: %v", test.address, test.repository, got)
		}
	}
	moved := lock.Chart{URL: "oci://registry.example.com/charts/a" + digest, Blob: bundle.Blob{SHA256: "1"}}
	if !leadsTo("oci://registry.example.com/charts/a:1.0.0", "2", moved) || leadsTo("oci://registry.example.com/charts/b:1.0.0", "", moved) {
		t.Error("an index that leads to a registry means its repository")
	}
}
