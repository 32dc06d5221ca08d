package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/isolation"
)

// attacks are files of hostile charts, and the limit that each exceeds.
func attacks(t *testing.T) map[string]attack {
	return map[string]attack{
		"a large text":         {template(`a: {{ repeat 300000000 "x" }}`), "512 MiB of memory"},
		"a growing text":       {template(`{{ $s := "x" }}{{ range until 100 }}{{ $s = print $s $s }}{{ end }}`), "512 MiB of memory"},
		"nested ranges":        {template(endless), "10s of processor time"},
		"a regular expression": {template(`{{ range until 1000 }}{{ regexMatch "(a?){900}a{900}$" (repeat 100000 "a") }}{{ end }}`), "10s of processor time"},
		"a large result":       {template(`{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: "{{ repeat 30000000 "x" }}"}}`), "16384 KiB of result"},
		"archives in archives": {bomb(t), "512 MiB of memory"},
		"a schema":             {map[string]string{"values.schema.json": explosive(40), "values.yaml": "a: 1\n"}, "10s of processor time"},
	}
}

type attack struct {
	files map[string]string
	limit string
}

const endless = `{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`

// bomb depends on charts whose files are small only while they are compressed.
func bomb(t *testing.T) map[string]string {
	files := make(map[string]string)
	for i := range 12 {
		name := fmt.Sprintf("sub%d", i)
		files["charts/"+name+".tgz"] = string(fixture.ChartArchive(t, name, map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n", "large.txt": strings.Repeat(" ", 80<<20),
		}))
	}
	return files
}

func template(text string) map[string]string { return map[string]string{"templates/x.yaml": text} }

// explosive is a schema whose validation doubles with each level.
func explosive(levels int) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/d0", "$defs": {`)
	for i := range levels {
		fmt.Fprintf(&b, `"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d": {"type": "object"}}}`, levels)
	return b.String()
}

// TestChartsAreBounded renders charts of a tenant that exceed the limits. Each fails soon, without much memory and by name, while
// another tenant's chart is rendered all the time.
func TestChartsAreBounded(t *testing.T) {
	isolation.OthersGoOn(t, func(ctx context.Context) error {
		_, err := engine.Templates(ctx, "alice", chartOf(template("{{ .Release.Name }}")), top(), nil)
		return err
	})
	for name, attack := range attacks(t) {
		t.Run(name, func(t *testing.T) {
			if name == "a large result" && sandbox.Overhead > 1 {
				t.Skip("with the race detector, to parse so much YAML takes more processor time than a chart may have")
			}
			began := time.Now()
			_, err := render(t, "", attack.files)
			if took := time.Since(began); !errors.Is(err, sandbox.ErrLimit) || took > 3*time.Minute {
				t.Fatalf("after %v: %v", took, err)
			}
			if want := "rendering the chart of release hello exceeds its limit of " + attack.limit; !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	isolation.CheckMemory(t, 704<<20)
}

// TestRenderingEndsWithItsContext has loops that do not check their context.
func TestRenderingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := engine.Templates(ctx, "mallory", chartOf(template(endless)), top(), nil)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestTemplatesSeeHelmsObjects(t *testing.T) {
	sub := chartOf(map[string]string{"templates/s.yaml": `{{ .Chart.Name }} {{ .Values.x }} {{ .Chart.IsRoot }} {{ .Values.global.g }}`})
	sub.Metadata.Name = "sub"
	c := chartOf(map[string]string{
		"templates/_h.tpl": `{{ define "name" }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}`,
		"templates/c.yaml": `{{ include "name" . }} {{ .Values.n | int }} {{ .Values.f }} {{ .Release.Revision | add 1 }} {{ .Release.IsUpgrade }} {{ .Capabilities.KubeVersion }} ` +
			`{{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.APIVersions.Has "apps/v1" }} {{ .Template.Name }} {{ .Files.Get "a.txt" }} {{ .Values.none }}`,
		"templates/l.yaml": `{{ (lookup "v1" "Secret" "n" "s").data.x }}`,
	})
	c.Files = []*common.File{{Name: "a.txt", Data: []byte("file")}}
	c.AddDependency(sub)
	got, err := engine.Templates(t.Context(), "", c, top(), func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		return map[string]any{"data": map[string]any{"x": strings.Join([]string{apiVersion, kind, namespace, name}, " ")}}, nil
	})
	want := map[string]string{
		"web/templates/c.yaml":            "r-web 3 1.5 8 true v1.36.3 v1.36.3-eks true web/templates/c.yaml file ",
		"web/templates/l.yaml":            "v1 Secret n s",
		"web/charts/sub/templates/s.yaml": "sub 7 false 9",
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
	if _, err := engine.Templates(t.Context(), "", c, top(), func(string, string, string, string) (map[string]any, error) {
		return nil, errors.New("no such kind")
	}); err == nil || !strings.Contains(err.Error(), "no such kind") {
		t.Errorf("an error of lookup is %v", err)
	}
	c.Schema = []byte(`{"properties": {"n": {"type": "string"}}}`)
	if _, err := engine.Templates(t.Context(), "", c, top(), nil); err == nil || !strings.Contains(err.Error(), "don't meet the specifications of the schema") {
		t.Errorf("values that do not match the schema: %v", err)
	}
}

// chartOf makes the chart web.
func chartOf(templates map[string]string) *chart.Chart {
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "web", Version: "1.0.0", APIVersion: "v2"}}
	for name, text := range templates {
		c.Templates = append(c.Templates, &common.File{Name: name, Data: []byte(text)})
	}
	return c
}

func top() map[string]any {
	version, err := common.ParseKubeVersion("v1.36.3-eks")
	if err != nil {
		panic(err)
	}
	return map[string]any{
		"Values":       common.Values{"n": 3.0, "f": 1.5, "none": nil, "sub": map[string]any{"x": 7.0, "global": map[string]any{"g": 9.0}}},
		"Release":      map[string]any{"Name": "r", "Namespace": "n", "IsUpgrade": true, "IsInstall": false, "Revision": 7, "Service": "Helm"},
		"Capabilities": &common.Capabilities{KubeVersion: *version, APIVersions: common.VersionSet{"apps/v1"}},
	}
}
