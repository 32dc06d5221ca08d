package page_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/server/page"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store/release"
)

// folder is a Source of packages in a folder. It plans like a server as far as pages can tell.
type folder struct {
	dir   string
	index release.Index
}

func (f *folder) List(*http.Request) (release.Index, error) { return f.index, nil }

func (f *folder) Open(_ context.Context, _ *http.Request, name, version string) (page.Package, error) {
	a, err := bundle.Open(filepath.Join(f.dir, name+"-"+version+".tar.gz"))
	if err != nil {
		return page.Package{}, err
	}
	return page.Package{Archive: a, Close: a.Close}, nil
}

func (f *folder) Plan(_ *http.Request, i *spec.Installer) (page.Plan, error) {
	resolved := *i
	resolved.AddOns = append([]spec.AddOn(nil), i.AddOns...)
	for n, a := range resolved.AddOns {
		if a.Name == "unknown" {
			return page.Plan{}, errors.New("the store has no package unknown\nnor anything like it")
		}
		if a.Version == "1.36.x" {
			resolved.AddOns[n].Version = "1.36.3"
		}
	}
	return page.Plan{Installer: &resolved, Size: 1_234_567_890}, nil
}

func (f *folder) Create(_ *http.Request, i *spec.Installer) (string, error) { return i.ID() }

func (f *folder) Base(*http.Request) string { return "" }

func (f *folder) Links(r *http.Request, id string) (string, string, error) {
	base := "http://" + r.Host
	return base + "/" + id, base + "/bundle/" + id + ".tar.gz", nil
}

