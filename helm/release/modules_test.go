package release_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// ensureJob names the environment variable with the job of a process that keeps a release of a module, and is killed.
const ensureJob = "SEALIFT_TEST_ENSURE"

func ensureUntilKilled(text string) error {
	j, c, err := begin(text)
	if err != nil {
		return err
	}
	modules := release.NewModules(c, release.ModuleOptions{})
	for i := 0; ; i++ {
		w := helm.Wanted{Name: "killed", Dir: j.Chart, Values: map[string]any{"killed": map[string]any{"text": fmt.Sprint(os.Getpid(), " ", i)}}}
		if _, err := modules.Ensure(context.Background(), w); err != nil {
			return err
		}
	}
}

const moduleTemplate = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ index .Values .Release.Name \"text\" | quote }}}\n"

// moduleDir writes a module with a chart, and with more than a chart.
func moduleDir(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"templates/c.yaml": "\n" + moduleTemplate + "\n\n---\n\n# a comment\n" + strings.Replace(moduleTemplate, "Name }}}", "Name }}-2}", 1) + "\n\n", "values.yaml": "web: {text: from the file, more: 1}\nwebEnabled: true\n",
		"hooks/h.sh": "#!/bin/false", "enabled": "#!/bin/false", "openapi/values.yaml": "type: object", "crds/broken.yaml": "{",
	}
	maps.Copy(all, changes)
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestModuleReleaseIsUpgradedOnlyWhenChanged(t *testing.T) {
	w := newWorld(t)
	modules := release.NewModules(w.Client, release.ModuleOptions{})
	wanted := helm.Wanted{Name: "web", Dir: moduleDir(t, nil), Values: map[string]any{"web": map[string]any{"text": "one"}, "global": map[string]any{}}}
	step := func(why string, revision int) {
		t.Helper()
		done, err := modules.Ensure(t.Context(), wanted)
		if err != nil || done.Upgraded != (why != "") || done.Why != why {
			t.Errorf("%+v, %v", done, err)
		}
		w.wantStatus("web", revision, release.Deployed)
	}
	step("it is not installed", 1)
	step("", 1)
	wanted.Values["web"] = map[string]any{"text": "one", "unused": 1}
	step("", 1)
	wanted.Values["web"] = map[string]any{"text": "two"}
	step("its chart renders to something else", 2)
	r := w.wantStatus("web", 2, release.Deployed)
	if w.text("web") != "two" || r.Labels["moduleChecksum"] == "" || r.Values["web"].(map[string]any)["more"] != nil {
		t.Errorf("the release is %+v with text %q", r, w.text("web"))
	}
	wanted.Absent = func(_ context.Context, manifest string) ([]string, error) {
		if _, err := w.objects.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil && manifest == r.Manifest {
			return []string{"ConfigMap/web"}, nil
		}
		return nil, nil
	}
	step("", 2)
	if err := w.objects.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	step("1 of its objects are absent, such as ConfigMap/web", 3)
	if w.text("web") != "two" {
		t.Error("the object did not come back")
	}
	wanted.Unmanaged, wanted.Values["web"] = true, map[string]any{"text": "three"}
	step("its maintenance has changed", 4)
	wanted.Values["web"] = map[string]any{"text": "four"}
	step("", 4)
	if text := w.text("web"); text != "three" {
		t.Errorf("during maintenance the text is %q", text)
	}
	wanted.Unmanaged = false
	step("its maintenance has changed", 5)
	step("", 5)
	if r := w.wantStatus("web", 5, release.Deployed); w.text("web") != "four" || r.Labels["maintenance.deckhouse.io/no-resource-reconciliation"] != "" {
		t.Errorf("after maintenance: %q, %v", w.text("web"), r.Labels)
	}
	if err := modules.Uninstall(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if all, err := modules.List(t.Context()); err != nil || len(all) != 0 || w.text("web") != "" {
		t.Errorf("after the removal: %v, %v", all, err)
	}
}

// TestModuleFollowsKindsOfItsCluster: another client installs a kind that a template asks for.
func TestModuleFollowsKindsOfItsCluster(t *testing.T) {
	w := newWorld(t)
	modules := release.NewModules(w.client(release.Config{OfferAge: time.Millisecond}), release.ModuleOptions{})
	dir := moduleDir(t, map[string]string{"templates/kind.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kind}\n" +
		"data: {there: '{{ .Capabilities.APIVersions.Has \"late.example.com/v1/Late\" }}'}\n"})
	wanted := helm.Wanted{Name: "web", Dir: dir, Values: map[string]any{}}
	for _, there := range []string{"false", "true"} {
		done, err := modules.Ensure(t.Context(), wanted)
		for deadline := time.Now().Add(time.Minute); err == nil && !done.Upgraded && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			done, err = modules.Ensure(t.Context(), wanted)
		}
		if err != nil || !done.Upgraded || !strings.Contains(done.Manifest, "there: '"+there+"'") {
			t.Fatalf("%+v, %v", done, err)
		}
		if there == "false" {
			w.must(w.objects.RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Body([]byte(lateKind)).
				SetHeader("Content-Type", "application/yaml").Do(t.Context()).Raw())
		}
	}
}

