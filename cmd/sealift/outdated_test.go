package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/cli/app"
)

// catalogueWithRegistry is a work tree with add-ons whose images a registry on loopback has.
type catalogueWithRegistry struct {
	dir  string
	host string
}

func newCatalogueWithRegistry(t *testing.T) catalogueWithRegistry {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := catalogueWithRegistry{dir: t.TempDir(), host: strings.TrimPrefix(server.URL, "http://")}
	c.put(t, "sealift.yaml", "mirrors: {registry.example.io: \""+server.URL[len("http://"):]+"\", silent.example.io: \""+strings.TrimPrefix(gone.URL, "http://")+"\"}\n")
	c.put(t, "addons/demo/template/Manifest.tmpl", "image app registry.example.io/app:v${VERSION}\nimage side registry.example.io/side:${SIDE}\n")
	c.put(t, "addons/demo/template/addon.yaml", "description: x\nupstream:\n  VERSION: {image: registry.example.io/app, tag: v*, lines: minor}\n  SIDE: {image: registry.example.io/side}\n")
	c.put(t, "addons/demo/template/install.sh", "demo() { :; }\n")
	c.put(t, "addons/demo/1.0.0/Manifest", "image app registry.example.io/app:v1.0.0\nimage side registry.example.io/side:3.0.0\n")
	for _, name := range []string{"addon.yaml", "install.sh"} {
		if err := os.Symlink("../template/"+name, filepath.Join(c.dir, "addons/demo/1.0.0", name)); err != nil {
			t.Fatal(err)
		}
	}
	c.push(t, "app:v1.0.0", "side:3.0.0")
	return c
}

