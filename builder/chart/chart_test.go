package chart

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sealift/sealift/helm"
)

func TestLookUp(t *testing.T) {
	const index = "entries:\n  hello:\n  - {version: v1.0.0, urls: [a.tgz], digest: abc}\n  - {version: 0.9.0, urls: []}\n"
	if e, err := lookUp([]byte(index), "hello", "1.0.0"); err != nil || !slices.Equal(e.URLs, []string{"a.tgz"}) || e.Digest != "abc" {
		t.Errorf("%+v, %v", e, err)
	}
	for want, given := range map[string][]string{
		`it has no version 0.9.0 of chart "hello"`: {index, "hello", "0.9.0"},
		`it has no chart "other"`:                  {index, "other", "1"},
		"index.yaml is damaged":                    {"entries: [", "hello", "1"},
	} {
		if _, err := lookUp([]byte(given[0]), given[1], given[2]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzLookUp(f *testing.F) {
	for _, seed := range []string{"entries:\n  hello:\n  - {version: 1.0.0, urls: [a.tgz]}\n", "entries: {hello: [null]}", "a: &a [*a]", "entries: {hello: [{version: 1, urls: {}}]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := lookUp(data, "hello", "1.0.0"); err == nil && len(e.URLs) == 0 {
			t.Error("a chart without a URL is found")
		}
	})
}

// TestPasswordIsSentOnlyToItsHost has a real server, and the file that docker login writes.
func TestPasswordIsSentOnlyToItsHost(t *testing.T) {
	var got []string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = append(got, user+":"+password)
	})
	known, other, plain := httptest.NewTLSServer(handler), httptest.NewTLSServer(handler), httptest.NewServer(handler)
	defer known.Close()
	defer other.Close()
	defer plain.Close()
	dir := t.TempDir()
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	config := `{"auths": {"` + host(known) + `": {"username": "ship", "password": "anchor"}, "` + host(plain) + `": {"username": "ship", "password": "anchor"}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	for _, request := range []struct{ url, want string }{
		{known.URL, "ship:anchor"}, {other.URL, ":"}, {plain.URL, ":"}, {strings.Replace(known.URL, "https://", "https://mirror:key@", 1), "mirror:key"},
	} {
		got = nil
		client := http.Client{Transport: authorized{next: known.Client().Transport, keychain: authn.DefaultKeychain}}
		response, err := client.Get(request.url)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if !slices.Equal(got, []string{request.want}) {
			t.Errorf("%s got %v, want %s", request.url, got, request.want)
		}
	}
}

func TestChartImagesAreFound(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: app:1, args: [\"--image=helper:2\"]}\n"
	u := ImagesOf(helm.Rendered{AppVersion: "1.5", Objects: []helm.Object{{YAML: []byte(pod)}, {YAML: []byte(pod)}}, Values: map[string]any{
		"image":   map[string]any{"repository": "app", "tag": "1"},
		"gateway": map[string]any{"image": map[string]any{"registry": "quay.io", "repository": "x/gateway"}},
		"jobs":    []any{map[string]any{"initImage": "quay.io/x/init:3"}},
		"name":    "quay.io/x/no:1", "pullPolicyImage": "Always",
	}})
	places := func(list []Use) (text string) {
		for _, use := range list {
			text += use.Where + "=" + use.Ref + "\n"
		}
		return text
	}
	if got := places(u.Pulled); got != "Pod p, container c=docker.io/library/app:1\n" {
		t.Errorf("pulled: %s", got)
	}
	if got := places(u.Named); got != "Pod p, container c, argument --image=docker.io/library/helper:2\n" {
		t.Errorf("named: %s", got)
	}
	if got := places(NotCarried(u.Hidden, References(u.Pulled))); got != "gateway.image=quay.io/x/gateway:1.5\njobs[0].initImage=quay.io/x/init:3\n" {
		t.Errorf("hidden: %s", got)
	}
}

func TestUncarriedImagesAreReported(t *testing.T) {
	tests := []struct {
		named, carried string
		want           bool // that it is the same image
	}{
		{"quay.io/x/a:1", "quay.io/x/a:1", true},
		{"x/a:1", "quay.io/x/a:1", true}, // the template has the registry
		{"quay.io/x/a:1", "quay.io/x/a:v1", true},
		{"quay.io/x/a:1", "quay.io/x/a:2", false},
		{"quay.io/x/a:1", "quay.io/x/b:1", false},
		{"quay.io/x/a:1", "ghcr.io/x/a:1", false},
		{"quay.io/x/a:1", "quay.io/x/a:1@sha256:" + strings.Repeat("0", 64), true},
		{"quay.io/x/a@sha256:" + strings.Repeat("1", 64), "quay.io/x/a:1@sha256:" + strings.Repeat("0", 64), false},
	}
	for _, test := range tests {
		if got := len(NotCarried([]Use{{Ref: full(test.named)}}, []string{test.carried})) == 0; got != test.want {
			t.Errorf("%s and %s: %v", test.named, test.carried, got)
		}
	}
}
