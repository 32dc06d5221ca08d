package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/sandbox"
)

// limits of one chart. The wall clock also counts what templates ask the cluster.
var limits = sandbox.Limits{CPU: 10 * time.Second, Wall: 5 * time.Minute, Memory: 512 << 20, Result: 16 << 20}

// Tasks are the tasks that a program serves which renders charts.
func Tasks() []sandbox.Served { return []sandbox.Served{archiveTask, templatesTask} }

var (
	archiveTask   = sandbox.Define("chart", renderTwice)
	templatesTask = sandbox.Define("templates", renderTemplates)
)

type archiveWork struct {
	Archive []byte
	Release helm.Release
}

type archiveResult struct {
	Rendered  helm.Rendered // without Values
	Values    []byte        // JSON
	Random    *helm.Object
	BadValues string
	Line      int // of BadValues
}

// Lookup finds objects of a cluster for templates.
type Lookup func(apiVersion, kind, namespace, name string) (map[string]any, error)

// Templates executes all templates of a chart and of those that it depends on, and returns their texts by path, such as
// web/templates/c.yaml. top is Helm's input to the chart: Values, Release and Capabilities. The values have to match the chart's schema.
func Templates(ctx context.Context, tenant string, c *chart.Chart, top map[string]any, lookup Lookup) (map[string]string, error) {
	work, err := pack(c, top)
	if err != nil {
		return nil, err
	}
	return templatesTask.Run(ctx, sandbox.Request{
		Name: "rendering the chart " + c.Name() + " for release " + work.Release.Name, Tenant: tenant, Limits: limits,
		Answer: func(_ context.Context, question []byte) ([]byte, error) {
			var q [4]string
			if err := json.Unmarshal(question, &q); err != nil {
				return nil, err
			}
			found, err := lookup(q[0], q[1], q[2], q[3])
			if err != nil {
				return nil, err
			}
			return json.Marshal(found)
		},
	}, work)
}

// templatesWork is the request to the child. Values are JSON, as in files and in releases.
type templatesWork struct {
	Chart                node
	Values, Capabilities []byte
	Normalized           bool // the version of Kubernetes has a form for comparisons
	Release              releaseFacts
}

// releaseFacts is .Release.
type releaseFacts struct {
	Name, Namespace, Service string
	IsInstall, IsUpgrade     bool
	Revision                 int
}

// node is a chart without what templates do not see.
type node struct {
	Metadata         []byte // JSON
	Schema           []byte
	Templates, Files []file
	Dependencies     []node
}

type file struct {
	Name string
	Data []byte
}

func pack(c *chart.Chart, top map[string]any) (w templatesWork, err error) {
	if w.Chart, err = packChart(c); err != nil {
		return w, err
	}
	if w.Values, err = json.Marshal(top["Values"]); err != nil {
		return w, fmt.Errorf("values: %w", err)
	}
	if capabilities, ok := top["Capabilities"].(*common.Capabilities); ok {
		w.Normalized = capabilities.KubeVersion.String() != capabilities.KubeVersion.Version
	}
	if w.Capabilities, err = json.Marshal(top["Capabilities"]); err != nil {
		return w, err
	}
	facts, err := json.Marshal(top["Release"])
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(facts, &w.Release)
}

func packChart(c *chart.Chart) (n node, err error) {
	if n.Metadata, err = json.Marshal(c.Metadata); err != nil {
		return n, err
	}
	n.Schema, n.Templates, n.Files = c.Schema, packFiles(c.Templates), packFiles(c.Files)
	for _, d := range c.Dependencies() {
		dependency, err := packChart(d)
		if err != nil {
			return n, err
		}
		n.Dependencies = append(n.Dependencies, dependency)
	}
	return n, nil
}

func packFiles(files []*common.File) (list []file) {
	for _, f := range files {
		if f != nil {
			list = append(list, file{f.Name, f.Data})
		}
	}
	return list
}

func (n node) unpack() (*chart.Chart, error) {
	c := &chart.Chart{Schema: n.Schema, Templates: unpackFiles(n.Templates), Files: unpackFiles(n.Files)}
	if err := json.Unmarshal(n.Metadata, &c.Metadata); err != nil {
		return nil, err
	}
	for _, d := range n.Dependencies {
		dependency, err := d.unpack()
		if err != nil {
			return nil, err
		}
		c.AddDependency(dependency)
	}
	return c, nil
}

func unpackFiles(list []file) (files []*common.File) {
	for _, f := range list {
		files = append(files, &common.File{Name: f.Name, Data: f.Data})
	}
	return files
}

// renderTemplates runs in the child.
func renderTemplates(w templatesWork, ask sandbox.Ask) (map[string]string, error) {
	c, err := w.Chart.unpack()
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := json.Unmarshal(w.Values, &values); err != nil {
		return nil, err
	}
	capabilities := new(common.Capabilities)
	if err := json.Unmarshal(w.Capabilities, capabilities); err != nil {
		return nil, err
	}
	if parsed, err := common.ParseKubeVersion(capabilities.KubeVersion.Version); err == nil && w.Normalized {
		capabilities.KubeVersion = *parsed
	}
	if err := closeSchemas(c); err != nil {
		return nil, err
	}
	if err := commonutil.ValidateAgainstSchema(c, values); err != nil {
		return nil, fmt.Errorf("values don't meet the specifications of the schema(s) in the following chart(s):\n%w", err)
	}
	e := engine.Engine{CustomTemplateFuncs: map[string]any{
		"lookup": func(apiVersion, kind, namespace, name string) (map[string]any, error) {
			text, err := json.Marshal([...]string{apiVersion, kind, namespace, name})
			if err != nil {
				return nil, err
			}
			if text, err = ask(text); err != nil {
				return map[string]any{}, err
			}
			found := make(map[string]any)
			return found, utiljson.Unmarshal(text, &found)
		},
	}}
	r := w.Release
	return e.RenderWithContext(context.Background(), c, common.Values{
		"Values": common.Values(values), "Capabilities": capabilities,
		"Release": map[string]any{
			"Name": r.Name, "Namespace": r.Namespace, "IsUpgrade": r.IsUpgrade, "IsInstall": r.IsInstall, "Revision": r.Revision, "Service": r.Service,
		},
	})
}
