package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

var platform = runtime.GOOS + "/" + runtime.GOARCH

const token = "a-token-for-tests-only"

// layer is a large incompressible file of both packages.
var layer = func() []byte {
	data := make([]byte, 8_000_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	copy(data, []byte{0x1f, 0x8b})
	return data
}()

// pack makes the package of an add-on.
func pack(t *testing.T, name, version string, files map[string]string) []byte {
	t.Helper()
	p := bundle.Package{Name: name, Version: version, Platforms: []string{platform}}
	dir := bundle.AddOnDir(name, version)
	for path, text := range files {
		p.Files = append(p.Files, bundle.BytesFile(dir+"/"+path, 0o644, []byte(text)))
	}
	p.Files = append(p.Files, bundle.BytesFile(dir+"/layer", 0o644, layer))
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func put(t *testing.T, s store.Store, key string, data []byte) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, store.Bytes(data)); err != nil {
		t.Fatal(err)
	}
}

// fill puts the packages of two add-ons into a store.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	put(t, s, "base-1.0.tar.gz", pack(t, "base", "1.0", map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [thing]\n"}))
	put(t, s, "base-1.1.tar.gz", pack(t, "base", "1.1", map[string]string{"Manifest": "", "install.sh": "base() { :; }\n", "addon.yaml": "provides: [thing]\n"}))
	put(t, s, "user-2.0.tar.gz", pack(t, "user", "2.0", map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "requires: [thing]\noptions:\n  size: {type: integer}\n"}))
	put(t, s, "dist/v9/base-1.0.tar.gz", pack(t, "base", "1.0", map[string]string{"Manifest": "", "install.sh": "released() { :; }\n", "addon.yaml": "provides: [thing]\n"}))
}

func open(t *testing.T, location string) store.Store {
	t.Helper()
	s, err := store.Opener{Retry: store.Retry{Attempts: 2, Wait: time.Millisecond}}.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve runs a server before a store until the test ends.
func serve(t *testing.T, s store.Store, change func(*server.Options)) *httptest.Server {
	t.Helper()
	front := httptest.NewServer(newServer(t, s, change))
	t.Cleanup(front.Close)
	return front
}

// newServer returns a server for a store.
func newServer(t *testing.T, s store.Store, change func(*server.Options)) *server.Server {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sealift")
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho sealift got: \"$@\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := assemble.ProgramMember(t.Context(), bundle.BinaryName, name, "")
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Packages: packages.Source{Store: s}, Programs: []assemble.Program{{Platform: platform, Sealift: binary}},
		Commands: []string{"install"}, Token: token, Rate: 1e6}
	if change != nil {
		change(&o)
	}
	h, err := server.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Close()
		_ = binary.Close()
	})
	return h
}

// folder is a server before a folder with the packages.
func folder(t *testing.T) *httptest.Server {
	t.Helper()
	return serve(t, filled(t), nil)
}

func filled(t *testing.T) store.Store {
	t.Helper()
	s := open(t, t.TempDir())
	fill(t, s)
	return s
}

func installer(addOns string) string {
	return "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n" + addOns
}

const both = "  base: {version: '1.0'}\n  user: {version: '2.0'}\n"

type answer struct {
	*http.Response
	body []byte
	err  error // of reading the body
}

