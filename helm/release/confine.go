package release

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// Tenants write templates, and Helm's actions execute them in this process. So each action gets a chart whose templates only call
// functions of a confined. The first template that Helm executes is one that confined adds: it hands over the values that Helm has made,
// the chart gets its templates back, and a child process executes them. Each of the others returns the text that became of it.
type confined struct {
	chart *chart.Chart
	// execute executes all templates of the chart in a child process.
	execute func(c *chart.Chart, top map[string]any) (map[string]string, error)
	// more returns what the manifest gets besides the results of the templates. It may be nil.
	more func(rendered map[string]string) (string, error)

	had   []*common.File          // the chart's own list of templates
	texts map[*common.File][]byte // of all charts
	files map[string]string       // results of the templates, by path
	err   error                   // of execute; Helm's error is about a template that no chart has
}

// Functions of confined templates. Nobody else can call them: no other templates are parsed.
const (
	executeFunction = "sealiftExecute"
	textFunction    = "sealiftText"
)

// confine replaces the templates of a chart.
func confine(c *chart.Chart, execute func(*chart.Chart, map[string]any) (map[string]string, error)) *confined {
	f := &confined{chart: c, execute: execute, had: c.Templates, texts: make(map[*common.File][]byte)}
	depth := f.replace(c)
	// Helm executes the templates in the deepest folder first, and the manifest names the one that its definitions come from
	first := &common.File{Name: "templates/" + strings.Repeat("first/", depth+1) + "crds", Data: []byte("{{ " + executeFunction + " . }}")}
	c.Templates = append([]*common.File{first}, c.Templates...)
	return f
}

// replace replaces the templates of a chart and its dependencies. It returns the maximum depth.
func (f *confined) replace(c *chart.Chart) (depth int) {
	for _, t := range c.Templates {
		if t != nil {
			f.texts[t] = t.Data
			t.Data = []byte("{{ " + textFunction + " .Template.Name }}")
			depth = max(depth, strings.Count(path.Join(c.ChartFullPath(), t.Name), "/"))
		}
	}
	for _, d := range c.Dependencies() {
		depth = max(depth, f.replace(d))
	}
	return depth
}

// restore restores the templates of the chart. Helm may have copied charts of dependencies, but not their files.
func (f *confined) restore() {
	f.chart.Templates = f.had
	for file, text := range f.texts {
		file.Data = text
	}
}

func (f *confined) functions() map[string]any {
	return map[string]any{
		executeFunction: func(top map[string]any) (string, error) {
			f.restore()
			if f.files, f.err = f.execute(f.chart, top); f.err != nil || f.more == nil {
				return "", f.err
			}
			var text string
			text, f.err = f.more(f.files)
			return text, f.err
		},
		textFunction: func(name string) (string, error) {
			text, found := f.files[name]
			if !found {
				return "", fmt.Errorf("template %s was not executed", name)
			}
			return text, nil
		},
	}
}
