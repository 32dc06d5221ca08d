package release_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestLargeChartsAreRefused(t *testing.T) {
	sub := func(name string, files map[string]string) string {
		files["Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"
		return string(fixture.ChartArchive(t, name, files))
	}
	nested := map[string]string{}
	for i := range 12 {
		name := fmt.Sprintf("sub%d", i)
		nested["charts/"+name+".tgz"] = sub(name, map[string]string{"large.txt": strings.Repeat(" ", 8<<20)})
	}
	deep := sub("deep", map[string]string{})
	for range 10 {
		deep = sub("deep", map[string]string{"charts/deep.tgz": deep})
	}
	for want, changes := range map[string]map[string]string{
		"64 MiB of files":                {"large.txt": strings.Repeat(" ", 65<<20)},
		"64 MiB of files; make":          nested,
		"2 MiB of Chart.yaml":            {"values.yaml": "a: [" + strings.Repeat("1,", 1<<20) + "1]\n"},
		"8 archives inside each other":   {"charts/deep.tgz": deep},
		"2 MiB of Chart.yaml, values.ya": {"charts/sub.tgz": sub("sub", map[string]string{"values.yaml": strings.Repeat("# a comment\n", 1<<18)})},
	} {
		archive := fixture.ChartArchive(t, "web", files("1.0.0", changes))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := release.ReadArchive(archive)
		runtime.ReadMemStats(&after)
		if contains(t, err, "exceeds its limit of "+want); !errors.Is(err, sandbox.ErrLimit) {
			t.Errorf("%s: %v", want, err)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 16<<20 {
			t.Errorf("%s: %d MiB were allocated", want, made>>20)
		}
		if _, err := chart(t, "1.0.0", nil).With(archive); !errors.Is(err, sandbox.ErrLimit) {
			t.Errorf("%s, as a dependency: %v", want, err)
		}
	}
}

// TestInstallOfUnboundedChartFails installs a chart that depends on one with an endless template, and then one that ends.
func TestInstallOfUnboundedChartFails(t *testing.T) {
	w := newWorld(t)
	loops := chart(t, "1.0.0", map[string]string{
		"charts/sub/Chart.yaml":       "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/x.yaml": `{{ repeat 600000000 "x" | len }}{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`,
	})
	began := time.Now()
	_, err := w.Install(t.Context(), "web", loops, nil, release.Options{})
	if contains(t, err, "rendering the chart web for release web exceeds its limit of 512 MiB of memory"); !errors.Is(err, sandbox.ErrLimit) || time.Since(began) > time.Minute {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", nil), nil, release.Options{}))
	r := w.wantStatus("web", 1, release.Deployed)
	if strings.Contains(r.Manifest, "sealift") {
		t.Errorf("the release has %s", r.Manifest)
	}
}

// TestRecordOfReleaseHasItsTemplates upgrades with the values and the chart that the record of the release has.
func TestRecordOfReleaseHasItsTemplates(t *testing.T) {
	w := newWorld(t)
	w.must(w.Install(t.Context(), "web", chart(t, "1.0.0", map[string]string{
		"Chart.yaml":                  "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: sub, version: 1.0.0, alias: one, condition: one.enabled}\n- {name: sub, version: 1.0.0, alias: two, condition: two.enabled}\n",
		"values.yaml":                 "text: plain\none: {enabled: true, x: a}\ntwo: {enabled: false}\n",
		"charts/sub/Chart.yaml":       "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/values.yaml":      "x: default\n",
		"charts/sub/templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Chart.Name }}}\ndata: {x: {{ .Values.x | quote }}}\n",
	}), nil, release.Options{}))
	r := w.wantStatus("web", 1, release.Deployed)
	for _, want := range []string{"# Source: web/charts/one/templates/x.yaml", `data: {x: "a"}`, "# Source: web/templates/c.yaml"} {
		if !strings.Contains(r.Manifest, want) {
			t.Errorf("the manifest lacks %s:\n%s", want, r.Manifest)
		}
	}
	if strings.Contains(r.Manifest, "charts/two") {
		t.Errorf("a chart that is switched off is installed:\n%s", r.Manifest)
	}
	templates := w.templates("web", 1)
	if !strings.Contains(templates, ".Values.text | quote") || strings.Contains(templates, "sealiftText") || strings.Contains(templates, "sealiftExecute") {
		t.Errorf("the record of the release has the templates %s", templates)
	}
}

// templates returns the templates in the record of a release.
func (w *world) templates(name string, revision int) string {
	w.t.Helper()
	secret, err := w.objects.CoreV1().Secrets(w.namespace).Get(w.t.Context(), fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		w.t.Fatal(err)
	}
	var record struct {
		Chart struct{ Templates []struct{ Data []byte } }
	}
	if err := json.NewDecoder(text).Decode(&record); err != nil {
		w.t.Fatal(err)
	}
	var all strings.Builder
	for _, t := range record.Chart.Templates {
		all.Write(t.Data)
	}
	return all.String()
}
