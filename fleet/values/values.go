// Package values renders the valuesTemplate of a HelmChartProxy for one cluster (C-15, X-38).
//
// A template is a Go template with sprig's functions and toYaml. It sees .Cluster, .ControlPlane and .InfraCluster as
// they are in the API, so .Cluster.spec.clusterNetwork.pods.cidrBlocks is a path of JSON keys. The names of the API's Go
// types work too: .Cluster.Spec.ClusterNetwork.Pods.CIDRBlocks. They are only looked up, so range and toJson do not show
// them, and they never hide a label or an annotation of a user.
//
// Tenants write templates, so they run in a child process, within limits. They read no environment and no network.
package values

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/sandbox"
)

// Input is the data of a template. ControlPlane and InfraCluster are nil if the cluster does not refer to them.
type Input struct {
	// Name is the name of the template in errors.
	Name string
	// Tenant names who wrote the template.
	Tenant                              string
	Template                            string
	Cluster, ControlPlane, InfraCluster map[string]any
}

// limits of one rendering. They are far above what charts need.
var limits = sandbox.Limits{CPU: time.Second, Wall: 30 * time.Second, Memory: 192 << 20, Result: 1 << 20}

// Render returns the values as YAML, of at most 1 MiB. Errors name the template, as package text/template does; one about a limit is a
// *sandbox.LimitError. The program has to serve Tasks.
func Render(ctx context.Context, in Input) (string, error) {
	data := make(map[string]any)
	for key, object := range map[string]map[string]any{
		"Cluster": in.Cluster, "ControlPlane": in.ControlPlane, "InfraCluster": in.InfraCluster,
	} {
		if object != nil {
			data[key] = object
		}
	}
	text, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	return task.Run(ctx, sandbox.Request{Name: "the valuesTemplate " + in.Name, Tenant: in.Tenant, Limits: limits}, work{in.Name, in.Template, text})
}

// Tasks are the tasks that a program serves which renders values.
func Tasks() []sandbox.Served { return []sandbox.Served{task} }

var task = sandbox.Define("values", render)

// work is the child's input.
type work struct {
	Name, Template string
	Data           []byte // JSON
}

// render runs in the child.
func render(w work, _ sandbox.Ask) (string, error) {
	var data map[string]any
	if err := utiljson.Unmarshal(w.Data, &data); err != nil {
		return "", err
	}
	names := make(goNames)
	for _, object := range data {
		if o, ok := object.(map[string]any); ok {
			names.learn(o)
		}
	}
	t, err := template.New(w.Name).Funcs(functions()).Parse(w.Template)
	if err != nil {
		return "", err
	}
	t.Funcs(template.FuncMap{fieldFunction: names.field})
	for _, t := range t.Templates() {
		if t.Tree != nil {
			rewrite(t.Root)
		}
	}
	var out strings.Builder
	err = t.Execute(&out, data)
	return out.String(), err
}

// functions returns the functions for templates: sprig's without those that read the environment or the network.
func functions() template.FuncMap {
	all := maps.Clone(sprig.TxtFuncMap())
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, name)
	}
	all["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return string(text), err
	}
	return all
}
