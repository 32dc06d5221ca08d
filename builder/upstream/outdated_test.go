package upstream_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// catalogueFiles are an add-on with lines, another that it needs, and one without rules.
func catalogueFiles() map[string]string {
	return map[string]string{
		"kubernetes/template/Manifest.tmpl": "image api registry.example.io/api:v${VERSION}\nimage etcd registry.example.io/etcd:${ETCD}\nasset cni https://files.example.org/${CNI}\n",
		"kubernetes/template/addon.yaml": `description: x
upstream:
  VERSION:
    image: registry.example.io/api
    tag: v*
    lines: minor
    endOfLife: kubernetes
    skew: [{from: 1.37.0, addOn: containerd, atLeast: 2.3.0}]
  ETCD: {url: "https://page.example.org/v${VERSION}/constants.go", match: 'Etcd = "([^"]+)"', order: kurl}
  CNI: {github: c/n}
`,
		"kubernetes/1.35.4/Manifest":        "image api registry.example.io/api:v1.35.4\nimage etcd registry.example.io/etcd:3.6.6-0\nasset cni https://files.example.org/v1.9.1\n",
		"kubernetes/1.36.3/Manifest":        "image api registry.example.io/api:v1.36.3\nimage etcd registry.example.io/etcd:3.6.8-0\nasset cni https://files.example.org/v1.9.1\n",
		"containerd/template/Manifest.tmpl": "asset c https://files.example.org/v${VERSION}\n",
		"containerd/template/addon.yaml":    "upstream: {VERSION: {github: c/c, tag: v*, endOfLife: {'2.2': 2026-11-26}}}\n",
		"containerd/2.2.1/Manifest":         "asset c https://files.example.org/v2.2.1\n",
		"bare/template/Manifest.tmpl":       "image app registry.example.io/app:${VERSION}\n",
		"bare/1.0/Manifest":                 "image app registry.example.io/app:1.0\n",
		"kurls/1.0/Manifest":                "image app registry.example.io/app:1.0\n",
	}
}

