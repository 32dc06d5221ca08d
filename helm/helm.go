// Package helm has Sealift's types for Helm charts: what to render, for which release, and the result; and it reads and compares
// values. It links no Helm. Two packages do: helm/engine renders, and the command line passes its Renderer to those who need one.
// helm/release installs charts in clusters, and only sealift-controller links it.
package helm

import (
	"bytes"
	"context"
	"fmt"
)

// Renderer renders charts.
type Renderer interface {
	// Render renders the chart in an archive, a .tgz file, for a release. The same input yields the same objects, or a
	// *RandomError.
	Render(ctx context.Context, archive []byte, r Release) (Rendered, error)
}

// Release names the release that a chart is rendered for.
type Release struct {
	Name      string
	Namespace string
	Values    []byte // YAML that goes before the chart's own values; may be empty
}

// Rendered is a chart in its applied form.
type Rendered struct {
	Name       string // of the chart, from its Chart.yaml
	Version    string // of the chart
	AppVersion string // of the program that the chart installs; may be empty
	// Objects are applied in this order: CustomResourceDefinitions, the namespace, hooks that run before an
	// installation, the chart's other objects, hooks that run after it.
	Objects []Object
	// Skipped are the hooks that no installation runs, such as tests.
	Skipped []Object
	// Values are all values that the chart was rendered with, including those of dependencies that they disable.
	Values map[string]any
	// Lookups are the templates that query the cluster. Rendering has no cluster, so their queries find nothing.
	Lookups []string
}

// Object is one object of a chart.
type Object struct {
	Template  string // such as hello/templates/deployment.yaml
	Kind      string
	Namespace string // empty for an object of the cluster
	Name      string
	Hooks     []string // the moments at which Helm would apply it, such as pre-install; empty for an ordinary object
	YAML      []byte
}

// String names the object.
func (o Object) String() string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}

// Document is the objects as one YAML stream.
func (r Rendered) Document() []byte {
	var b bytes.Buffer
	for _, o := range r.Objects {
		fmt.Fprintf(&b, "---\n# Source: %s\n%s", o.Template, o.YAML)
	}
	return b.Bytes()
}

// RandomError reports a chart whose objects differ each time it is rendered.
type RandomError struct {
	Object Object // the first that differs
}

func (e *RandomError) Error() string {
	return fmt.Sprintf("%s of %s is another one each time that the chart is rendered: its template makes random values", e.Object, e.Object.Template)
}

// ValuesError reports that the given values are not a YAML mapping.
type ValuesError struct {
	Line int // 0 when it is not known
	Err  error
}

func (e *ValuesError) Error() string { return e.Err.Error() }

func (e *ValuesError) Unwrap() error { return e.Err }

// Deployed is Helm's word for the status of a release on which the last operation has succeeded.
const Deployed = "deployed"

// Record describes a release without its content. The zero value is a release that does not exist.
type Record struct {
	Revision int
	Status   string // Helm's word, such as deployed
	Labels   map[string]string
}

// Wanted is the desired state of a release.
type Wanted struct {
	Name   string
	Dir    string // of the chart; Chart.yaml may be missing
	Values map[string]any
	Files  map[string][]byte // of the chart, by their paths in Dir; nil to read them now
	// Unmanaged means that the objects of the release are left alone after one last upgrade.
	Unmanaged bool
	// Absent names objects of a manifest that the cluster lacks. Nil finds none.
	Absent func(ctx context.Context, manifest string) ([]string, error)
	// Known is the release in its last known state, or nil to read it now.
	Known *Record
}

// Ensured is the result.
type Ensured struct {
	Upgraded bool
	Why      string // the reason for an upgrade
	Manifest string // the rendered chart; empty if it was not rendered
}
