package upstreamfiles

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/chart"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/catalog/lint"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/catalog/references/object"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/hooks/kurlbin"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// hidden returns the images that only the values of a chart name.
func hidden(r helm.Rendered) (images []object.Image) {
	uses := chart.ImagesOf(r)
	for _, use := range chart.NotCarried(uses.Hidden, chart.References(slices.Concat(uses.Pulled, uses.Named))) {
		images = append(images, object.Image{Ref: use.Ref, Rule: use.Rule, Where: use.Where})
	}
	return images
}

// addOn is the smallest add-on that installs files: its hook applies a folder, and its Manifest has the images.
func addOn(name, folder, manifest string, images []object.Image) map[string]string {
	listed := map[string]bool{}
	for _, image := range images {
		ref := image.Ref
		if named, err := reference.ParseNormalizedNamed(ref); err == nil {
			ref = reference.TagNameOnly(named).String() // a Manifest has no implied tag
		}
		if !listed[ref] {
			manifest += fmt.Sprintf("image image-%d %s\n", len(listed), ref)
		}
		listed[ref] = true
	}
	described := "apiVersion: troubleshoot.sh/v1beta2\nkind: %s\nmetadata: {name: x}\nspec:\n  %s:\n  - cpu: {}\n  analyzers: []\n"
	return map[string]string{
		"Manifest":            manifest,
		"addon.yaml":          "description: Files of upstream\n",
		"install.sh":          fmt.Sprintf("# shellcheck shell=bash\n%s() { sealift_apply %[1]s \"$DIR/addons/%[1]s/%s/%s\"; }\n", name, addOnVersion, folder),
		"host-preflight.yaml": fmt.Sprintf(described, "HostPreflight", "collectors"),
		"troubleshoot.yaml":   fmt.Sprintf(described, "SupportBundle", "hostCollectors"),
	}
}

const addOnVersion = "1.0"

// notes are parts of warnings that are true of upstream's files. They are printed.
var notes = []string{"is a hook of Helm", "looks for", "tag latest means another image tomorrow"}

// checkLint lints an add-on: nothing is wrong, and each image is known to be carried and to be needed.
func checkLint(t *testing.T, name string, files map[string]string, charts references.Charts) {
	t.Helper()
	functions, err := hook.PreludeFunctions()
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]string{}
	for file, text := range files {
		tree[filepath.Join("addons", name, addOnVersion, file)] = text
	}
	dir := filepath.Join(fixture.Folder(t, tree), "addons", name, addOnVersion)
	findings, err := lint.New(lint.Core{Functions: functions, Programs: kurlbin.Names()}, charts).AddOn(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		text := strings.ReplaceAll(f.Error(), dir+string(filepath.Separator), "")
		if slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(text, note) }) {
			t.Logf("lint: %s", text)
		} else {
			t.Errorf("lint: %s", text)
		}
	}
}

// lintManifests lints an add-on with the row's objects in one file.
func lintManifests(t *testing.T, text []byte, images []object.Image) {
	t.Helper()
	files := addOn("files", "yaml", "", images)
	maps.Copy(files, map[string]string{"yaml/kustomization.yaml": "resources: [rendered.yaml]\n", "yaml/rendered.yaml": string(text)})
	checkLint(t, "files", files, nil)
}

// lintChart lints an add-on with a chart that a repository serves. The chart brings the images of its pods.
func lintChart(t *testing.T, of helm.Release, version string, archive []byte, images []object.Image) {
	t.Helper()
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/index.yaml":
			fmt.Fprintf(w, "entries:\n  %s:\n  - {version: %q, urls: [chart.tgz]}\n", of.Name, version)
		case "/chart.tgz":
			_, _ = bytes.NewReader(archive).WriteTo(w)
		default:
			http.NotFound(w, request)
		}
	}))
	defer repository.Close()
	settings, err := config.Parse(config.FileName, strings.NewReader("mirrors: {\"https://charts.example.com/\": \""+repository.URL+"/\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(blobs, builder.Options{Config: settings, Charts: engine.Renderer{}})
	if err != nil {
		t.Fatal(err)
	}
	images = slices.DeleteFunc(slices.Clone(images), func(i object.Image) bool { return i.Certain })
	manifest := fmt.Sprintf("chart %s https://charts.example.com %s --namespace=%s\n", of.Name, version, of.Namespace)
	files := addOn(of.Name, "charts/"+of.Name, manifest, images)
	if len(of.Values) > 0 {
		files["charts/"+of.Name+"-values.yaml"] = string(of.Values)
	}
	checkLint(t, of.Name, files, b)
}
