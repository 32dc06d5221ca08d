package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestReleaseRunsFromInstallToUninstall(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.must(w.Install(ctx, "web", chart(t, "1.0.0", nil), []byte("text: one\n"), release.Options{Labels: map[string]string{"sum": "a"}}))
	r := w.wantStatus("web", 1, release.Deployed)
	if r.Chart != "web" || r.Version != "1.0.0" || r.AppVersion != "9" || r.Labels["sum"] != "a" || r.ServerSide || w.text("web") != "one" {
		t.Errorf("installed %+v with text %q", r, w.text("web"))
	}
	if !helm.SameValues(r.Values, map[string]any{"text": "one"}) {
		t.Errorf("values are %v", r.Values)
	}
	w.must(w.Upgrade(ctx, "web", chart(t, "1.1.0", nil), nil, release.Options{Labels: map[string]string{"sum": "b"}}))
	if r := w.wantStatus("web", 2, release.Deployed); len(r.Values) != 0 || w.text("web") != "plain" {
		t.Errorf("without values it has %v and text %q", r.Values, w.text("web"))
	}
	history, err := w.History(ctx, "web")
	if err != nil || len(history) != 2 || history[0].Status != "superseded" {
		t.Errorf("history is %+v, %v", history, err)
	}
	list, err := w.List(ctx)
	if err != nil || len(list) != 1 || list[0].Name != "web" || list[0].Revision != 2 || list[0].Status != release.Deployed ||
		len(list[0].Labels) != 1 || list[0].Labels["sum"] != "b" {
		t.Errorf("the list is %+v, %v", list, err)
	}
	for range 2 { // the second time there is none
		if err := w.Uninstall(ctx, "web", release.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Get(ctx, "web"); !errors.Is(err, release.ErrNotFound) || w.text("web") != "" {
		t.Errorf("after uninstalling: %v, text %q", err, w.text("web"))
	}
	if history, err := w.History(ctx, "web"); err != nil || len(history) != 0 {
		t.Errorf("after uninstalling the history is %v, %v", history, err)
	}
}

func TestUpgradeKeepsValuesOnRequest(t *testing.T) {
	w := newWorld(t)
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), []byte("text: mine\na: {b: 1}\n"), release.Options{}))
	w.must(w.Upgrade(t.Context(), "web", chart(t, "1.1.0", nil), []byte("a: {c: 2}\n"), release.Options{ResetThenReuseValues: true}))
	r := w.wantStatus("web", 2, release.Deployed)
	if want := map[string]any{"text": "mine", "a": map[string]any{"b": 1.0, "c": 2.0}}; !helm.SameValues(r.Values, want) {
		t.Errorf("values are %v", r.Values)
	}
	w.must(w.Upgrade(t.Context(), "web", chart(t, "1.2.0", nil), nil, release.Options{MaxHistory: 2}))
	if history, err := w.History(t.Context(), "web"); err != nil || len(history) != 2 || history[1].Revision != 3 {
		t.Errorf("kept are %v, %v", history, err)
	}
}

func TestUninstalledReleaseWithHistoryIsReinstalled(t *testing.T) {
	w := newWorld(t)
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{}))
	for range 2 {
		if err := w.Uninstall(t.Context(), "web", release.Options{KeepHistory: true, Description: "no longer needed"}); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.wantStatus("web", 1, release.Uninstalled); r.Description != "no longer needed" {
		t.Errorf("description is %q", r.Description)
	}
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{}))
	w.wantStatus("web", 2, release.Deployed)
}

func TestNamespaceIsCreatedOnRequest(t *testing.T) {
	w := newWorld(t)
	w.namespace += "-new"
	c := w.client(release.Config{ConfigMaps: true})
	_, err := c.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{})
	contains(t, err, "not found")
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a namespace that does not exist has releases %v, %v", list, err)
	}
	w.must(c.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{CreateNamespace: true}))
	if list, err := c.List(t.Context()); err != nil || len(list) != 1 || list[0].Status != release.Deployed || w.text("sh.helm.release.v1.web.v1") != "" {
		t.Errorf("releases in ConfigMaps: %v, %v", list, err)
	}
	w.must(w.objects.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "sh.helm.release.v1.web.v1", metav1.GetOptions{}))
}

func TestForeignObjectsAreAdoptedOnlyOnRequest(t *testing.T) {
	w := newWorld(t)
	w.must(w.objects.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"text": "theirs"},
	}, metav1.CreateOptions{}))
	_, err := w.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{})
	contains(t, err, "invalid ownership metadata")
	if _, err := w.Get(t.Context(), "web"); !errors.Is(err, release.ErrNotFound) || w.text("web") != "theirs" {
		t.Errorf("refused, and still: %v, text %q", err, w.text("web"))
	}
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{TakeOwnership: true}))
	if w.text("web") != "plain" {
		t.Errorf("text is %q", w.text("web"))
	}
}