func open(t *testing.T, files map[string]string) *upstream.Catalogue {
	t.Helper()
	c, err := upstream.OpenCatalogue(fixture.Folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func usualWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.push(t, "api", "v1.34.9", "v1.35.4", "v1.35.7", "v1.36.3", "v1.37.0", "v1.37.2", "v1.38.0-rc.1", "v1.38.0", "latest")
	w.put(map[string]string{
		"api.github.com/repos/c/n/releases":  releasePage("v1.10.0", "v1.9.1"),
		"api.github.com/repos/c/c/releases":  releasePage("v2.4.2", "v2.2.9", "v2.2.1", "v1.7.9"),
		"endoflife.date/api/kubernetes.json": `[{"cycle": "1.37", "eol": "2027-10-28"}, {"cycle": "1.36", "eol": "2027-06-28"}, {"cycle": "1.35", "eol": "2027-02-01"}, {"cycle": 1.34, "eol": true}]`,
	})
	for _, v := range []string{"1.35.7", "1.36.4", "1.37.2"} {
		w.put(map[string]string{"page.example.org/v" + v + "/constants.go": fmt.Sprintf("Etcd = \"%s-etcd\"\n", v)})
	}
	return w
}

// text has a line for each row.
func text(rows []upstream.Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s %s %s: %q -> %q", r.AddOn, r.Parameter, r.Status, r.Has, r.Newest)
		if r.Outside != "" {
			fmt.Fprintf(&b, " (outside: %s)", r.Outside)
		}
		for _, note := range append(r.Notes, r.Broken...) {
			b.WriteString("; " + note)
		}
		if r.Error != "" {
			b.WriteString("; error: " + r.Error)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestOutdated(t *testing.T) {
	w := usualWorld(t)
	all := `bare VERSION no rule: "1.0" -> ""
containerd VERSION outdated: "2.2.1" -> "2.4.2"; upstream stopped maintaining 2.2 on 2026-11-26
kubernetes CNI outdated: "v1.9.1" -> "v1.10.0"
kubernetes VERSION outdated: "1.35.4" -> "1.35.7"; upstream maintains 1.35 until 2027-02-01
kubernetes VERSION current: "1.36.3" -> ""
kubernetes VERSION outdated: "" -> "1.37.2"; kubernetes 1.37.2 needs containerd 2.3.0 or newer, and the newest here is 2.2.1: update containerd first
kubernetes VERSION outdated: "" -> "1.38.0"; kubernetes 1.38.0 skips 1.37: clusters are upgraded one minor version at a time; kubernetes 1.38.0 needs containerd 2.3.0 or newer, and the newest here is 2.2.1: update containerd first
`
	for name, test := range map[string]struct {
		query upstream.Query
		want  func(string) string
	}{
		"everything": {upstream.Query{}, func(s string) string { return s }},
		"patches": {upstream.Query{Within: origin.MinorLine}, func(s string) string {
			s = strings.Replace(s, `-> "2.4.2";`, `-> "2.2.9" (outside: 2.4.2);`, 1)
			s = strings.Replace(s, `outdated: "v1.9.1" -> "v1.10.0"`, `current: "v1.9.1" -> "" (outside: v1.10.0)`, 1)
			head, _, _ := strings.Cut(s, `kubernetes VERSION outdated: "" `)
			return head + `kubernetes VERSION current: "" -> "" (outside: 1.37.2)` + "\n" + `kubernetes VERSION current: "" -> "" (outside: 1.38.0)` + "\n"
		}},
		"not some": {upstream.Query{Ignore: []upstream.Ignore{{AddOn: "containerd", Version: "2.4.*"}, {AddOn: "kubernetes", Parameter: "CNI"}, {AddOn: "kubernetes", Version: "1.38.*"}}}, func(s string) string {
			s = strings.Replace(s, `-> "2.4.2";`, `-> "2.2.9";`, 1)
			s = strings.Replace(s, `CNI outdated: "v1.9.1" -> "v1.10.0"`, `CNI ignored: "v1.9.1" -> ""`, 1)
			head, _, _ := strings.Cut(s, `kubernetes VERSION outdated: "" -> "1.38.0"`)
			return head
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := w.source(t).Outdated(t.Context(), open(t, catalogueFiles()), test.query)
			if got, want := text(rows), test.want(all); got != want || err != nil {
				t.Errorf("got  %v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func TestWithdrawnVersionOfCatalogueIsNoted(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		"proxy.golang.org/example.org/m/@v/list":       "v1.0.0\nv1.1.0\nv1.2.0\n",
		"proxy.golang.org/example.org/m/@v/v1.2.0.mod": "module example.org/m\nretract (\n\tv1.2.0 // for its retractions\n\tv1.0.0 // loses data\n)\n",
		"api.github.com/repos/c/c/releases":            releasePage("v2.0.0"),
		"proxy.golang.org/example.org/p/@v/list":       "",
		"proxy.golang.org/example.org/p/@latest":       `{"Version": "v0.0.0-20261126101112-0123456789ab"}`,
	})
	files := map[string]string{
		"m/template/Manifest.tmpl":                     "asset m https://files.example.org/${VERSION}\n",
		"m/template/addon.yaml":                        "upstream: {VERSION: {module: example.org/m, tag: v*}}\n",
		"m/1.0.0/Manifest":                             "asset m https://files.example.org/1.0.0\n",
		"c/template/Manifest.tmpl":                     "asset c https://files.example.org/${VERSION}\n",
		"c/template/addon.yaml":                        "upstream: {VERSION: {github: c/c, tag: v*}}\n",
		"c/2.0.1/Manifest":                             "asset c https://files.example.org/2.0.1\n",
		"p/template/Manifest.tmpl":                     "asset p https://files.example.org/${VERSION}\n",
		"p/template/addon.yaml":                        "upstream: {VERSION: {module: example.org/p, tag: v*}}\n",
		"p/0.0.0-20250801101112-0123456789ab/Manifest": "asset p https://files.example.org/0.0.0-20250801101112-0123456789ab\n",
	}
	rows, err := w.source(t).Outdated(t.Context(), open(t, files), upstream.Query{})
	want := `c VERSION current: "2.0.1" -> ""; upstream does not list 2.0.1
m VERSION outdated: "1.0.0" -> "1.1.0"; upstream withdrew 1.0.0: retracted loses data
p VERSION outdated: "0.0.0-20250801101112-0123456789ab" -> "0.0.0-20261126101112-0123456789ab"
`
	if got := text(rows); got != want || err != nil {
		t.Errorf("got  %v\n%s\nwant\n%s", err, got, want)
	}
}

// TestSilentUpstreamStopsNoOther has one upstream that refuses connections and one that is broken.
func TestSilentUpstreamStopsNoOther(t *testing.T) {
	w := usualWorld(t)
	w.answer("api.github.com/repos/c/c/releases", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) })
	w.answer("endoflife.date/api/kubernetes.json", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotFound) })
	rows, err := w.source(t).Outdated(t.Context(), open(t, catalogueFiles()), upstream.Query{})
	if err != nil || len(rows) != 7 {
		t.Fatalf("%v\n%s", err, text(rows))
	}
	got := text(rows)
	for _, want := range []string{
		"containerd VERSION failed: \"2.2.1\" -> \"\"; error: github c/c: http://", "answered 502 Bad Gateway (tried 2 times)\n",
		`kubernetes CNI outdated: "v1.9.1" -> "v1.10.0"` + "\n", `kubernetes VERSION outdated: "1.35.4" -> "1.35.7"; error: endoflife.date kubernetes: `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, err := mirror.New(map[string]string{"registry.example.io": strings.TrimPrefix(gone.URL, "http://"), "https://": gone.URL}); err == nil {
		t.Fatal("a mirror of everything is not supported")
	}
	mirrors, err := mirror.New(map[string]string{"registry.example.io": "http://" + strings.TrimPrefix(gone.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	s := upstream.NewSource(upstream.Options{Mirrors: mirrors, Retry: fetch.Retry{Attempts: 1}})
	defer s.Close()
	_, err = s.Releases(t.Context(), origin.Rule{Kind: origin.Registry, Name: "registry.example.io/api", Order: origin.SemVer}, nil)
	if err == nil || !strings.Contains(err.Error(), "image registry.example.io/api: repository registry.example.io/api (mirror 127.0.0.1") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesOfCatalogueAreNamed(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"upstream names TAGG, and the template has no such parameter (did you mean \"TAG\"?)": {
			"a/template/Manifest.tmpl": "image a example.org/a:${TAG}\n", "a/template/addon.yaml": "upstream: {TAGG: {github: a/b}}\n"},
		"a/template/addon.yaml:1:30: error: upstream VERSION: \"a\" is not a repository": {
			"a/template/Manifest.tmpl": "image a example.org/a:${VERSION}\n", "a/template/addon.yaml": "upstream: {VERSION: {github: a}}\n"},
		"has a template: name the directory of the add-ons": {"a/1/Manifest": ""},
	} {
		if _, err := upstream.OpenCatalogue(fixture.Folder(t, files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	c := open(t, catalogueFiles())
	for want, ignore := range map[string]upstream.Ignore{
		`no add-on kubernets to ignore (did you mean "kubernetes"?)`: {AddOn: "kubernets"},
		`has no parameter CNIS to ignore (did you mean "CNI"?)`:      {AddOn: "kubernetes", Parameter: "CNIS"},
	} {
		if _, err := newWorld(t).source(t).Outdated(t.Context(), c, upstream.Query{Ignore: []upstream.Ignore{ignore}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestParseIgnore(t *testing.T) {
	for text, want := range map[string]upstream.Ignore{
		"a": {AddOn: "a"}, "a.B": {AddOn: "a", Parameter: "B"}, "a.B@1.*": {AddOn: "a", Parameter: "B", Version: "1.*"}, "a@1.2.3": {AddOn: "a", Version: "1.2.3"},
	} {
		if got, err := upstream.ParseIgnore(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "@1", "a@", "a@[", ".B"} {
		if got, err := upstream.ParseIgnore(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
