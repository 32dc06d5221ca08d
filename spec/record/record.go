// Package record reads and writes the file that describes what a cluster runs. 'sealift status --record' writes it behind the air
// gap. 'sealift bundle --upgrade-from' reads it where bundles are made, and omits content that the cluster has.
//
// The file has no secrets: package status removes them from the Installer. docs/upgrade.md describes the format.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/spec"
)

// Format is the version of the format.
const Format = "sealift.dev/record/v1"

// maxSize bounds a record: 5,000 nodes take about 1 MB.
const maxSize = 8 << 20

// Record describes what a cluster runs. All fields are required unless they say otherwise.
type Record struct {
	Format  string    `json:"format"`
	Time    time.Time `json:"time"`    // at which it was made
	Sealift string    `json:"sealift"` // the version that made it
	// Kubernetes is the oldest version of a node, such as 1.35.4.
	Kubernetes string `json:"kubernetes"`
	// Bundle is the sha256 of the index of the bundle that is installed. Packages are its packages.
	Bundle   string    `json:"bundle"`
	Packages []Package `json:"packages"`
	// Installer is the YAML of the cluster's Installer without secrets and without the settings of hosts.
	Installer string  `json:"installer"`
	AddOns    []AddOn `json:"addOns"` // that run
	Nodes     []Node  `json:"nodes"`
}

// Package is a package whose content the control planes have.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Index   string `json:"index"` // sha256 of the package's index
	// Lean are the layers of images that the control planes have in their lean form only: the sha256 of each form, by the sha256 of the
	// layer. It is optional.
	Lean map[string]string `json:"lean,omitempty"`
}

// AddOn is an installed add-on.
type AddOn struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Node is the content of one node.
type Node struct {
	Name         string   `json:"name"`
	Roles        []string `json:"roles"`
	Kubelet      string   `json:"kubelet"`      // such as 1.35.4
	Runtime      string   `json:"runtime"`      // such as containerd://2.2.1
	OS           string   `json:"os"`           // such as Debian GNU/Linux 12 (bookworm)
	Kernel       string   `json:"kernel"`       // such as 6.1.0-18-amd64
	Architecture string   `json:"architecture"` // such as amd64
}

// Load reads a file.
func Load(name string) (r Record, err error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return r, err
	}
	if len(data) > maxSize {
		return r, fmt.Errorf("%s: a record has at most %d bytes", name, maxSize)
	}
	if r, err = Parse(data); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// Parse reads a record. It refuses unknown and repeated fields, and values that no sealift writes.
func Parse(data []byte) (r Record, err error) {
	var probe struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(data, &probe); err != nil {
		return r, fmt.Errorf("not a record of a cluster: %w; make one with 'sealift status --record'", err)
	}
	if probe.Format != Format {
		return r, fmt.Errorf("format %q is not known; this sealift reads %q, so use the one that made the record, or make it again with 'sealift status --record'", probe.Format, Format)
	}
	strict, err := kjson.UnmarshalStrict(data, &r)
	if err := errors.Join(append(strict, err)...); err != nil {
		return Record{}, fmt.Errorf("record: %w", err)
	}
	if err := r.check(); err != nil {
		return Record{}, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

// Encode writes a record, in the form that Parse reads.
func (r Record) Encode() ([]byte, error) {
	r.Format = Format
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

var (
	digest     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	kubernetes = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`)
)

func (r Record) check() error {
	if r.Time.IsZero() {
		return errors.New("time is missing")
	}
	if !kubernetes.MatchString(r.Kubernetes) {
		return fmt.Errorf("kubernetes: %q is not a version such as 1.35.4", r.Kubernetes)
	}
	if !digest.MatchString(r.Bundle) {
		return fmt.Errorf("bundle: %q is not a sha256", r.Bundle)
	}
	if _, err := spec.Parse("installer", strings.NewReader(r.Installer)); err != nil {
		return err
	}
	if len(r.Nodes) == 0 || len(r.Packages) == 0 {
		return errors.New("a cluster has nodes and packages")
	}
	seen := map[string]bool{}
	once := func(kind string, words ...string) error {
		key := kind + " " + strings.Join(words, " ")
		if seen[key] {
			return fmt.Errorf("%s is listed twice", key)
		}
		seen[key] = true
		return nil
	}
	for _, p := range r.Packages {
		if !spec.IsName(p.Name) || !spec.IsVersion(p.Version) || !digest.MatchString(p.Index) {
			return fmt.Errorf("packages: %q %q with index %q is not a package", p.Name, p.Version, p.Index)
		}
		if err := once("package", p.Name, p.Version); err != nil {
			return err
		}
		for layer, form := range p.Lean {
			if !digest.MatchString(layer) || !digest.MatchString(form) {
				return fmt.Errorf("packages: %s %s has the lean layer %q of %q, and neither may be anything but a sha256", p.Name, p.Version, form, layer)
			}
		}
	}
	for _, a := range r.AddOns {
		if !spec.IsName(a.Name) || !spec.IsVersion(a.Version) {
			return fmt.Errorf("addOns: %q %q is not an add-on", a.Name, a.Version)
		}
		if err := once("add-on", a.Name); err != nil {
			return err
		}
	}
	for _, n := range r.Nodes {
		if n.Name == "" || !kubernetes.MatchString(n.Kubelet) {
			return fmt.Errorf("nodes: %q with kubelet %q is not a node", n.Name, n.Kubelet)
		}
		if err := once("node", n.Name); err != nil {
			return err
		}
	}
	return nil
}
