package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/faultyregistry"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/store"
)

func TestRegistryIsAStore(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) string{
		"distribution": realregistry.Start,
		"another":      func(t *testing.T) string { return faultyregistry.New(t).Host },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, store.Opener{Write: true}, "oci://"+start(t)+"/sealift/packages")
			if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 0 {
				t.Errorf("an empty repository lists %v, %v", infos, err)
			}
			if _, err := s.Get(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
			long := "dir/" + strings.Repeat("long", 60)
			keys := []string{"app-1.0+b_2.tar.gz", ".sealift/app-1.0.tar.gz.json", long, "dir/empty"}
			data := map[string][]byte{}
			for n, key := range keys {
				data[key] = random(n * 300_000)
			}
			data["dir/empty"] = nil
			for key, content := range data {
				for _, text := range [][]byte{[]byte("an old value"), content} {
					var sent, kept int64
					v := valueOf(t, text)
					v.Meter = func(s, k int64) { sent, kept = sent+s, kept+k }
					if _, err := s.Put(t.Context(), key, v); err != nil || sent+kept != int64(len(text)) {
						t.Fatalf("put %s: %v, %d sent and %d there", key, err, sent, kept)
					}
				}
			}
			for prefix, want := range map[string]int{"": 4, "app": 1, "app-1.0+b_": 1, ".sealift/": 1, "dir/": 2, "dir/e": 1, "dire": 0, long: 1} {
				infos, err := s.List(t.Context(), prefix)
				if err != nil || len(infos) != want {
					t.Errorf("%q lists %v, %v", prefix, infos, err)
				}
				for _, i := range infos {
					o, err := s.Get(t.Context(), i.Key)
					if err != nil || o.Size() != i.Size || o.Version() != i.Version || o.Size() != int64(len(data[i.Key])) || o.SHA256() != store.Bytes(data[i.Key]).SHA256 {
						t.Errorf("%+v is %v, %v", i, o, err)
						continue
					}
					if got := digestOf(t, s, i.Key); got != o.SHA256() {
						t.Errorf("read %s, want %s", got, o.SHA256())
					}
				}
			}
			part := make([]byte, 1000)
			o, err := s.Get(t.Context(), long)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			if _, err := o.ReadAt(part, 123_456); err != nil || string(part) != string(data[long][123_456:124_456]) {
				t.Errorf("a range is other bytes, %v", err)
			}
		})
	}
}

func TestRegistrySwapsOnlyWhatWasRead(t *testing.T) {
	s := open(t, store.Opener{Write: true}, "oci://"+realregistry.Start(t)+"/packages")
	first, err := s.Swap(t.Context(), "index.json", []byte("first"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), "index.json", []byte("again"), ""); !errors.Is(err, store.ErrChanged) {
		t.Errorf("a value was replaced that should not exist: %v", err)
	}
	second, err := s.Swap(t.Context(), "index.json", []byte("second"), first)
	if err != nil || second == first {
		t.Errorf("replaced %s by %s, %v", first, second, err)
	}
	if _, err := s.Swap(t.Context(), "index.json", []byte("third"), first); !errors.Is(err, store.ErrChanged) {
		t.Errorf("an old version was replaced: %v", err)
	}
}

// TestFailingRegistryIsRetried uses a registry that is overloaded, and one whose connection breaks in the middle of a range.
func TestFailingRegistryIsRetried(t *testing.T) {
	r := faultyregistry.New(t)
	opener := store.Opener{Write: true, Retry: store.Retry{Wait: time.Millisecond}}
	s := open(t, opener, "oci://"+r.Host+"/packages")
	data := random(300_000)
	var mu sync.Mutex
	refused := make(map[string]bool)
	once := func(w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		kind := req.Method + strings.SplitN(req.URL.Path, "/", 5)[3]
		if refused[kind] {
			return false
		}
		refused[kind] = true
		if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/") {
			w.Header().Set("Content-Range", "bytes 0-299999/300000")
			w.Header().Set("Content-Length", "300000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data[:1000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	r.SetFault(once)
	v := valueOf(t, data)
	if _, err := s.Put(t.Context(), "app-1.0.tar.gz", v); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.List(t.Context(), "app"); err != nil || len(infos) != 1 {
		t.Errorf("listed %v, %v", infos, err)
	}
	o, err := s.Get(t.Context(), "app-1.0.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	got := make([]byte, o.Size())
	if _, err := o.ReadAt(got, 0); err != nil || store.Bytes(got).SHA256 != v.SHA256 {
		t.Errorf("after a broken range, the content is another: %v", err)
	}
	if len(refused) < 6 {
		t.Errorf("only %v were refused", refused)
	}
}

// TestRegistryMayWorkAfterLastByte has a registry that checks a blob for longer than a transfer may stall, and one that does not answer.
func TestRegistryMayWorkAfterLastByte(t *testing.T) {
	const stall = time.Second
	for name, row := range map[string]struct {
		works time.Duration
		fails bool
	}{
		"long": {5 * stall / 2, false}, "for ever": {time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := faultyregistry.New(t)
			r.SetFault(func(_ http.ResponseWriter, q *http.Request) bool {
				if q.Method != http.MethodPut || !strings.Contains(q.URL.Path, "/blobs/uploads/") || q.ContentLength < 1000 {
					return false
				}
				body, err := io.ReadAll(q.Body)
				if err != nil {
					t.Error(err)
				}
				q.Body = io.NopCloser(bytes.NewReader(body))
				select {
				case <-time.After(row.works):
				case <-q.Context().Done():
				}
				return false
			})
			s := open(t, store.Opener{Write: true, Stall: stall, Retry: store.Retry{Attempts: 1}}, "oci://"+r.Host+"/packages")
			v := valueOf(t, random(300_000))
			_, err := s.Put(t.Context(), "app-1.0.tar.gz", v)
			if row.fails != (err != nil) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLoginOfRegistry uses a registry that wants a token for each scope, and gives it for a name and password.
func TestLoginOfRegistry(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	r := faultyregistry.New(t)
	writeFile(t, dir, "config.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":"dXNlcjpzZWNyZXQ="}}}`, r.Host))
	r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/token" {
			user, secret, _ := req.BasicAuth()
			scopes := req.URL.Query()["scope"]
			if req.Method == http.MethodPost {
				user, secret, scopes = req.PostFormValue("username"), req.PostFormValue("password"), strings.Fields(req.PostFormValue("scope"))
			}
			if user != "user" || secret != "secret" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			fmt.Fprintf(w, `{"token":%q,"access_token":%q}`, strings.Join(scopes, " "), strings.Join(scopes, " "))
			return true
		}
		want := "repository:packages:pull"
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			want += ",push"
		}
		if strings.Contains(req.Header.Get("Authorization")+" ", want+" ") {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="registry",scope=%q`, r.Host, want))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	s := open(t, store.Opener{Write: true}, "oci://"+r.Host+"/packages")
	v := valueOf(t, random(100_000))
	if _, err := s.Put(t.Context(), "k", v); err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, s, "k"); got != v.SHA256 {
		t.Errorf("read %s, want %s", got, v.SHA256)
	}
	writeFile(t, dir, "config.json", []byte("{}"))
	if _, err := open(t, store.Opener{}, "oci://"+r.Host+"/packages").Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "docker login") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a login: %v", err)
	}
}