// ask sends a request; header alternates names and values.
func ask(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{&http.Response{Header: http.Header{}}, nil, err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	a := answer{resp, data, err}
	isDescribed(t, req, a)
	return a
}

// post stores an Installer and returns its id.
func post(t *testing.T, base, text string) string {
	t.Helper()
	a := ask(t, "POST", base+"/installer", text, "Accept", "application/json")
	var got struct{ ID string }
	if err := json.Unmarshal(a.body, &got); err != nil || got.ID == "" {
		t.Fatalf("%s: %s", a.Status, a.body)
	}
	return got.ID
}

func TestSameInstallerHasSameURL(t *testing.T) {
	s := folder(t)
	first := ask(t, "POST", s.URL+"/installer", installer(both))
	second := ask(t, "POST", s.URL+"/installer", installer("  user: {version: '2.0'}\n  base: {version: '1.0'}\n"))
	if first.StatusCode != http.StatusCreated || second.StatusCode != http.StatusOK || !bytes.Equal(first.body, second.body) {
		t.Errorf("%s %s, then %s %s", first.Status, first.body, second.Status, second.body)
	}
	named := ask(t, "PUT", s.URL+"/installer/demo", installer(both), "Authorization", "Bearer "+token)
	if named.StatusCode != http.StatusOK || !strings.HasSuffix(string(named.body), "/demo\n") {
		t.Errorf("%s %s", named.Status, named.body)
	}
	if got := ask(t, "GET", s.URL+"/installer/demo", ""); !strings.Contains(string(got.body), "name: demo") {
		t.Errorf("%s", got.body)
	}
	checked := ask(t, "POST", s.URL+"/installer/validate", installer("  base: {version: latest}\n"))
	if checked.StatusCode != http.StatusOK || !strings.Contains(string(checked.body), `version: \"1.1\"`) {
		t.Errorf("%s %s", checked.Status, checked.body)
	}
}

func TestOptionsWithoutEffectAreNamed(t *testing.T) {
	s := folder(t)
	text := installer(both + "  kurl: {licenseURL: 'https://example.com/license', installerVersion: v2024.07.02-0}\n")
	for _, path := range []string{"/installer", "/installer/validate"} {
		a := ask(t, "POST", s.URL+path, text, "Accept", "application/json")
		var got struct{ Warnings []diag.Finding }
		if err := json.Unmarshal(a.body, &got); err != nil || len(got.Warnings) != 2 || got.Warnings[0].Message != "kurl.installerVersion has no effect" || got.Warnings[1].Hint == "" {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
}

// endless repeats a line with a number in it up to half the size of the largest Installer.
func endless(line string) string {
	var text strings.Builder
	for n := 0; text.Len() < 64_000; n++ {
		fmt.Fprintf(&text, line, n)
	}
	return text.String()
}

func TestProblemsNameRemedy(t *testing.T) {
	s := folder(t)
	id := post(t, s.URL, installer(both))
	for name, row := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"no YAML":                {"POST", "/installer", "a: [", 422, "mistakes"},
		"unknown key":            {"POST", "/installer", installer(both) + "more: 1\n", 422, "more"},
		"unknown version":        {"POST", "/installer", installer("  base: {version: '7'}\n"), 422, "it has base-1.0.tar.gz, base-1.1.tar.gz"},
		"unknown line":           {"POST", "/installer", installer("  base: {version: 7.x}\n"), 422, "no package base of version 7.x"},
		"missing provider":       {"POST", "/installer", installer("  user: {version: '2.0'}\n"), 422, "requires thing"},
		"wrong option":           {"POST", "/installer", installer("  base: {version: '1.0'}\n  user: {version: '2.0', size: big}\n"), 422, "size must be of type integer"},
		"two pod networks":       {"POST", "/installer", installer(both + "  flannel: {version: latest}\n  weave: {version: 2.8.1}\n"), 422, "flannel and weave: a cluster has one pod network (remove one of them)"},
		"the same, only checked": {"POST", "/installer/validate", installer(both + "  docker: {version: 20.10.17}\n  kubernetes: {version: 1.30.0}\n"), 422, "use Kubernetes 1.31 or later"},
		"address of its own":     {"POST", "/installer", installer("  flannel: {version: '1.0', s3Override: 'http://169.254.169.254/x-1.0.tar.gz'}\n"), 422, "--allow-override"},
		"ten megabytes":          {"POST", "/installer", strings.Repeat("#", 10<<20), 413, "larger than 128 KiB"},
		"little that grows":      {"POST", "/installer", installer(both + "  kurl:\n    additionalNoProxyAddresses: [" + strings.Repeat("a,", 19_000) + "a]\n"), 413, "larger than 128 KiB"},
		"values without end":     {"POST", "/installer", installer(both + "  kurl:\n    additionalNoProxyAddresses: [" + strings.Repeat("a,", 60_000) + "a]\n"), 422, "more than 20000 values"},
		"mistakes without end":   {"POST", "/installer", "a:\n" + strings.Repeat("- !x a\n", 15_000), 422, "unknown tag"},
		"add-ons without end":    {"POST", "/installer/validate", installer(endless("  a%d: {version: latest}\n")), 422, "the limit is 64"},
		"name without a token":   {"PUT", "/installer/demo", installer(both), 401, "Bearer"},
		"name that is an id":     {"PUT", "/installer/abcdef1", installer(both), 400, "hexadecimal"},
		"name of the server":     {"PUT", "/installer/bundle", installer(both), 400, "is reserved"},
		"out of the folder":      {"GET", "/installer/..%2f..%2fetc%2fpasswd", "", 400, "remove them"},
		"dots":                   {"GET", "/bundle/../../x", "", 400, "remove them"},
		"dots in a release":      {"GET", "/version/../" + id, "", 400, "remove them"},
		"unknown release":        {"GET", "/bundle/version/v1/" + id + ".tar.gz", "", 422, "no package"},
		"unknown Installer":      {"GET", "/abc1234", "", 404, "no Installer abc1234"},
		"unknown bundle":         {"GET", "/bundle/abc1234.tar.gz", "", 404, "no Installer abc1234"},
		"odd id":                 {"GET", "/bundle/A_b.tar.gz", "", 400, "not the id"},
		"unknown script":         {"GET", "/" + id + "/rm.sh", "", 404, "install.sh"},
		"unknown package":        {"GET", "/dist/none-1.tar.gz", "", 404, "nothing with that name"},
		"Installer as package":   {"GET", "/dist/index.json", "", 404, "<name>-<version>.tar.gz"},
		"unknown binary":         {"GET", "/bin/00/sealift.tar.gz", "", 404, "another sealift"},
		"since what":             {"GET", "/bundle/" + id + ".tar.gz?since=x", "", 400, "sha256"},
		"since an unknown one":   {"GET", "/bundle/" + id + ".tar.gz?since=" + strings.Repeat("0", 64), "", 404, "whole bundle"},
		"packages without names": {"GET", "/bundle/" + id + "/packages/,.tar.gz", "", 400, "<name>-<version>"},
		"no method":              {"DELETE", "/installer/" + id, "", 405, "allowed: GET, HEAD, PUT"},
		"nothing":                {"GET", "/a/b/c/d", "", 404, "openapi.json"},
	} {
		t.Run(name, func(t *testing.T) {
			auth := ""
			if strings.HasPrefix(name, "name ") && row.status != 401 {
				auth = "Bearer " + token
			}
			a := ask(t, row.method, s.URL+row.path, row.body, "Authorization", auth)
			var p server.Problem
			if err := json.Unmarshal(a.body, &p); err != nil {
				t.Fatalf("%s: %s", a.Status, a.body)
			}
			if len(a.body) > 100_000 {
				t.Errorf("%d bytes of answer to %d", len(a.body), len(row.body))
			}
			if a.StatusCode != row.status || p.Status != row.status || !strings.Contains(p.Detail, row.want) || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %+v, want %d and %q", a.Status, p, row.status, row.want)
			}
		})
	}
}

func TestReleasesSupplementsAndUpdatesAreServed(t *testing.T) {
	s := folder(t)
	id := post(t, s.URL, installer("  base: {version: '1.0'}\n"))
	archive := func(path string) *bundle.Archive {
		t.Helper()
		a := ask(t, "GET", s.URL+path, "")
		got, err := bundle.NewArchive(bytes.NewReader(a.body), int64(len(a.body)))
		if err != nil {
			t.Fatalf("%s: %s: %v", path, a.Status, err)
		}
		return got
	}
	whole := archive("/bundle/" + id + ".tar.gz")
	if got, err := archive("/bundle/version/v9/"+id+".tar.gz").ReadFile("addons/base/1.0/install.sh", 100); err != nil || !strings.HasPrefix(string(got), "released()") {
		t.Errorf("the package of the release has %q, %v", got, err)
	}
	if err := archive("/bundle/" + id + "/packages/base-1.0,base-1.1.tar.gz").Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := archive("/bundle/"+id+"/packages/base-1.1,base-1.0,base-1.1.tar.gz"), archive("/bundle/"+id+"/packages/base-1.0,base-1.1.tar.gz"); got.Digest != want.Digest {
		t.Error("a package that is named twice, and in another order, makes another archive")
	}
	if err := archive("/dist/base-1.1.tar.gz").Verify(t.Context()); err != nil {
		t.Error(err)
	}
	newer := post(t, s.URL, installer("  base: {version: 1.x}\n"))
	update := archive("/bundle/" + newer + ".tar.gz?since=" + whole.Digest)
	if err := update.WithBase(whole); err != nil {
		t.Fatal(err)
	}
	if err := update.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	same := archive("/bundle/" + id + ".tar.gz?since=" + whole.Digest)
	if err := errors.Join(same.WithBase(whole), same.Verify(t.Context())); err != nil {
		t.Errorf("what has changed since the same bundle: %v", err)
	}
	if e, ok := update.Entry("addons/base/1.1/layer"); !ok || e.Encoding != bundle.InBase {
		t.Errorf("the update has the layer as %+v", e)
	}
	var index struct {
		Packages []struct{ Name, Version string }
	}
	if a := ask(t, "GET", s.URL+"/api/packages", ""); json.Unmarshal(a.body, &index) != nil || len(index.Packages) != 3 {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}

func TestScriptStartsServedSealift(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	s := folder(t)
	id := post(t, s.URL, installer(both))
	run := func(path string, args ...string) (string, error) {
		script := ask(t, "GET", s.URL+path, "")
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-s", "--"}, args...)...)
		cmd.Stdin = bytes.NewReader(script.body)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("/"+id, "yes"); err != nil || !strings.Contains(out, "sealift got: install --from "+s.URL+"/"+id+" --yes\n") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run("/version/v9/" + id + "/install.sh"); err != nil || !strings.Contains(out, "install --from "+s.URL+"/version/v9/"+id+"\n") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run("/"+id+"/tasks.sh", "reset", "--yes"); err != nil || !strings.Contains(out, "sealift got: reset --yes\n") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run("/"+id+"/upgrade.sh", "yes"); err == nil || !strings.Contains(out, "no command upgrade") {
		t.Errorf("what the nodes' sealift cannot do ends with %v: %s", err, out)
	}
	for args, want := range map[string]string{
		"join_token":        "token create --from " + s.URL + "/" + id,
		"join-token ha":     "token create --from " + s.URL + "/" + id + " --control-plane",
		"join-token airgap": "token create",
	} {
		if out, err := run("/"+id+"/tasks.sh", strings.Fields(args)...); err != nil || !strings.Contains(out, "sealift got: "+want+"\n") {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
	if a := ask(t, "GET", s.URL+"/"+id, "", "Host", "x"); a.StatusCode != http.StatusOK {
		t.Errorf("%s", a.Status)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/"+id, nil)
	req.Host = "x';reboot;'"
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("a Host that is shell code: %s", resp.Status)
		}
	}
}

func TestPagesAreServed(t *testing.T) {
	s := folder(t)
	for path, want := range map[string]string{
		"/":                                    "/packages/user/2.0",
		"/version/v9/":                         `href="/version/v9/packages/base/1.0"`,
		"/packages/user/2.0":                   "<h1>user 2.0</h1>",
		"/version/v9/compose":                  `action="/version/v9/compose"`,
		"/compose?version.base=1.1":            "version: &#34;1.1&#34;",
		"/compose?version.user=2.0":            "user requires thing",
		"/compose?further=other: {version: 1}": "no package other",
	} {
		if a := ask(t, "GET", s.URL+strings.ReplaceAll(path, " ", "+"), ""); a.StatusCode != http.StatusOK || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s, want %q in\n%s", path, a.Status, want, a.body)
		}
	}
	if a := ask(t, "GET", s.URL+"/packages/user/9", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("a package that is not there: %s", a.Status)
	}
}

func TestPageStoresInstaller(t *testing.T) {
	s := folder(t)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	a := ask(t, "POST", s.URL+"/compose", "version.base=1.1", form...)
	_, rest, ok := strings.Cut(string(a.body), "curl -fsSL ")
	url, _, _ := strings.Cut(rest, " ")
	if !ok || ask(t, "GET", url, "").StatusCode != http.StatusOK {
		t.Errorf("%s: the command's URL is %q in\n%s", a.Status, url, a.body)
	}
	if a := ask(t, "POST", s.URL+"/compose", "version.base=1.1", append(form, "Sec-Fetch-Site", "cross-site")...); a.StatusCode != http.StatusForbidden || !strings.Contains(string(a.body), "another site") {
		t.Errorf("from another site: %s\n%s", a.Status, a.body)
	}
	if a := ask(t, "POST", s.URL+"/compose", "further="+strings.Repeat("x", 1<<20), form...); a.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(a.body), "larger than 128 KiB") {
		t.Errorf("too large a form: %s\n%s", a.Status, a.body)
	}
	closed := serve(t, filled(t), func(o *server.Options) { o.Closed = true })
	if a := ask(t, "POST", closed.URL+"/compose", "version.base=1.1", form...); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "token") {
		t.Errorf("on a closed server: %s\n%s", a.Status, a.body)
	}
}
