package hostpkg

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
)

// put brings a file into a cache, as an asset of a Manifest does, and returns its digest.
func put(t *testing.T, c *cache.Cache, data []byte) string {
	t.Helper()
	w, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	digest, err := w.Commit("")
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestLockedDebMustBeInSignedIndex(t *testing.T) {
	a, c := newPublished(t), openCache(t)
	resolved, err := a.source(c).Resolve(t.Context(), a.target(), "amd64", []string{"tool"})
	if err != nil {
		t.Fatal(err)
	}
	good := resolved[0]
	evil := mustRead(t, filepath.Join(a.dir, "pool/tool_1.0_amd64.deb"))
	evil[len(evil)-1] ^= 1
	changed := func(change func(*Resolved)) Resolved {
		r := good
		change(&r)
		return r
	}
	tests := map[string]struct {
		locked Resolved
		want   string
	}{
		"what was resolved":                      {good, ""},
		"a file of the cache, which is an asset": {changed(func(r *Resolved) { r.SHA256 = put(t, c, evil) }), "no signed index of the archive lists it"},
		"another version":                        {changed(func(r *Resolved) { r.Version = "9.9"; r.SHA256 = strings.Repeat("0", 64) }), "no signed index of the archive lists it"},
		"another place":                          {changed(func(r *Resolved) { r.URL = "https://evil.example.com/tool_1.0_amd64.deb" }), "is not in any source"},
		"a place beside the archive":             {changed(func(r *Resolved) { r.URL = "http://archive.example.com/test/../evil/tool_1.0_amd64.deb" }), "is not in any source"},
		"another host that begins with the same": {changed(func(r *Resolved) { r.URL = "http://archive.example.com.evil.example.com/test/t.deb" }), "is not in any source"},
		"an rpm":                                 {changed(func(r *Resolved) { r.URL = "http://archive.example.com/test/tool.rpm" }), "is not a package for test-1"},
		"a deb with keys":                        {changed(func(r *Resolved) { r.Key = put(t, c, []byte("key")) }), "names a key"},
		"a name that leads to elsewhere":         {changed(func(r *Resolved) { r.Name = "../../tool" }), "is not the name of a package file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := a.source(c).CheckLocked(t.Context(), a.target(), "amd64", []Resolved{test.locked})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	t.Run("a cache that knows nothing of it asks the archive", func(t *testing.T) {
		if err := a.source(openCache(t)).CheckLocked(t.Context(), a.target(), "amd64", []Resolved{good}); err != nil {
			t.Error(err)
		}
	})
	a.index.Reset()
	a.add("other", "1.0")
	a.publish()
	t.Run("what was superseded is known to the cache, and to a caller who has looked", func(t *testing.T) {
		if err := a.source(c).CheckLocked(t.Context(), a.target(), "amd64", []Resolved{good}); err != nil {
			t.Errorf("with the cache: %v", err)
		}
		if err := a.source(openCache(t)).CheckLocked(t.Context(), a.target(), "amd64", []Resolved{good}); err == nil {
			t.Error("without it nobody vouches for the package, and it was taken")
		}
		told := a.source(openCache(t))
		told.options.Vouched = []string{good.SHA256}
		if err := told.CheckLocked(t.Context(), a.target(), "amd64", []Resolved{good}); err != nil {
			t.Errorf("with a caller that has looked: %v", err)
		}
		if err := told.CheckLocked(t.Context(), a.target(), "amd64", []Resolved{changed(func(r *Resolved) { r.SHA256 = put(t, c, evil) })}); err == nil {
			t.Error("another file was taken, too")
		}
	})
}

func TestLockedRPMMustBeSignedByItsTarget(t *testing.T) {
	a, c := newYumArchive(t), openCache(t)
	a.build(pkg("tool", "1.0-1"))
	a.publish("")
	source := a.source(c)
	resolved, err := source.Resolve(t.Context(), a.target(), "x86_64", []string{"tool"})
	if err != nil {
		t.Fatal(err)
	}
	stranger := newYumArchive(t)
	stranger.build(pkg("tool", "1.0-1"))
	evil := resolved[0]
	evil.SHA256 = put(t, c, mustRead(t, filepath.Join(stranger.dir, "tool-1.0-1.x86_64.rpm")))
	evil.Size = 0
	t.Run("the keys are an asset of the same Manifest", func(t *testing.T) {
		r := evil
		r.Key = put(t, c, mustRead(t, stranger.keys))
		if _, err := source.Fetch(t.Context(), r); err == nil || !strings.Contains(err.Error(), "differ from the locked ones") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the package is", func(t *testing.T) {
		if _, err := source.Fetch(t.Context(), evil); err == nil || !strings.Contains(err.Error(), "its signature is invalid") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it names no keys", func(t *testing.T) {
		r := evil
		r.Key = ""
		if err := source.CheckLocked(t.Context(), a.target(), "x86_64", []Resolved{r}); err == nil || !strings.Contains(err.Error(), "does not name the key") {
			t.Errorf("got %v", err)
		}
		if _, err := source.Fetch(t.Context(), r); err == nil {
			t.Error("it was fetched")
		}
	})
	t.Run("a good one is taken", func(t *testing.T) {
		fresh := a.source(openCache(t))
		if err := fresh.CheckLocked(t.Context(), a.target(), "x86_64", resolved); err != nil {
			t.Error(err)
		}
		if _, err := fresh.Fetch(t.Context(), resolved[0]); err != nil {
			t.Error(err)
		}
	})
}

// behindLogin serves a folder to clients that know the password, and returns its URL with it.
func behindLogin(t *testing.T, dir string) (address string) {
	t.Helper()
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ship" || password != secretPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="mirror"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "://", "://ship:"+secretPassword+"@", 1)
}

const secretPassword = "anchor-4711"

func TestCacheContainsNoPasswords(t *testing.T) {
	apt, yum := newPublished(t), newYumArchive(t)
	yum.build(pkg("tool", "1.0-1"))
	yum.publish("")
	for name, row := range map[string]struct {
		dir, upstream, arch string
		target              Target
	}{
		"apt": {apt.dir, "http://archive.example.com/test/", "amd64", apt.target()},
		"yum": {yum.dir, "https://yum.example.com/test/x86_64", "x86_64", yum.target()},
	} {
		t.Run(name, func(t *testing.T) {
			mirrors, err := mirror.New(map[string]string{row.upstream: behindLogin(t, row.dir)})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			c, err := cache.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			source := NewSource(Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{}, nil), Mirrors: mirrors, Targets: []Target{row.target}})
			resolved, err := source.Resolve(t.Context(), row.target, row.arch, []string{"tool"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := source.Fetch(t.Context(), resolved[0]); err != nil {
				t.Fatal(err)
			}
			if err := c.Remember("urls", "http://ship:"+secretPassword+"@mirror/x", 1); err != nil {
				t.Fatal(err)
			}
			found, err := exec.CommandContext(t.Context(), "grep", "-rla", secretPassword, dir).Output()
			if len(found) > 0 {
				t.Errorf("the password is in %s, %v", found, err)
			}
		})
	}
}

// TestLockedNameMustMatchPackage gives good files other names, versions and architectures, as an edited lock does. The bill of
// materials would repeat them.
func TestLockedNameMustMatchPackage(t *testing.T) {
	apt, yum := newPublished(t), newYumArchive(t)
	yum.build(pkg("tool", "1.0-1"))
	yum.publish("")
	for _, row := range []struct {
		target      Target
		arch, other string
		source      func(*cache.Cache) *Source
		version     string
	}{
		{apt.target(), "amd64", "arm64", apt.source, "9.99-safe"},
		{yum.target(), "x86_64", "aarch64", yum.source, "9.99-1"},
	} {
		t.Run(row.target.Name, func(t *testing.T) {
			c := openCache(t)
			source := row.source(c)
			resolved, err := source.Resolve(t.Context(), row.target, row.arch, []string{"tool"})
			if err != nil {
				t.Fatal(err)
			}
			good := resolved[0]
			if _, err := source.Fetch(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			if _, err := Repository("packages", []Resolved{good}, c); err != nil {
				t.Errorf("the package itself: %v", err)
			}
			for name, change := range map[string]func(*Resolved){
				"a name":          func(r *Resolved) { r.Name = "openssl" },
				"a version":       func(r *Resolved) { r.Version = row.version },
				"an epoch":        func(r *Resolved) { r.Version = "1:" + r.Version },
				"an architecture": func(r *Resolved) { r.Arch = row.other },
			} {
				forged := good
				change(&forged)
				_, err := Repository("packages", []Resolved{good, forged}, c)
				if err == nil || !strings.Contains(err.Error(), "says that it is tool "+good.Version+" for "+good.Arch) || !strings.Contains(err.Error(), "sealift lock --update") {
					t.Errorf("%s of another package: %v", name, err)
				}
			}
		})
	}
}