// add publishes a package with an addon.yaml.
func (f *folder) add(t *testing.T, name, version, meta string, contents bundle.Contents) {
	t.Helper()
	dir := bundle.AddOnDir(name, version)
	p := bundle.Package{Name: name, Version: version, Platforms: []string{"linux/amd64"}, Contents: contents}
	for file, text := range map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": meta, "sbom.spdx.json": `{"spdxVersion":"SPDX-2.3"}`} {
		p.Files = append(p.Files, bundle.BytesFile(dir+"/"+file, 0o644, []byte(text)))
	}
	file := name + "-" + version + ".tar.gz"
	out, err := os.Create(filepath.Join(f.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := bundle.WritePackage(t.Context(), out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.index.Packages = append(f.index.Packages, release.Package{Name: name, Version: version, Key: file, Size: 52_400_000, Stored: version})
}

// serve shows some packages.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	f := &folder{dir: t.TempDir()}
	for _, version := range []string{"1.35.4", "1.37.0-rc.1", "1.36.3", "1.36.1"} {
		f.add(t, "kubernetes", version, "description: Kubernetes, set up with <kubeadm>\nlicense: Apache-2.0\nprovides: [kubernetes]\nrequires: [container-runtime]\n", bundle.Contents{})
	}
	f.add(t, "engine", "2.2.1", "description: The container runtime\nprovides: [container-runtime]\noptions:\n"+
		"  preserve: {type: boolean, default: false, description: Keep the configuration that is there}\n  workers: {type: integer, default: 3}\n"+
		"  note: {type: string}\n  mirrors: {type: array, description: Hosts to ask first}\n  level: {type: string, enum: [info, debug]}\n", bundle.Contents{})
	site, err := page.New(f)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, r := range site.Routes() {
		mux.HandleFunc(r.Method+" "+r.Pattern, func(w http.ResponseWriter, request *http.Request) {
			if err := r.Handle(w, request); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, address string) (*http.Response, string) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	return response, body(t, response)
}

func body(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPagesDescribePackages(t *testing.T) {
	s := serve(t)
	for path, row := range map[string]struct {
		status int
		want   []string
	}{
		"/": {200, []string{`<a href="/packages/kubernetes/1.36.3">1.36.3</a> <small>50.0 MiB</small><br><a href="/packages/kubernetes/1.36.1">`, `1.35.4</a> <small>50.0 MiB</small><br><a href="/packages/kubernetes/1.37.0-rc.1">`, "Kubernetes, set up with &lt;kubeadm&gt;"}},
		"/packages/engine/2.2.1": {200, []string{"<h1>engine 2.2.1</h1>", "The package is not signed", "linux/amd64", "Keep the configuration that is there",
			`href="/packages/engine/2.2.1/sbom.spdx.json"`, `href="/dist/engine-2.2.1.tar.gz"`}},
		"/packages/engine/2.2.1/sbom.spdx.json": {200, []string{"SPDX-2.3"}},
		"/packages/engine/9/sbom.spdx.json":     {404, []string{"no such package"}},
		"/packages/engine/9":                    {404, []string{"no such package"}},
		"/page/absent.css":                      {404, nil},
	} {
		t.Run(path, func(t *testing.T) {
			response, text := get(t, s.URL+path)
			if response.StatusCode != row.status {
				t.Errorf("status %d, want %d", response.StatusCode, row.status)
			}
			for _, want := range row.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

func TestPagesLoadOnlyOwnResources(t *testing.T) {
	response, _ := get(t, serve(t).URL+"/compose")
	if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

func TestFormMakesInstaller(t *testing.T) {
	s := serve(t)
	for name, row := range map[string]struct {
		query  string
		want   []string
		absent []string
	}{
		"nothing chosen":     {"", []string{"Nothing is chosen yet"}, []string{"problem"}},
		"what can be chosen": {"", []string{"Requires container-runtime.", "Provides kubernetes.", "<small>50.0 MiB, Apache-2.0</small>", "<small>50.0 MiB</small>"}, nil},
		"a version":          {"version.kubernetes=1.36.3", []string{"kubernetes:\n    version: 1.36.3", "1.1 GiB"}, []string{"problem", "is 1.36.3 today"}},
		"a line of versions": {"version.kubernetes=1.36.x", []string{"version: 1.36.x", "kubernetes 1.36.x is 1.36.3 today"}, nil},
		"options by their types": {"version.engine=2.2.1&option.engine.preserve=true&option.engine.workers=7&option.engine.mirrors=[a,+b]",
			[]string{"preserve: true", "workers: 7", "mirrors:\n      - a\n      - b"}, []string{"problem"}},
		"text that looks like something else":     {"version.engine=2.2.1&option.engine.note=true", []string{"note: &#34;true&#34;"}, []string{"problem"}},
		"a number that is none":                   {"version.engine=2.2.1&option.engine.workers=many", []string{"engine: option workers: not a valid integer", `role="alert"`}, []string{"bundle-size"}},
		"further settings":                        {"version.engine=2.2.1&further=kurl:+{proxyAddress:+http://proxy:3128}", []string{"proxyAddress: http://proxy:3128"}, []string{"problem"}},
		"a setting without effect":                {"version.engine=2.2.1&further=kurl:+{licenseURL:+x}", []string{"kurl.licenseURL has no effect (show the license"}, []string{"problem"}},
		"further settings that are not YAML":      {"further=[", []string{"not a YAML mapping"}, []string{"bundle-size"}},
		"further options of a chosen add-on":      {"version.kubernetes=1.36.3&further=kubernetes:+{serviceCIDR:+10.96.0.0/16}", []string{"serviceCIDR: 10.96.0.0/16"}, []string{"problem"}},
		"an option twice":                         {"version.engine=2.2.1&further=engine:+{version:+1}", []string{"further settings: engine: version is also set above"}, []string{"bundle-size"}},
		"an option of kURL that is misspelt":      {"version.kubernetes=1.36.3&further=kurl:+{proxyAdress:+x}", []string{"did you mean &#34;proxyAddress&#34;"}, []string{"bundle-size"}},
		"what the store does not have":            {"further=unknown:+{version:+1}", []string{"<li>the store has no package unknown</li>\n<li>nor anything like it</li>"}, []string{"bundle-size"}},
		"a short text that stands for a long one": {"further=a:+%26x+[" + strings.Repeat("1,", 300) + "]%0Ab:+[" + strings.Repeat("*x,", 300) + "]", []string{"the aliases up to here add more than 50000 values"}, []string{"bundle-size"}},
		"the same in an option":                   {"version.engine=2.2.1&option.engine.mirrors=[%26x+[*x]]", []string{"engine: option mirrors: not a valid array"}, []string{"bundle-size"}},
		"an alias in an option":                   {"version.engine=2.2.1&option.engine.mirrors=[%26x+a,+*x]", []string{"mirrors:\n      - a\n      - a"}, []string{"problem"}},
		"markup is text":                          {"version.engine=2.2.1&option.engine.note=%3Cscript%3Ealert(1)%3C/script%3E", []string{"&lt;script&gt;alert(1)"}, []string{"<script>alert"}},
	} {
		t.Run(name, func(t *testing.T) {
			response, text := get(t, s.URL+"/compose?"+row.query)
			if response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
			for _, want := range row.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, no := range row.absent {
				if strings.Contains(text, no) {
					t.Errorf("%q in\n%s", no, text)
				}
			}
		})
	}
}

func TestScriptGetsResultOnly(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, serve(t).URL+"/compose?version.kubernetes=1.36.3", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Part", "result")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, response); strings.Contains(text, "<form") || !strings.Contains(text, "version: 1.36.3") {
		t.Errorf("got\n%s", text)
	}
}

func TestStoredInstallerShowsCommands(t *testing.T) {
	s := serve(t)
	response, err := http.PostForm(s.URL+"/compose", url.Values{"version.kubernetes": {"1.36.3"}})
	if err != nil {
		t.Fatal(err)
	}
	text := body(t, response)
	for _, want := range []string{`<code id="command-online">curl -fsSL ` + s.URL + "/", " | sudo bash</code>", s.URL + "/bundle/"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	response, err = http.PostForm(s.URL+"/compose", url.Values{"further": {"unknown: {version: 1}"}})
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, response); response.StatusCode != http.StatusUnprocessableEntity || strings.Contains(text, "sudo bash") {
		t.Errorf("%d: %s", response.StatusCode, text)
	}
}

// FuzzForm sends any form: the response is a page, and its content is escaped.
func FuzzForm(f *testing.F) {
	f.Add("1.36.3", "kurl: {proxyAddress: x}", "7", "[a]")
	f.Add("latest", "a: &x [*x]", "<b>", "}")
	dir := &folder{dir: f.TempDir()}
	site, err := page.New(dir)
	if err != nil {
		f.Fatal(err)
	}
	handle := site.Routes()[3].Handle
	f.Fuzz(func(t *testing.T, version, further, workers, mirrors string) {
		query := url.Values{"version.kubernetes": {version}, "further": {further}, "option.engine.workers": {workers}, "option.engine.mirrors": {mirrors}}
		recorder := httptest.NewRecorder()
		err := handle(recorder, httptest.NewRequest(http.MethodGet, "/compose?"+query.Encode(), nil))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if text := recorder.Body.String(); strings.Count(text, "<script") != 1 {
			t.Error(fmt.Sprint("markup escaped: ", text))
		}
	})
}
