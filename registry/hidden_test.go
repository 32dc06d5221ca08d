package registry_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sealift/sealift/registry"
)

// hiding returns a fault that refuses to read repositories that do not exist, as Quay does, and makes those that somebody wants to push to, if
// that is allowed.
func hiding(host string, allowed bool) func(w http.ResponseWriter, r *http.Request) bool {
	var made sync.Map // repositories
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/auth" {
			for _, scope := range r.URL.Query()["scope"] { // repository:PATH:pull,push
				if parts := strings.Split(scope, ":"); allowed && strings.Contains(parts[2], "push") {
					made.Store(parts[1], true)
				}
			}
			fmt.Fprint(w, `{"token": "x"}`)
			return true
		}
		repository := strings.TrimPrefix(r.URL.Path, "/v2/")
		for _, end := range []string{"/manifests/", "/blobs/", "/referrers/"} {
			repository, _, _ = strings.Cut(repository, end)
		}
		if _, there := made.Load(repository); there && r.Header.Get("Authorization") != "" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+host+`/v2/auth",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestPushToRegistryThatHidesNewRepositories(t *testing.T) {
	s, images := newSite(t), several(t)
	s.SetFault(hiding(s.Host, true))
	p, err := registry.Prepare(t.Context(), content(t, images), recorded(t, s.Host))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range p.Images {
		if i.State != registry.Missing || i.Note != registry.HiddenNote {
			t.Errorf("%+v", i)
		}
	}
	if stale, err := p.Stale(t.Context()); err != nil || len(stale) > 0 {
		t.Errorf("%+v, %v", stale, err)
	}
	done, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range done.Images {
		if i.State != registry.Pushed || i.Note != "" {
			t.Errorf("%+v", i)
		}
	}
	s.SetFault(nil)
	s.checkAll(t, images)
	later, err := registry.Prepare(t.Context(), withChart(t, "none", nil), recorded(t, s.Host))
	if err != nil {
		t.Fatal(err)
	}
	if stale, err := later.Stale(t.Context()); err != nil || len(stale) != len(images) {
		t.Errorf("the record has %+v, %v", stale, err)
	}
}

func TestRefusedPushNamesRight(t *testing.T) {
	s := newSite(t)
	s.SetFault(hiding(s.Host, false))
	if _, err := push(t.Context(), content(t, several(t)), options(t, s.Host)); err == nil || !strings.Contains(err.Error(), "the right to push to mirror/") {
		t.Errorf("%v", err)
	}
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool { // of the service for tokens
		if r.URL.Path != "/v2/auth" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+s.Host+`/v2/auth",service="x"`)
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	if _, err := registry.Prepare(t.Context(), content(t, several(t)), options(t, s.Host)); err == nil {
		t.Error("a wrong password is not told before the push")
	}
}
