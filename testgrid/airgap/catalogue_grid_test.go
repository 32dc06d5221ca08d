//go:build grid

package airgap_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// pagesOfUpstream serves what is not in a registry: GitHub's lists of releases, dates of end of life, and the constants of kubeadm, which
// come from the module of the real release. It adds the mirrors that lead there to a sealift.yaml.
func pagesOfUpstream(t *testing.T, config string, newest releases.Release) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes@v"+newest.Version).Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(out, &module) != nil {
		t.Fatalf("go mod download: %v: %s", err, out)
	}
	constants, err := os.ReadFile(filepath.Join(module.Dir, "cmd/kubeadm/app/constants/constants.go"))
	if err != nil {
		t.Fatal(err)
	}
	list := func(tags ...string) string {
		var page []string
		for _, tag := range tags {
			page = append(page, fmt.Sprintf(`{"tag_name": %q}`, tag))
		}
		return "[" + strings.Join(page, ",") + "]"
	}
	parameter := func(name, key string) (values []string) {
		for _, r := range releases.Of(name, releases.Lab) {
			values = append(values, r.With[key])
		}
		return slices.Compact(values)
	}
	var runtimes []string
	for _, r := range releases.Of("containerd", releases.Lab) {
		runtimes = append(runtimes, "v"+r.Version)
	}
	pages := map[string]string{
		"/api.github.com/repos/containerd/containerd/releases":                                                            list(runtimes...),
		"/api.github.com/repos/opencontainers/runc/releases":                                                              list(parameter("containerd", "runc")...),
		"/api.github.com/repos/containernetworking/plugins/releases":                                                      list(parameter("kubernetes", "cni-plugins")...),
		"/api.github.com/repos/flannel-io/cni-plugin/releases":                                                            list(parameter("flannel", "cni-plugin")...),
		"/endoflife.date/api/kubernetes.json":                                                                             `[{"cycle": "1.35", "eol": "2027-02-28"}]`,
		"/endoflife.date/api/containerd.json":                                                                             `[{"cycle": "2.2", "eol": "2027-11-06"}]`,
		"/raw.githubusercontent.com/kubernetes/kubernetes/v" + newest.Version + "/cmd/kubeadm/app/constants/constants.go": string(constants),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, found := pages[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	text, err := os.ReadFile(config)
	var settings map[string]map[string]string
	if err != nil || yaml.Unmarshal(text, &settings) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, host := range []string{"api.github.com", "endoflife.date", "raw.githubusercontent.com"} {
		settings["mirrors"]["https://"+host+"/"] = server.URL + "/" + host + "/"
	}
	if text, err = yaml.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	place(t, config, text)
}

// TestOldCatalogueIsBroughtUpToDate has the catalogue without the newest release of Kubernetes, and with the oldest of containerd and flannel alone: the
// newest are listed, also runc and the CNI plugins, and each is written as it ships, and locked.
func TestOldCatalogueIsBroughtUpToDate(t *testing.T) {
	short.Skip(t, "the lab")
	missing := map[string]releases.Release{}
	var chosen []string
	for _, name := range []string{"kubernetes", "containerd", "flannel"} {
		missing[name] = newest(name)
		chosen = append(chosen, name+"/"+missing[name].Version)
	}
	deliveries.once(t, "outdated", func(r delivery) {
		addons := filepath.Join(r.dir(), "addons")
		source, err := filepath.Abs(filepath.Join(repository, "addons"))
		if err != nil {
			t.Fatal(err)
		}
		shell(t, r.dir(), "mkdir addons && cp -a "+shellword.Quote(source)+"/{kubernetes,containerd,flannel} addons")
		shell(t, addons, "rm -r kubernetes/"+missing["kubernetes"].Version)
		for _, name := range []string{"containerd", "flannel"} {
			for _, later := range releases.Of(name, releases.Shipped)[1:] {
				shell(t, addons, "rm -r "+name+"/"+later.Version)
			}
		}
		r.mirrored(t, mirror.Of(chosen...), func() {
			pagesOfUpstream(t, r.config, missing["kubernetes"])
			r.namesOutdated(t, addons, missing)
			for name, release := range missing {
				t.Log(r.run(t, "addon", "update", name, "--addons", addons, "--config", r.config, "--cache", r.cache, "--target", "debian-12", "--lock"))
				shell(t, repository, "diff -r --no-dereference --exclude=Manifest.lock "+shellword.Quote(release.Folder())+" "+shellword.Quote(filepath.Join(r.dir(), release.Folder())))
				shell(t, filepath.Join(r.dir(), release.Folder()), "test -s Manifest.lock")
			}
			r.namesOutdated(t, addons, nil)
		})
	})
}

// namesOutdated checks that the missing releases are outdated rows with their parameters, and nothing else of these add-ons is.
func (r delivery) namesOutdated(t *testing.T, addons string, missing map[string]releases.Release) {
	t.Helper()
	var rows []struct{ AddOn, Parameter, Status, Newest, Error string }
	if err := json.Unmarshal([]byte(r.run(t, "addon", "outdated", addons, "--config", r.config, "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, row := range rows {
		if row.Error != "" {
			t.Errorf("%+v", row)
		}
		if row.Status == "outdated" {
			got = append(got, row.AddOn+" "+row.Parameter+" "+row.Newest)
		}
	}
	for name, release := range missing {
		want = append(want, name+" VERSION "+release.Version)
		for parameter, key := range map[string]string{"RUNC": "runc", "CNI_PLUGINS": "cni-plugins", "CNI_PLUGIN": "cni-plugin"} {
			if value := release.With[key]; value != "" {
				want = append(want, name+" "+parameter+" "+value)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("outdated are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
