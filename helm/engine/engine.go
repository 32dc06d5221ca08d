// Package engine renders Helm charts as `helm template` does: without a cluster, and with nothing but the chart and its
// values. Templates run in child processes, within limits: a program that renders charts has to serve Tasks.
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/sandbox"
)

// kubeVersion is the Kubernetes version that charts see. It is fixed, so that a chart does not change with the program that
// renders it.
const kubeVersion = "v1.36.0"

// epoch is the present time for templates: the time that every file of a package has.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Renderer renders charts. The zero value is ready, and may be used from several goroutines.
type Renderer struct{}

// Render implements helm.Renderer. It renders twice, and compares, to find out whether a template makes random values. An error about a
// limit is a *sandbox.LimitError.
func (Renderer) Render(ctx context.Context, archive []byte, r helm.Release) (helm.Rendered, error) {
	request := sandbox.Request{Name: "rendering the chart of release " + r.Name, Limits: limits}
	out, err := archiveTask.Run(ctx, request, archiveWork{archive, r})
	if err != nil {
		return helm.Rendered{}, err
	}
	switch {
	case out.Random != nil:
		return helm.Rendered{}, &helm.RandomError{Object: *out.Random}
	case out.BadValues != "":
		return helm.Rendered{}, &helm.ValuesError{Line: out.Line, Err: errors.New(out.BadValues)}
	}
	return out.Rendered, json.Unmarshal(out.Values, &out.Rendered.Values)
}

// renderTwice runs in the child.
func renderTwice(w archiveWork, _ sandbox.Ask) (out archiveResult, err error) {
	first, err := render(context.Background(), w.Archive, w.Release)
	if bad := new(helm.ValuesError); errors.As(err, &bad) {
		return archiveResult{BadValues: bad.Error(), Line: bad.Line}, nil
	}
	if err != nil {
		return out, err
	}
	second, err := render(context.Background(), w.Archive, w.Release)
	if err != nil {
		return out, err
	}
	for i, o := range first.Objects {
		if i >= len(second.Objects) || !bytes.Equal(o.YAML, second.Objects[i].YAML) {
			return archiveResult{Random: &o}, nil
		}
	}
	if err := applicable(first.Objects); err != nil {
		return out, err
	}
	out.Values, err = json.Marshal(first.Values)
	out.Rendered, out.Rendered.Values = first, nil
	return out, err
}

func render(ctx context.Context, archive []byte, r helm.Release) (helm.Rendered, error) {
	values, err := helm.ReadValues(r.Values)
	if err != nil {
		return helm.Rendered{}, err
	}
	loaded, err := load(archive)
	if err != nil {
		return helm.Rendered{}, err
	}
	out := helm.Rendered{Name: loaded.Metadata.Name, Version: loaded.Metadata.Version, AppVersion: loaded.AppVersion()}
	if out.Values, err = allValues(loaded, values); err != nil {
		return helm.Rendered{}, err
	}
	if err := chartutil.ProcessDependencies(loaded, values); err != nil {
		return helm.Rendered{}, fmt.Errorf("its dependencies: %w", err)
	}
	capabilities, err := capabilities()
	if err != nil {
		return helm.Rendered{}, err
	}
	if wanted := loaded.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, kubeVersion) {
		return helm.Rendered{}, fmt.Errorf("the chart requires Kubernetes %s, but charts are rendered for %s", wanted, kubeVersion)
	}
	if err := closeSchemas(loaded); err != nil {
		return helm.Rendered{}, err
	}
	release := common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}
	top, err := commonutil.ToRenderValues(loaded, values, release, capabilities)
	if err != nil {
		return helm.Rendered{}, err
	}
	lookups := make(map[string]bool)
	files, err := execute(ctx, loaded, top, lookups)
	if err != nil {
		return helm.Rendered{}, err
	}
	out.Lookups = slices.Sorted(maps.Keys(lookups))
	out.Objects, out.Skipped, err = sorted(loaded, files, r.Namespace)
	return out, err
}

// load reads a chart and checks that it can be installed.
func load(archive []byte) (*chart.Chart, error) {
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return loaded, Installable(loaded)
}

// Installable checks that a chart is not a library and has all its dependencies.
func Installable(loaded *chart.Chart) error {
	if loaded.Metadata.Type == "library" {
		return errors.New("the chart is a library for other charts and installs nothing")
	}
	there := make(map[string]bool)
	for _, d := range loaded.Dependencies() {
		there[d.Name()] = true
	}
	for _, d := range loaded.Metadata.Dependencies {
		if !there[d.Name] {
			return fmt.Errorf("the archive lacks the chart %s, which Chart.yaml depends on", d.Name)
		}
	}
	return nil
}

// allValues are the given values, on top of those of the chart and of all its dependencies.
func allValues(loaded *chart.Chart, given map[string]any) (map[string]any, error) {
	all, err := commonutil.CoalesceValues(loaded, given)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return all, nil
}

func capabilities() (*common.Capabilities, error) {
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("version of Kubernetes: %w", err)
	}
	c := common.DefaultCapabilities.Copy()
	c.KubeVersion = *version
	return c, nil
}

// execute runs the templates. The time stands still for them, and lookup finds nothing and is noted.
func execute(ctx context.Context, loaded *chart.Chart, top common.Values, lookups map[string]bool) (map[string]string, error) {
	e := engine.Engine{CustomTemplateFuncs: template.FuncMap{
		"now": func() time.Time { return epoch },
		"lookup": func(apiVersion, kind, _, _ string) map[string]any {
			lookups[apiVersion+" "+kind] = true
			return map[string]any{}
		},
	}}
	files, err := e.RenderWithContext(ctx, loaded, top)
	if err != nil {
		return nil, oneLine(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return path.Base(name) == "NOTES.txt" })
	return files, nil
}

// oneLine joins the lines of Helm's template trace.
func oneLine(err error) error {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return errors.New(strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), ": "))
}