// TestPagesOfTagsAreThoseOfTheRegistryBehind lists a repository by a registry that redirects to another path on another host.
func TestPagesOfTagsAreThoseOfTheRegistryBehind(t *testing.T) {
	front, behind := faultyregistry.New(t), faultyregistry.New(t)
	put := open(t, store.Opener{Write: true}, "oci://"+behind.Host+"/prod/packages")
	var tags []string
	for _, key := range []string{"a-1.0.tar.gz", "b-1.0.tar.gz"} {
		if _, err := put.Put(t.Context(), key, store.Bytes([]byte(key))); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range behind.Requests() {
		if _, tag, ok := strings.Cut(line, "/manifests/"); ok && strings.HasPrefix(line, http.MethodPut) {
			tags = append(tags, tag)
		}
	}
	if len(tags) != 2 {
		t.Fatal(tags)
	}
	front.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
		http.Redirect(w, q, "http://"+behind.Host+strings.Replace(q.URL.RequestURI(), "/packages/", "/prod/packages/", 1), http.StatusTemporaryRedirect)
		return true
	})
	behind.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, "/prod/packages/tags/list") {
			return false
		}
		tag := tags[1]
		if !q.URL.Query().Has("last") {
			w.Header().Set("Link", "<"+q.URL.Path+"?last="+tags[0]+`>; rel="next"`)
			tag = tags[0]
		}
		fmt.Fprintf(w, `{"name":"prod/packages","tags":[%q]}`, tag)
		return true
	})
	if infos, err := open(t, store.Opener{}, "oci://"+front.Host+"/packages").List(t.Context(), ""); err != nil || len(infos) != 2 {
		t.Errorf("listed %v, %v", infos, err)
	}
}

// TestUploadsStayAtTheRegistry has registries that name another place for an upload: without TLS, as behind a proxy that does not say so, or
// on another host. The credentials of the registry would go there.
func TestUploadsStayAtTheRegistry(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	r := faultyregistry.New(t)
	for _, place := range []string{other.URL, "https://" + r.Host} {
		r.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method != http.MethodPost {
				return false
			}
			w.Header().Set("Location", place+"/upload")
			w.WriteHeader(http.StatusAccepted)
			return true
		})
		_, err := open(t, store.Opener{Write: true}, "oci://"+r.Host+"/packages").Put(t.Context(), "a", store.Bytes([]byte("text")))
		if err == nil || !strings.Contains(err.Error(), "the registry sends uploads to "+place) || elsewhere.Load() > 0 {
			t.Errorf("%s: %v, %d requests", place, err, elsewhere.Load())
		}
	}
}

func TestForeignRegistryTagsAreNotListed(t *testing.T) {
	r := faultyregistry.New(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.Host+"/v2/packages/manifests/latest", strings.NewReader(`{"schemaVersion":2}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	s := open(t, store.Opener{}, "oci://"+r.Host+"/packages")
	if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("listed %v, %v", infos, err)
	}
	if _, err := s.Get(t.Context(), "latest"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "not a value that sealift has stored") {
		t.Error(err)
	}
}

func TestRegistryURLsAreChecked(t *testing.T) {
	for location, want := range map[string]string{
		"oci://harbor.corp":                     "names no repository",
		"oci://harbor.corp/a?plain-http=yes":    "only setting",
		"oci://harbor.corp/a?region=x":          "only setting",
		"oci://user:secret@harbor.corp/a":       "docker login",
		"oci://harbor.corp/A":                   "not the URL of a registry",
		"oci://harbor.corp/a?plain-http=true":   "",
		"oci://harbor.corp:8443/mirror/sealift": "",
	} {
		if _, err := store.Open(location); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", location, err, want)
		}
	}
}
