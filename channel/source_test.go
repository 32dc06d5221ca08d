package channel

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// answers runs a server that responds with one status after the other, and then with the last one forever.
func answers(t *testing.T, statuses ...int) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := int(asked.Add(1))
		w.WriteHeader(statuses[min(n, len(statuses))-1])
		_, _ = w.Write([]byte("kind: Addons\nmetadata: {name: x}\n"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/addons.yaml", asked
}

func TestHTTPReadsAreRetried(t *testing.T) {
	source := Source{Pause: time.Millisecond}
	for _, tt := range []struct {
		name     string
		statuses []int
		asked    int64
		err      string
	}{
		{"an answer", []int{200}, 1, ""},
		{"an answer that comes late", []int{404, 503, 500, 404, 200}, 5, ""},
		{"nothing there", []int{404}, 5, "does not exist"},
		{"a server that fails", []int{503}, 5, "answered 503 Service Unavailable (tried 5 times)"},
		{"a server that is asked too often", []int{429, 200}, 2, ""},
		{"a refusal", []int{403}, 1, "answered 403 Forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			location, asked := answers(t, tt.statuses...)
			_, err := source.Index(t.Context(), at(t, location), "c")
			if asked.Load() != tt.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tt.asked)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			if missing := errors.Is(err, fs.ErrNotExist); missing != (tt.name == "nothing there") {
				t.Errorf("counts as missing: %v", missing)
			}
		})
	}
	t.Run("until the command is ended", func(t *testing.T) {
		location, _ := answers(t, 503)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := (Source{Pause: time.Hour}).Index(ctx, at(t, location), "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// TestRetryWaitsAsLongAsServerAsks uses a server that asks for a second, and one that asks for an hour.
func TestRetryWaitsAsLongAsServerAsks(t *testing.T) {
	var asked atomic.Int64
	after := "1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	begin := time.Now()
	if _, err := (Source{Pause: time.Millisecond}).Index(t.Context(), at(t, server.URL+"/addons.yaml"), "c"); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < time.Second || asked.Load() != 2 {
		t.Errorf("asked %d times in %s", asked.Load(), took)
	}
	after = "3600"
	asked.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := (Source{Pause: time.Millisecond}).Index(ctx, at(t, server.URL+"/addons.yaml"), "c"); err == nil || !strings.Contains(err.Error(), "gave up after") || asked.Load() != 1 {
		t.Errorf("asked %d times, %v", asked.Load(), err)
	}
}

func TestRedirectsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/once" {
			http.Redirect(w, r, "/addons.yaml", http.StatusFound)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/on") {
			http.Redirect(w, r, r.URL.Path+"n", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	if _, err := (Source{}).Index(t.Context(), at(t, server.URL+"/once"), "c"); err != nil {
		t.Error(err)
	}
	if _, err := (Source{}).Index(t.Context(), at(t, server.URL+"/on"), "c"); err == nil || !strings.Contains(err.Error(), "more than 10 redirects") {
		t.Errorf("%v", err)
	}
}

func TestSecretsInURLsStayOutOfErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	location := at(t, strings.Replace(server.URL, "http://", "http://user:hush@", 1)+"/addons.yaml?signature=hush")
	if _, err := (Source{}).Index(t.Context(), location, "c"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
	server.Close()
	if _, err := (Source{}).Index(t.Context(), location, "c"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "addons.yaml")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, maxDocument+1); err != nil {
		t.Fatal(err)
	}
	if _, err := (Source{}).Index(t.Context(), at(t, name), "c"); err == nil || !strings.Contains(err.Error(), "more than 32 MiB") {
		t.Errorf("%v", err)
	}
}

func TestManifestHashesAreChecked(t *testing.T) {
	manifest := []byte("\napiVersion: v1\n\n")
	for _, tt := range []struct{ name, declared, err string }{
		{"sha256 without the blanks around", ManifestHash([]byte("apiVersion: v1")), ""},
		{"sha1 of old indexes", "c0a550963fd5e81041b9eaca5adf04e3017a866d", ""},
		{"another", "abc", "its index declares manifestHash abc, and it has "},
		{"none", "", "its index declares no manifestHash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := checkHash(manifest, tt.declared)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

func TestBucketIsReadInItsRegion(t *testing.T) {
	var signed atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("location") {
			_, _ = w.Write([]byte(`<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">eu-central-1</LocationConstraint>`))
			return
		}
		signed.Store(new(r.Header.Get("Authorization")))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	if _, err := (Source{}).Index(t.Context(), at(t, "s3://clusters/prod/addons.yaml"), "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if got := signed.Load(); got == nil || !strings.Contains(*got, "/eu-central-1/s3/") {
		t.Errorf("the request was signed for %v", got)
	}
}

func TestSecretsOfBrokenLocationsStayOutOfErrors(t *testing.T) {
	const user, token = "ship:anchor@", "?token=anchor"
	for _, location := range []string{
		"https://" + user + "example.com/%zz" + token, "gs://" + user + "bucket/a.yaml" + token, "file://" + user + "host/a.yaml" + token,
		"http://" + user + "[::1/a.yaml" + token, "//" + user + "host/a" + token, "a.yaml" + token, "https://" + user + "host:port/" + token,
		"https://anchor@example.com:port/",
	} {
		_, err := ParseChannel(location)
		if err == nil && !strings.HasPrefix(location, "//") || err != nil && strings.Contains(err.Error(), "anchor") { // a path may begin with two
			t.Errorf("channel %s: %v", location, err)
		}
		if u, err := ParseFile(location); err != nil && strings.Contains(err.Error(), "anchor") {
			t.Errorf("file %s: %v", location, err)
		} else if err == nil && u.IsAbs() {
			t.Errorf("file %s was accepted", location)
		}
		_, err = Parse([]byte("kind: Addons\nmetadata: {name: x}\nspec: {addons: [{manifest: '"+location+"'}]}\n"), at(t, "https://example.com/a.yaml"), "c")
		if err != nil && strings.Contains(err.Error(), "anchor") {
			t.Errorf("manifest %s: %v", location, err)
		}
		if _, err := (Source{Pause: time.Millisecond}).Objects(t.Context(), Entry{Location: location}); err == nil || strings.Contains(err.Error(), "anchor") {
			t.Errorf("objects %s: %v", location, err)
		}
	}
	location, _ := answers(t, 403)
	if _, err := (Source{}).Index(t.Context(), at(t, location+token), location+token); err == nil || strings.Contains(err.Error(), "anchor") {
		t.Errorf("%v", err)
	}
}

func TestPipesAreRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Source{}).Index(t.Context(), at(t, pipe), "c"); err == nil || !strings.Contains(err.Error(), "it is a pipe without a writer") {
		t.Errorf("without a writer: %v", err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("kind: Addons\nmetadata: {name: x}\n"), 0o600) }()
	if index, err := (Source{}).Index(t.Context(), at(t, pipe), "c"); err != nil || index.Name != "x" {
		t.Errorf("with a writer: %+v, %v", index, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	t.Run("until the command is ended", func(t *testing.T) {
		silent, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := (Source{}).Index(ctx, at(t, pipe), "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	if _, err := (Source{}).Index(t.Context(), at(t, filepath.Dir(pipe)), "c"); err == nil || !strings.HasSuffix(err.Error(), "read "+filepath.Dir(pipe)+": it is a folder; name the index or the manifest in it") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := (Source{}).Objects(t.Context(), Entry{Location: filepath.Dir(pipe) + "/a.tar.gz"}); err == nil {
		t.Error("a package that is not there was read")
	}
	if err := os.Rename(pipe, filepath.Dir(pipe)+"/a.tar.gz"); err != nil {
		t.Fatal(err)
	}
	if _, err := (Source{}).Objects(t.Context(), Entry{Location: filepath.Dir(pipe) + "/a.tar.gz"}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
}
