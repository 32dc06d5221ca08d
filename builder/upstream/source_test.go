package upstream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/catalog/origin"
)

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const primary = `<metadata xmlns="http://linux.duke.edu/metadata/common" packages="3">
<package type="rpm"><name>runc</name><arch>x86_64</arch><version epoch="4" ver="1.3.4" rel="1.el9"/></package>
<package type="rpm"><name>runc-extra</name><version epoch="0" ver="9.0.0" rel="1"/></package>
<package type="rpm"><name>runc</name><version epoch="4" ver="1.5.2" rel="1.el9"/></package>
</metadata>`

func repomd(href string) string {
	return `<repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="other"><location href="x"/></data>` +
		`<data type="primary"><location href="` + href + `"/></data></repomd>`
}

func TestEachKindOfUpstreamIsListed(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		"api.github.com/repos/o/r/releases": releasePage("v1.10.0", "v1.9.0", "v2.0.0-rc.1?", "v3.0.0~", "api/v9.0.0", "nightly", "v1.9.0"),
		// the newest go.mod retracts; a pre-release has none
		"proxy.golang.org/example.org/!upper/@v/list":                    "v1.0.0\nv1.1.0\nv1.2.0-rc.1\nv0.9.0\nv1.1\nlatest\nv2.0.0+incompatible\n",
		"proxy.golang.org/example.org/!upper/@v/v1.1.0.mod":              "module example.org/Upper\nretract v9.9.9\n",
		"proxy.golang.org/example.org/!upper/@v/v2.0.0+incompatible.mod": "module example.org/Upper\nretract [v0.9.0, v1.0.0] // leaks keys\n",
		"proxy.golang.org/example.org/untagged/@v/list":                  "",
		"proxy.golang.org/example.org/untagged/@latest":                  `{"Version": "v0.0.0-20261126101112-0123456789ab", "Time": "2026-11-26T10:11:12Z"}`,
		"charts.example.org/stable/index.yaml": "apiVersion: v1\nentries:\n  x:\n  - {name: x, version: 1.2.0+up1, urls: [x.tgz]}\n  - {name: x, version: 1.1.0, urls: [x.tgz], deprecated: true}\n" +
			"  - {name: y, version: 9.0.0, urls: [x.tgz]}\n  - {name: x, version: 8.0.0}\n  - {name: x, version: '7.0.0; reboot', urls: [x.tgz]}\n",
		"packages.example.org/debian/dists/bookworm/stable/binary-amd64/Packages.gz": zipped(t, "Package: runc\nVersion: 1.1.5+ds1-1\nDepends: x\n\nPackage: runc-dev\nVersion: 9\n\nVersion: 8\nPackage: other\n\nPackage: runc\nVersion: 1:1.0~rc93-1\n"),
		"packages.example.org/flat/Packages.gz":                                      zipped(t, "Package: runc\nVersion: 1.5.2-1\n"),
		"packages.example.org/el9/repodata/repomd.xml":                               repomd("repodata/abc-primary.xml.gz"),
		"packages.example.org/el9/repodata/abc-primary.xml.gz":                       zipped(t, primary),
		"packages.example.org/el10/repodata/repomd.xml":                              repomd("repodata/p.xml.zst"),
		"packages.example.org/el10/repodata/p.xml.zst":                               string(mustEncoder(t).EncodeAll([]byte(primary), nil)),
		"page.example.org/v1.2.3/constants.go":                                       "Etcd = \"3.6.8-0\"\nEtcd = \"3.5.1-0\"\n",
	})
	w.push(t, "app", "v1.0.0", "v1.10.0", "latest", "sha256-abc.sig", "v1.9.0", "v1.10.0-arm64", "1.11.0", "v1.11")
	w.push(t, "charts/x", "1.0.0", "1.1.0_up2")
	for name, test := range map[string]struct {
		rule origin.Rule
		want string
	}{
		"github":              {origin.Rule{Kind: origin.GitHub, Name: "o/r", Tag: "v*"}, "1.10.0 1.9.0 2.0.0-rc.1-"},
		"module":              {origin.Rule{Kind: origin.GoModule, Name: "example.org/Upper"}, "v1.0.0! v1.1.0 v1.2.0-rc.1- v0.9.0! v2.0.0+incompatible"},
		"untagged":            {origin.Rule{Kind: origin.GoModule, Name: "example.org/untagged"}, "v0.0.0-20261126101112-0123456789ab"},
		"image":               {origin.Rule{Kind: origin.Registry, Name: "registry.example.io/app", Tag: "v*"}, "1.0.0 1.10.0 1.10.0-arm64- 1.9.0"},
		"image, by kURL":      {origin.Rule{Kind: origin.Registry, Name: "registry.example.io/app", Order: origin.KURL}, "1.11.0 v1.0.0 v1.10.0 v1.10.0-arm64 v1.11 v1.9.0"},
		"chart":               {origin.Rule{Kind: origin.Chart, Name: "x", Repository: "https://charts.example.org/stable"}, "1.2.0+up1 1.1.0!"},
		"chart of a registry": {origin.Rule{Kind: origin.Chart, Name: "x", Repository: "oci://registry.example.io/charts"}, "1.0.0 1.1.0+up2"},
		"apt":                 {origin.Rule{Kind: origin.Apt, Name: "runc", Repository: "https://packages.example.org/debian bookworm stable", Order: origin.Debian}, "1.1.5+ds1-1 1:1.0~rc93-1-"},
		"apt, flat":           {origin.Rule{Kind: origin.Apt, Name: "runc", Repository: "https://packages.example.org/flat ./", Order: origin.Debian, Tag: "*-1"}, "1.5.2"},
		"yum":                 {origin.Rule{Kind: origin.Yum, Name: "runc", Repository: "https://packages.example.org/el9", Order: origin.KURL, Tag: "*-1.el9"}, "1.3.4 1.5.2"},
		"yum with zstd":       {origin.Rule{Kind: origin.Yum, Name: "runc", Repository: "https://packages.example.org/el10/", Order: origin.KURL}, "1.3.4-1.el9 1.5.2-1.el9"},
		"page":                {origin.Rule{Kind: origin.Page, Name: "https://page.example.org/v${VERSION}/constants.go", Match: `Etcd = "([^"]+)"`, Order: origin.KURL}, "3.6.8-0 3.5.1-0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := w.list(t, test.rule); got != test.want || err != nil {
				t.Errorf("got  %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
	for _, token := range w.tokens {
		if token != "" {
			t.Errorf("a mirror got the token of GitHub: %s", token)
		}
	}
}

func mustEncoder(t *testing.T) *zstd.Encoder {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestReleasesAreReadPageByPage(t *testing.T) {
	w := newWorld(t)
	pages := 0
	w.answer("api.github.com/repos/o/r/releases", func(rw http.ResponseWriter, r *http.Request) {
		pages++
		page := r.URL.Query().Get("page")
		if page != "3" {
			rw.Header().Set("Link", `<https://evil.example.org/?page=2>; rel="next", <https://x/?page=3>; rel="last"`)
		}
		fmt.Fprint(rw, releasePage("v"+page+".0.0"))
	})
	rule := origin.Rule{Kind: origin.GitHub, Name: "o/r", Tag: "v*"}
	if got, err := w.list(t, rule); got != "1.0.0 2.0.0 3.0.0" || err != nil || pages != 3 {
		t.Errorf("%s, %v in %d pages", got, err, pages)
	}
	pages = 0
	w.answer("api.github.com/repos/o/r/releases", func(rw http.ResponseWriter, r *http.Request) {
		pages++
		rw.Header().Set("Link", `<https://x/?page=2>; rel="next"`)
		fmt.Fprint(rw, releasePage("v"+r.URL.Query().Get("page")+".0.0"))
	})
	if _, err := w.list(t, rule); err != nil || pages != 20 {
		t.Errorf("an endless list is read for %d pages, %v", pages, err)
	}
}

func TestRateLimitIsNamedAndNotRetried(t *testing.T) {
	const key = "api.github.com/repos/o/r/releases"
	for name, test := range map[string]struct {
		code   int
		header map[string]string
		want   string
	}{
		"GitHub's limit":           {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795435200"}, "refuses more requests until 2026-11-23T12:00:00Z (rate limit)"},
		"GitHub's limit as 429":    {429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795435200"}, "refuses more requests until 2026-11-23T12:00:00Z (rate limit)"},
		"GitHub's second limit":    {403, map[string]string{"Retry-After": "60"}, "refuses more requests until 2026-11-27T12:01:00Z (rate limit)"},
		"a limit without an end":   {403, map[string]string{"X-RateLimit-Remaining": "0"}, "refuses more requests for now (rate limit)"},
		"a refusal without limits": {403, nil, "answered 403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.answer(key, func(rw http.ResponseWriter, _ *http.Request) {
				for k, v := range test.header {
					rw.Header().Set(k, v)
				}
				rw.WriteHeader(test.code)
			})
			_, err := w.list(t, origin.Rule{Kind: origin.GitHub, Name: "o/r"})
			if err == nil || !strings.Contains(err.Error(), test.want) || w.count(key) != 1 {
				t.Errorf("%v after %d requests", err, w.count(key))
			}
			var hinted *upstream.Error
			if !errors.As(err, &hinted) || hinted.Hint() == "" {
				t.Errorf("no hint for %v", err)
			}
		})
	}
}

func TestBusyUpstreamIsRetried(t *testing.T) {
	w := newWorld(t)
	const key = "page.example.org/list"
	w.answer(key, func(rw http.ResponseWriter, _ *http.Request) {
		if w.count(key) == 1 {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(rw, "v1.0.0")
	})
	began := time.Now()
	got, err := w.list(t, origin.Rule{Kind: origin.Page, Name: "https://page.example.org/list", Match: "v(.+)"})
	if got != "1.0.0" || err != nil || time.Since(began) < time.Second {
		t.Errorf("%s, %v after %s", got, err, time.Since(began))
	}
}

func TestDamagedUpstreamsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		"api.github.com/repos/o/r/releases":          `{"message": "not a list"}`,
		"charts.example.org/index.yaml":              "entries: [",
		"packages.example.org/a/Packages.gz":         "this is not compressed",
		"packages.example.org/y/repodata/repomd.xml": repomd("../../etc/passwd.gz"),
		"packages.example.org/z/repodata/repomd.xml": repomd("https://evil.example.org/p.gz"),
		"packages.example.org/x/repodata/repomd.xml": repomd("p.xml.bz2"),
		"packages.example.org/x/p.xml.bz2":           "x",
		"packages.example.org/w/repodata/repomd.xml": "<repomd/>",
		"page.example.org/empty":                     "nothing here",
		"proxy.golang.org/example.org/gone/@v/list":  "v1.0.0\n",
		"proxy.golang.org/example.org/bad/@v/list":   "",
		"proxy.golang.org/example.org/bad/@latest":   "<html>",
	})
	yum := func(path string) origin.Rule {
		return origin.Rule{Kind: origin.Yum, Name: "runc", Repository: "https://packages.example.org/" + path, Order: origin.KURL}
	}
	for name, test := range map[string]struct {
		rule origin.Rule
		want string
	}{
		"releases that are not a list":   {origin.Rule{Kind: origin.GitHub, Name: "o/r"}, "github o/r: json: cannot unmarshal"},
		"an unknown repository":          {origin.Rule{Kind: origin.GitHub, Name: "o/unknown"}, "answered 404 Not Found"},
		"an index of charts":             {origin.Rule{Kind: origin.Chart, Name: "x", Repository: "https://charts.example.org"}, "index.yaml is damaged"},
		"an index of apt":                {origin.Rule{Kind: origin.Apt, Name: "runc", Repository: "https://packages.example.org/a ./"}, "gzip: invalid header"},
		"a path out of its repository":   {yum("y"), "repomd.xml leads out of its repository"},
		"another host":                   {yum("z"), "repomd.xml leads out of its repository"},
		"an unknown compression":         {yum("x"), "is compressed in a way that is not supported"},
		"no list of packages":            {yum("w"), "repomd.xml names no list of packages"},
		"a page without a match":         {origin.Rule{Kind: origin.Page, Name: "https://page.example.org/empty", Match: "v(.+)"}, "nothing on the page matches v(.+)"},
		"a module without its go.mod":    {origin.Rule{Kind: origin.GoModule, Name: "example.org/gone"}, "v1.0.0.mod answered 404"},
		"a module without any version":   {origin.Rule{Kind: origin.GoModule, Name: "example.org/bad"}, "invalid character"},
		"a name that is not a module":    {origin.Rule{Kind: origin.GoModule, Name: "../x"}, "malformed module path"},
		"a repository that is not there": {origin.Rule{Kind: origin.Registry, Name: "registry.example.io/none"}, "repository registry.example.io/none does not exist (mirror 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := w.list(t, test.rule); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

// TestLargeIndexOfChartsIsRead reads 20 MB, as public repositories have. Another entry of the index may not pose as the chart.
func TestLargeIndexOfChartsIsRead(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nentries:\n")
	for n := 0; b.Len() < 20<<20; n++ {
		fmt.Fprintf(&b, "  chart-%d:\n", n)
		for v := range 40 {
			fmt.Fprintf(&b, "  - apiVersion: v2\n    created: \"2026-11-01T10:00:00Z\"\n    description: |-\n      A chart\n        x:\n        - version: 99.0.%d\n    digest: %064d\n    name: chart-%d\n    urls:\n    - https://example.org/chart-%d-1.0.%d.tgz\n    version: 1.0.%d\n", v, n, n, n, v, v)
		}
	}
	b.WriteString("  x:\n  - {name: x, version: 1.2.3, urls: [x.tgz]}\n  - {name: chart-1, version: 99.0.0, urls: [x.tgz]}\n")
	w := newWorld(t)
	w.put(map[string]string{"charts.example.org/index.yaml": b.String()})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	got, err := w.list(t, origin.Rule{Kind: origin.Chart, Name: "x", Repository: "https://charts.example.org"})
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes in %s, %d MiB allocated", b.Len(), time.Since(began).Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
	if got != "1.2.3" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