const lateKind = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lates.late.example.com}
spec:
  group: late.example.com
  scope: Namespaced
  names: {kind: Late, plural: lates}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// TestAddOnFilesBesideModuleAreNotItsChart: images of an add-on would fill a release, and no template reads them.
func TestAddOnFilesBesideModuleAreNotItsChart(t *testing.T) {
	w := newWorld(t)
	more := map[string]string{"install.sh": "", "images/index.json": "{}", "images/blobs/sha256/0": "", "files/x": "",
		"templates/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: files}\ndata: {text: '{{ range $path, $_ := .Files }}{{ $path }} {{ end }}'}\n"}
	for want, manifest := range map[string]string{"text: 'files/x '": "Manifest", "text: 'another files/x images/blobs/sha256/0 images/index.json install.sh '": "another"} {
		more[manifest] = ""
		done, err := release.NewModules(w.Client, release.ModuleOptions{}).Ensure(t.Context(), helm.Wanted{Name: "web", Dir: moduleDir(t, more), Values: map[string]any{}})
		if err != nil || !strings.Contains(done.Manifest, want) {
			t.Errorf("with a file %s: %v\n%s", manifest, err, done.Manifest)
		}
		delete(more, manifest)
	}
}

// TestLinksInModulesAreFollowed: a module may be a link, and so may a part of it.
func TestLinksInModulesAreFollowed(t *testing.T) {
	w := newWorld(t)
	shared := moduleDir(t, map[string]string{"deep/x.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: deep}\n"})
	link := filepath.Join(t.TempDir(), "001-web")
	for from, to := range map[string]string{link: shared, filepath.Join(shared, "templates", "linked"): filepath.Join(shared, "deep")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	wanted := helm.Wanted{Name: "web", Dir: link, Values: map[string]any{"web": map[string]any{"text": "linked"}}}
	done, err := release.NewModules(w.Client, release.ModuleOptions{}).Ensure(t.Context(), wanted)
	if err != nil || w.text("web") != "linked" || !strings.Contains(done.Manifest, "kind: Secret") {
		t.Errorf("%v\n%s", err, done.Manifest)
	}
	if err := os.Symlink("..", filepath.Join(shared, "templates", "circle")); err != nil {
		t.Fatal(err)
	}
	if _, err := release.NewModules(w.Client, release.ModuleOptions{}).Ensure(t.Context(), wanted); err == nil || !strings.Contains(err.Error(), "folder above it") {
		t.Errorf("a link in a circle: %v", err)
	}
}

// TestHelmAndAddonOperatorReleasesAreAdopted installs with Helm 3 itself: without a checksum, with addon-operator's label,
// and with the value that it had before.
func TestHelmAndAddonOperatorReleasesAreAdopted(t *testing.T) {
	w := newWorld(t)
	helm3 := w.helm3()
	dir := moduleDir(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: any\nversion: 0.0.1\n"})
	chart, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	modules := release.NewModules(w.Client, release.ModuleOptions{})
	for name, upgrades := range map[string]bool{"by-helm": true, "by-label": false, "by-value": false} {
		values := map[string]any{name: map[string]any{"text": "same"}}
		install := action.NewInstall(helm3)
		install.ReleaseName, install.Namespace = name, w.namespace
		install.DryRun, install.IsUpgrade, install.SkipCRDs = true, true, true
		rendered, err := install.Run(chart, values)
		if err != nil {
			t.Fatal(err)
		}
		sum := md5.Sum([]byte(rendered.Manifest))
		install.DryRun = false
		given := map[string]any{name: values[name]}
		switch name {
		case "by-label":
			install.Labels = map[string]string{"moduleChecksum": hex.EncodeToString(sum[:])}
		case "by-value":
			given["_addonOperatorModuleChecksum"] = hex.EncodeToString(sum[:])
		}
		w.must(install.Run(chart, given))
		before, err := w.objects.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := modules.Ensure(t.Context(), helm.Wanted{Name: name, Dir: dir, Values: values}); err != nil {
				t.Fatal(err)
			}
		}
		revision := 1
		if upgrades {
			revision = 2
		}
		w.wantStatus(name, revision, release.Deployed)
		after, err := w.objects.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: the object was changed: %v", name, err)
		}
	}
}