func (c catalogueWithRegistry) put(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(c.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (c catalogueWithRegistry) push(t *testing.T, refs ...string) {
	t.Helper()
	for _, r := range refs {
		ref, err := name.ParseReference(c.host + "/" + r)
		if err != nil {
			t.Fatal(err)
		}
		image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Author: r, RootFS: v1.RootFS{Type: "layers"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command in the work tree.
func (c catalogueWithRegistry) run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Chdir(c.dir)
	return command(t, args...)
}

func TestOutdatedCatalogueIsUpdated(t *testing.T) {
	c := newCatalogueWithRegistry(t)
	outdated := func(wantCode int, args ...string) (rows []upstream.Row) {
		t.Helper()
		code, out, errOut := c.run(t, append([]string{"addon", "outdated", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &rows); err != nil || code != wantCode {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errOut)
		}
		return rows
	}
	update := func(wantCode int, args ...string) string {
		t.Helper()
		code, out, errOut := c.run(t, append([]string{"addon", "update", "demo", "--cache", filepath.Join(c.dir, ".cache")}, args...)...)
		if code != wantCode {
			t.Fatalf("exit code %d, want %d\n%s%s", code, wantCode, out, errOut)
		}
		return out + errOut
	}

	if rows := outdated(app.ExitDone, "--check"); len(rows) != 2 || rows[0].Status != upstream.Current || rows[1].Status != upstream.Current {
		t.Errorf("nothing is new, and the rows are %+v", rows)
	}
	if out := update(app.ExitDone); !strings.Contains(out, "demo 1.0.0 is the newest version that upstream has") {
		t.Errorf("got %s", out)
	}
	c.push(t, "app:v1.0.1", "app:v1.1.0-rc.1", "app:latest", "app:v1.2.0", "side:3.1.0")
	rows := outdated(app.ExitRefused, "--check")
	if len(rows) != 3 || rows[1].Newest != "1.0.1" || rows[1].Command != "sealift addon update demo 1.0.1" || rows[2].Newest != "1.2.0" || rows[2].Command != "" || len(rows[2].Broken) != 1 {
		t.Errorf("got %+v", rows)
	}
	if _, out, _ := c.run(t, "addon", "outdated"); !strings.Contains(out, "demo    VERSION    1.0.0  1.0.1   outdated  image registry.example.io/app\n") ||
		!strings.Contains(out, "demo VERSION: demo 1.2.0 skips 1.1: clusters are upgraded one minor version at a time\n") || !strings.Contains(out, "write it with: sealift addon update demo 1.0.1\n") {
		t.Errorf("got %s", out)
	}
	if rows := outdated(app.ExitDone, "addons", "--ignore", "demo"); rows[0].Status != upstream.Ignored {
		t.Errorf("got %+v", rows)
	}

	if out := update(app.ExitRefused, "1.2.0"); !strings.Contains(out, "demo 1.2.0 was not written: demo 1.2.0 skips 1.1") {
		t.Errorf("got %s", out)
	}
	if code, out, errOut := c.run(t, "lock", "addons/demo/1.0.0", "--cache", filepath.Join(c.dir, ".cache")); code != app.ExitDone {
		t.Fatal(out, errOut)
	}
	out := update(app.ExitDone)
	for _, want := range []string{
		"addons/demo/1.0.1: written\n  with SIDE=3.1.0\n  with VERSION=1.0.1\ncompared to 1.0.0: 2 changes\n",
		"image side: registry.example.io/side:3.1.0, was registry.example.io/side:3.0.0", "addons/demo/1.0.1/Manifest.lock: written, 2 changes",
		"  image registry.example.io/side:3.0.0: no longer needed, was sha256:", "  image registry.example.io/side:3.1.0: new, sha256:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s\nwithout %s", out, want)
		}
	}
	if code, out, errOut := c.run(t, "addon", "lint"); code != app.ExitFailed || strings.Contains(out, "template") {
		t.Errorf("a written version equals its template: exit code %d\n%s%s", code, out, errOut)
	}
	if rows := outdated(app.ExitRefused, "--check"); rows[1].Has != "1.0.1" || rows[1].Status != upstream.Current {
		t.Errorf("after the update: %+v", rows)
	}
}

func TestUpdateLeavesNothingBehind(t *testing.T) {
	c := newCatalogueWithRegistry(t)
	c.push(t, "app:v1.0.1")
	c.put(t, "addons/kubernetes/1.36.0/Manifest", "")
	c.put(t, "addons/demo/template/yaml/budget.yaml", "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: demo}\n")
	for want, test := range map[string]struct {
		args []string
		code int
	}{
		"demo 1.0.1 was not written: demo 1.0.1 has PodDisruptionBudget demo of policy/v1beta1, which Kubernetes 1.25 removed": {[]string{"demo"}, app.ExitRefused},
		"upstream has no demo 9.9.9; its newest are 1.0.1, 1.0.0":                                                              {[]string{"demo", "9.9.9"}, app.ExitFailed},
		`no add-on dem with a template (did you mean "demo"?)`:                                                                 {[]string{"dem"}, app.ExitFailed},
		"is not of the form NAME[.PARAMETER][@VERSION]":                                                                        {[]string{"demo", "--ignore", "@1"}, app.ExitUsage},
	} {
		code, out, errOut := c.run(t, append([]string{"addon", "update", "--no-lock"}, test.args...)...)
		if code != test.code || !strings.Contains(errOut, want) {
			t.Errorf("exit code %d, want %d: %s%s", code, test.code, out, errOut)
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "addons/demo/1.0.1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused version is left behind: %v", err)
	}
}

func TestSilentUpstreamSetsExitCode(t *testing.T) {
	c := newCatalogueWithRegistry(t)
	c.push(t, "app:v1.0.1")
	c.put(t, "addons/other/template/Manifest.tmpl", "image app silent.example.io/app:v${VERSION}\n")
	c.put(t, "addons/other/template/addon.yaml", "upstream: {VERSION: {image: silent.example.io/app, tag: v*}}\n")
	code, out, errOut := c.run(t, "addon", "outdated", "--check")
	if code != app.ExitFailed || !strings.Contains(out, "write it with: sealift addon update demo 1.0.1") ||
		!strings.Contains(errOut, "other VERSION: image silent.example.io/app: ") || !strings.Contains(errOut, "1 of 3 rows could not be compared with upstream; the others are listed") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}
