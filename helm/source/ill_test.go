package source_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/helm/source"
)

func TestMisbehavingRegistryIsAbandoned(t *testing.T) {
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a manifest that redirects to itself": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, "stopped after 10 redirects"},
		"an answer without an end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, "at most 4194304 are supported"},
	} {
		for _, version := range []string{"1.0.0", ">1"} { // a manifest, and a list of tags
			t.Run(name+" "+version, func(t *testing.T) {
				var asked atomic.Int32
				host, access := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/v2/" {
						return
					}
					asked.Add(1)
					row.answer(w, r)
				}))
				_, err := source.Fetch(t.Context(), source.Chart{Repository: "oci://" + host + "/charts", Name: "web", Version: version}, access)
				if err == nil || !strings.Contains(err.Error(), row.want) || asked.Load() > 10 {
					t.Errorf("after %d requests: %v", asked.Load(), err)
				}
			})
		}
	}
}

// TestPlusInVersionIsNotASpace reads a chart whose version has a +, as Rancher's have, from a server that takes + for a space.
func TestPlusInVersionIsNotASpace(t *testing.T) {
	content := archive(t, "1.0.0+up4.5")
	host, access := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/index.yaml":
			_, _ = io.WriteString(w, "entries: {web: [{version: 1.0.0+up4.5, urls: [web-1.0.0+up4.5.tgz]}]}\n")
		case strings.Contains(r.RequestURI, "+"):
			http.NotFound(w, r)
		default:
			_, _ = w.Write(content)
		}
	}))
	got, err := source.Fetch(t.Context(), source.Chart{Repository: "https://" + host, Name: "web", Version: "1.0.0+up4.5"}, access)
	if err != nil || got.Version != "1.0.0+up4.5" {
		t.Errorf("got %s, %v", got.Version, err)
	}
}