// TestKilledUpgradeIsRecovered kills the process of an upgrade with SIGKILL while its hook runs.
func TestKilledUpgradeIsRecovered(t *testing.T) {
	w := newWorld(t)
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{}))
	dir := t.TempDir()
	j := job{Kubeconfig: filepath.Join(dir, "kubeconfig"), Namespace: w.namespace, Chart: filepath.Join(dir, "web.tgz")}
	if err := controlplane.WriteKubeconfig(j.Kubeconfig, w.config); err != nil {
		t.Fatal(err)
	}
	archive := fixture.ChartArchive(t, "web", files("1.1.0", map[string]string{"templates/hook.yaml": fmt.Sprintf(endless, "pre-upgrade")}))
	if err := os.WriteFile(j.Chart, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env, child.Stderr = append(os.Environ(), upgradeJob+"="+string(text)), os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for r := (release.Release{}); r.Status != "pending-upgrade"; time.Sleep(50 * time.Millisecond) {
		if r, err = w.Get(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	_, err = w.Upgrade(t.Context(), "web", chart(t, "1.2.0", nil), nil, release.Options{})
	if !errors.Is(err, release.ErrPending) {
		t.Fatalf("an upgrade over one that was killed: %v", err)
	}
	if done, err := w.Recover(t.Context(), "web"); err != nil || !done {
		t.Fatal(done, err)
	}
	w.must(w.Upgrade(t.Context(), "web", chart(t, "1.2.0", nil), nil, release.Options{}))
	if r := w.wantStatus("web", 3, release.Deployed); r.Version != "1.2.0" {
		t.Errorf("version is %s", r.Version)
	}
	if done, err := w.Recover(t.Context(), "web"); err != nil || done {
		t.Errorf("a deployed release is recovered: %v, %v", done, err)
	}
	history, err := w.History(t.Context(), "web")
	if err != nil || len(history) != 3 || history[0].Status != "superseded" || history[1].Status != release.Failed {
		t.Errorf("history is %+v, %v", history, err)
	}
}

func TestContextEndsOperation(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if r, err := w.Get(t.Context(), "web"); err == nil && r.Status == "pending-install" {
				cancel()
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	defer cancel()
	hook := map[string]string{"templates/hook.yaml": fmt.Sprintf(endless, "pre-install")}
	_, err := w.Install(ctx, "web", chart(t, "1.0.0", hook), nil, release.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	w.wantStatus("web", 1, release.Failed)
	w.must(w.Upgrade(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{}))
	w.wantStatus("web", 2, release.Deployed)
}

func TestFailedAtomicOperationIsRolledBack(t *testing.T) {
	w := newWorld(t)
	o := release.Options{Atomic: true, Timeout: time.Second}
	_, err := w.Install(t.Context(), "web", chart(t, "1.0.0", map[string]string{"templates/hook.yaml": fmt.Sprintf(endless, "post-install")}), nil, o)
	contains(t, err, "post-install")
	if _, err := w.Get(t.Context(), "web"); !errors.Is(err, release.ErrNotFound) {
		t.Fatalf("after an atomic installation that failed: %v", err)
	}
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), []byte("text: one\n"), o))
	_, err = w.Upgrade(t.Context(), "web", chart(t, "1.1.0", map[string]string{"templates/hook.yaml": fmt.Sprintf(endless, "post-upgrade")}), []byte("text: two\n"), o)
	contains(t, err, "post-upgrade")
	if r := w.wantStatus("web", 3, release.Deployed); r.Version != "1.0.0" || w.text("web") != "one" {
		t.Errorf("rolled back to %s with text %q", r.Version, w.text("web"))
	}
}

func TestErrorsContainNoValues(t *testing.T) {
	w := newWorld(t)
	const secret = "correct horse \"battery\" staple"
	values, err := json.Marshal(map[string]any{"db": map[string]any{"password": secret, "pin": "77"}, "list": []string{"another secret"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ template, want string }{
		"a template":     {`{{ fail (printf "bad password %s, pin %s, %s" .Values.db.password .Values.db.pin (index .Values.list 0)) }}`, "<value db.password>"},
		"the API server": {"apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: {{ .Values.db.password | quote }}, ports: [{port: 1}]}\n", "<value db.password>"},
		"a schema":       {"", "<value db.password>"},
	} {
		t.Run(name, func(t *testing.T) {
			changes := map[string]string{"templates/x.yaml": test.template}
			if test.template == "" {
				changes["values.schema.json"] = `{"properties": {"db": {"properties": {"password": {"pattern": "^[a-z]+$"}}}}}`
			}
			_, err := w.Install(t.Context(), "web", chart(t, "1.0.0", changes), values, release.Options{})
			contains(t, err, test.want)
			for _, s := range []string{"battery", "77", "another secret"} {
				if err != nil && strings.Contains(err.Error(), s) {
					t.Errorf("the error shows %q: %v", s, err)
				}
			}
		})
	}
	_, err = w.Install(t.Context(), "web", chart(t, "1.0.0", nil), []byte("password: [\n"), release.Options{})
	contains(t, err, "values: ")
}

func TestRenderWritesNothing(t *testing.T) {
	w := newWorld(t)
	c := chart(t, "1.0.0", map[string]string{
		"templates/l.yaml": "{{ with lookup \"v1\" \"Namespace\" \"\" .Release.Namespace }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: found}\ndata: {name: {{ .metadata.name }}}\n{{ end }}",
	})
	o := release.Options{PostRender: func(in []byte) ([]byte, error) {
		return []byte(strings.ReplaceAll(string(in), "plain", "changed")), nil
	}}
	rendered, err := w.Render(t.Context(), "web", c, nil, o)
	if err != nil || !strings.Contains(rendered, `upgrade: "true"`) || !strings.Contains(rendered, "name: "+w.namespace) || !strings.Contains(rendered, "changed") {
		t.Fatalf("%v\n%s", err, rendered)
	}
	if list, err := w.List(t.Context()); err != nil || len(list) != 0 || w.text("web") != "" {
		t.Errorf("rendering installed %v, %v", list, err)
	}
	w.must(w.Install(t.Context(), "web", c, nil, o))
	w.must(w.Upgrade(t.Context(), "web", c, nil, o))
	if r := w.wantStatus("web", 2, release.Deployed); r.Manifest != rendered || w.text("web") != "changed" {
		t.Errorf("the upgrade applied\n%s\nand rendered was\n%s", r.Manifest, rendered)
	}
}

func TestChartsComeFromDirectoriesArchivesAndFiles(t *testing.T) {
	dir := t.TempDir()
	inMemory := make(map[string][]byte)
	for name, content := range files("1.0.0", map[string]string{".helmignore": "*.md\n", "README.md": "x"}) {
		inMemory[name] = []byte(content)
		file := filepath.Join(dir, "web", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, "web.tgz")
	if err := os.WriteFile(archive, fixture.ChartArchive(t, "web", files("1.0.0", nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "web"), archive} {
		if c, err := release.Load(path); err != nil || c.Name != "web" || c.Version != "1.0.0" || c.AppVersion != "9" {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
	if c, err := release.ReadFiles(inMemory); err != nil || c.Name != "web" {
		t.Errorf("%+v, %v", c, err)
	}
	_, err := release.ReadFiles(map[string][]byte{"templates/c.yaml": nil})
	contains(t, err, "Chart.yaml")
	_, err = release.Load(filepath.Join(dir, "none"))
	contains(t, err, "no such file")
	w := newWorld(t)
	_, err = w.Install(t.Context(), "web", release.Chart{}, nil, release.Options{})
	contains(t, err, "no chart was given")
	_, err = w.Install(t.Context(), "web", chart(t, "1.0.0", map[string]string{"Chart.yaml": files("1.0.0", nil)["Chart.yaml"] + "type: library\n"}), nil, release.Options{})
	contains(t, err, "a library")
}

func TestMissingDependenciesAreNamedAndAdded(t *testing.T) {
	t.Parallel()
	c := chart(t, "1.0.0", map[string]string{
		"Chart.yaml":              files("1.0.0", nil)["Chart.yaml"] + "dependencies: [{name: db, version: 1.x, repository: \"https://a\"}, {name: there, version: 1.0.0}]\n",
		"Chart.lock":              "dependencies: [{name: db, version: 1.4.0, repository: \"https://a\"}]\n",
		"charts/there/Chart.yaml": "apiVersion: v2\nname: there\nversion: 1.0.0\n",
	})
	missing, err := c.Missing()
	if err != nil || len(missing) != 1 || missing[0] != (release.Dependency{Repository: "https://a", Name: "db", Version: "1.4.0"}) {
		t.Fatalf("missing are %v, %v", missing, err)
	}
	whole, err := c.With(fixture.ChartArchive(t, "db", map[string]string{"Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.4.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if missing, err = whole.Missing(); err != nil || len(missing) != 0 {
		t.Errorf("missing are %v, %v", missing, err)
	}
	_, err = c.With([]byte("no archive"))
	contains(t, err, "web with its dependencies")
}
