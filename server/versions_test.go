package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/server"
)

// kURL's linter reads GET /installer and, for an Installer with kurl.installerVersion, GET /installer/version/RELEASE. The version after
// latest is the version that "latest" means.
func TestVersionsAreListedLikeKurl(t *testing.T) {
	packages := filled(t)
	for _, key := range []string{"cert-manager-1.9.1", "cert-manager-1.10.0", "cert-manager-1.11.0-rc.1", "rook-1.0.4", "rook-1.0.4-14.2.21"} {
		put(t, packages, key+".tar.gz", []byte("not looked into"))
	}
	s := serve(t, packages, func(o *server.Options) { o.Rate = 1000 })
	for path, want := range map[string]map[string][]string{
		"/installer": {
			"base": {"latest", "1.1", "1.0"}, "user": {"latest", "2.0"}, "certManager": {"latest", "1.10.0", "1.9.1", "1.11.0-rc.1"},
			"rook": {"latest", "1.0.4-14.2.21", "1.0.4"},
		},
		"/installer/version/v9":  {"base": {"latest", "1.0"}},
		"/version/v9/installer":  {"base": {"latest", "1.0"}},
		"/installer/version/v10": {},
	} {
		a := ask(t, "GET", s.URL+path, "")
		var got map[string][]string
		if err := json.Unmarshal(a.body, &got); err != nil || a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %v\n%s", path, a.Status, err, a.body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", path, diff)
		}
	}
	if a := ask(t, "GET", s.URL+"/installer/version/..%2Fx", ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a release that is a path: %s", a.Status)
	}
}

func TestInstallerIsReadWithVersionsAndAsJSON(t *testing.T) {
	s := serve(t, filled(t), func(o *server.Options) { o.Rate = 1000 })
	at := s.URL + "/installer/" + post(t, s.URL, installer("  base: {version: latest}\n  user: {version: 2.x}\n"))
	for name, row := range map[string]struct {
		path, accept, kind string
		want               []string
	}{
		"as it is":         {at, "", "application/yaml", []string{"version: latest", "version: 2.x"}},
		"with versions":    {at + "?resolve=true", "*/*", "application/yaml", []string{`version: "1.1"`, `version: "2.0"`}},
		"without versions": {at + "?resolve=false", "", "application/yaml", []string{"version: latest", "version: 2.x"}},
		"as JSON":          {at, "application/json", "application/json", []string{`"base":{"version":"latest"}`}},
		"with versions, J": {at + "?resolve=1", "application/json", "application/json", []string{`"base":{"version":"1.1"}`, `"user":{"version":"2.0"}`}},
	} {
		a := ask(t, "GET", row.path, "", "Accept", row.accept)
		for _, want := range row.want {
			if !strings.Contains(string(a.body), want) || a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != row.kind {
				t.Errorf("%s: %s %q\n%s\nhas no %s", name, a.Status, a.Header.Get("Content-Type"), a.body, want)
			}
		}
		if again := ask(t, "GET", row.path, "", "Accept", row.accept, "If-None-Match", a.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s, asked again: %s", name, again.Status)
		}
	}
	if a := ask(t, "GET", at+"?resolve=maybe", ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("?resolve=maybe: %s", a.Status)
	}
	gone := open(t, t.TempDir())
	put(t, gone, "installers/old.yaml", []byte(installer("  base: {version: latest}\n")))
	front := serve(t, gone, nil)
	if a := ask(t, "GET", front.URL+"/installer/old?resolve=true", ""); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "the store has no package base") {
		t.Errorf("without packages: %s %s", a.Status, a.body)
	}
}
