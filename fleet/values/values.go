// Package values renders the valuesTemplate of a HelmChartProxy for one cluster (C-15, X-38).
//
// A template is a Go template with sprig's functions and toYaml. It sees .Cluster, .ControlPlane and .InfraCluster as
// they are in the API, so .Cluster.spec.clusterNetwork.pods.cidrBlocks is a path of JSON keys. The names of the API's Go
// types work too: .Cluster.Spec.ClusterNetwork.Pods.CIDRBlocks. They are only looked up, so range and toJson do not show
// them, and they never hide a label or an annotation of a user.
//
// Rendering is bounded in time, steps and size. It reads no environment and no network.
package values

import (
	"bytes"
	"errors"
	"fmt"
	"text/template"
	"time"
)

// Input is what a template sees. ControlPlane and InfraCluster are nil if the cluster does not refer to them.
type Input struct {
	// Name is the name of the template in errors.
	Name                                string
	Template                            string
	Cluster, ControlPlane, InfraCluster map[string]any
}

// Limits of one rendering. They are far above what charts need.
const (
	maxTime  = 5 * time.Second
	maxSteps = 1_000_000
	maxSize  = 1 << 20
	maxCount = 100_000
	maxMade  = 64 << 20
)

// ErrLimit says that a template takes too long, or becomes too large.
var ErrLimit = errors.New("the template exceeds what one rendering may use")

// Render returns the values as YAML. Errors name the template, as package text/template does.
func Render(in Input) (string, error) {
	data := make(map[string]any)
	names := make(goNames)
	for key, object := range map[string]map[string]any{
		"Cluster": in.Cluster, "ControlPlane": in.ControlPlane, "InfraCluster": in.InfraCluster,
	} {
		if object != nil {
			data[key] = object
			names.learn(object)
		}
	}
	g := &guard{end: time.Now().Add(maxTime)}
	t, err := template.New(in.Name).Funcs(g.functions()).Parse(in.Template)
	if err != nil {
		return "", err
	}
	t.Funcs(template.FuncMap{
		fieldFunction: names.field,
		tickFunction:  func() (string, error) { return "", g.step() },
		showFunction:  g.show,
	})
	for _, t := range t.Templates() {
		if t.Tree != nil {
			rewrite(t.Root)
			tick(t.Root)
		}
	}
	var out bytes.Buffer
	if err := t.Execute(limited{&out}, data); err != nil {
		return "", err
	}
	return out.String(), nil
}

// limited refuses more than maxSize bytes.
type limited struct{ *bytes.Buffer }

func (l limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxSize {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrLimit, maxSize)
	}
	return l.Buffer.Write(p)
}