// TestKilledOperatorNeedsNoRepair kills a process ten times while it upgrades one revision after the other.
func TestKilledOperatorNeedsNoRepair(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	j := job{Kubeconfig: filepath.Join(dir, "kubeconfig"), Namespace: w.namespace, Chart: moduleDir(t, nil)}
	if err := controlplane.WriteKubeconfig(j.Kubeconfig, w.config); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	modules := release.NewModules(w.Client, release.ModuleOptions{})
	states := map[string]int{}
	for i := range 10 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env, child.Stderr = append(os.Environ(), ensureJob+"="+string(text)), os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		last := func() int { r, _ := w.Get(t.Context(), "killed"); return r.Revision }
		for begin := last(); last() == begin; { // it is running
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(rand.N(60 * time.Millisecond))
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		r, err := w.Get(t.Context(), "killed")
		if err != nil {
			t.Fatal(err)
		}
		states[r.Status]++
		want := fmt.Sprint("after kill ", i)
		done, err := modules.Ensure(t.Context(), helm.Wanted{Name: "killed", Dir: j.Chart, Values: map[string]any{"killed": map[string]any{"text": want}}})
		if err != nil || w.text("killed") != want {
			t.Fatalf("after %s: %+v, %v", r.Status, done, err)
		}
		w.wantStatus("killed", last(), release.Deployed)
	}
	t.Logf("the kills left %v", states)
	if states["deployed"] == 10 {
		t.Error("no kill came during an upgrade")
	}
}

// TestPreparedChartIsNotReadAgain removes the chart between the two.
func TestPreparedChartIsNotReadAgain(t *testing.T) {
	w := newWorld(t)
	modules := release.NewModules(w.Client, release.ModuleOptions{})
	wanted := helm.Wanted{Name: "web", Dir: moduleDir(t, nil), Values: map[string]any{"web": map[string]any{"text": "one"}, "global": map[string]any{}}}
	wanted.Files = modules.Prepare(t.Context(), wanted)
	if err := os.RemoveAll(wanted.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := modules.Ensure(t.Context(), wanted); err != nil || w.text("web") != "one" {
		t.Errorf("%v, %q", err, w.text("web"))
	}
	if files := modules.Prepare(t.Context(), wanted); files != nil {
		t.Errorf("there is no chart any more, and it has %d files", len(files))
	}
}
