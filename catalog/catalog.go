// Package catalog lists the add-ons, their declarations, and the order in which they are installed.
//
// An add-on is a directory addons/<name>/<version> with a Manifest. It may have an addon.yaml:
//
//	description: Pod network over VXLAN
//	provides: [pod-network]      # capabilities, besides its own name
//	requires: [kubernetes]       # add-ons or capabilities that are required, and installed first
//	after: [registry]            # add-ons or capabilities that are installed first if present
//	options:                     # what the Installer may set under the add-on's key
//	  podCIDR: {type: string, description: Addresses for pods, default: 10.32.0.0/20}
//
// An add-on without the file, such as kURL's, has kURL's place in the order and kURL's capabilities.
// The package reads through fs.FS, so that a work tree, a package and a bundle look alike, and changes nothing.
//
// Comments cite rules of kURL by section (kURL §3.6): docs/reference/kurl.md has them.
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/catalog/origin"
)

// MetaFile is the file in which an add-on describes itself.
const MetaFile = "addon.yaml"

// Meta describes one version of an add-on.
type Meta struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description,omitempty"`
	Provides    []string          `json:"provides,omitempty"` // capabilities besides the name
	Requires    []string          `json:"requires,omitempty"` // names or capabilities
	After       []string          `json:"after,omitempty"`    // names or capabilities
	License     string            `json:"license,omitempty"`  // of the software, as SPDX writes it
	Options     map[string]Option `json:"options,omitempty"`
	// Upstream says where newer values of the template's parameters come from, by their names.
	Upstream map[string]origin.Rule `json:"-"`
	// Silence is how long a hook of the add-on may print nothing before it is stopped. Zero means the installer's default.
	Silence time.Duration `json:"-"`
	// Module means that the add-on is a module of addon-operator.
	Module bool `json:"module,omitempty"`
	// Declared means that the add-on has an addon.yaml. kURL's defaults do not apply to it then.
	Declared bool `json:"declared"`
}

// Dir returns the add-on's folder below the root of a work tree, package or bundle.
func (m Meta) Dir() string { return path.Join("addons", m.Name, m.Version) }

// Scan lists every add-on below addons, sorted by name and then by version, oldest first. A folder with a Manifest is an
// add-on, so kURL's template and build-images folders are not. Scan returns all add-ons that it could read, and one error
// with the mistakes in all addon.yaml files.
func Scan(fsys fs.FS) ([]Meta, error) {
	manifests, err := fs.Glob(fsys, "addons/*/*/Manifest")
	if err != nil {
		return nil, fmt.Errorf("list add-ons: %w", err)
	}
	var all []Meta
	var errs []error
	for _, manifest := range manifests {
		version := path.Dir(manifest)
		m, err := Read(fsys, path.Base(path.Dir(version)), path.Base(version))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b Meta) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), CompareVersions(a.Version, b.Version), cmp.Compare(a.Version, b.Version))
	})
	return all, errors.Join(errs...)
}

// Read returns the description of an add-on. Mistakes in its addon.yaml are diag.Errors.
func Read(fsys fs.FS, name, version string) (Meta, error) {
	m := Meta{Name: name, Version: version}
	if err := m.read(fsys, m.Dir()); err != nil {
		return Meta{}, err
	}
	return m, nil
}

// ReadDir is Read for the folder of an add-on anywhere. name is its name; its version is unknown.
func ReadDir(fsys fs.FS, dir, name string) (Meta, error) {
	m := Meta{Name: name}
	if err := m.read(fsys, dir); err != nil {
		return Meta{}, err
	}
	return m, nil
}

func (m *Meta) read(fsys fs.FS, dir string) error {
	file := path.Join(dir, MetaFile)
	f, err := fsys.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read add-on %s %s: %w", m.Name, m.Version, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMetaSize+1))
	if err != nil {
		return fmt.Errorf("read add-on %s %s: %w", m.Name, m.Version, err)
	}
	m.Module = IsModule(fsys, dir)
	return m.parse(file, data)
}

// CompareVersions compares versions as people do: runs of digits as numbers, everything else as text, and 1.0.0-rc.1 before 1.0.0. It
// is negative if a is older than b.
func CompareVersions(a, b string) int {
	for a != "" && b != "" {
		runA, restA := run(a)
		runB, restB := run(b)
		order := strings.Compare(runA, runB)
		if isDigit(rune(runA[0])) && isDigit(rune(runB[0])) {
			numA, numB := strings.TrimLeft(runA, "0"), strings.TrimLeft(runB, "0")
			order = cmp.Or(cmp.Compare(len(numA), len(numB)), strings.Compare(numA, numB))
		}
		if order != 0 {
			return earlier(a, b, order)
		}
		a, b = restA, restB
	}
	return earlier(a, b, cmp.Compare(len(a), len(b)))
}

// earlier compares what is left of two versions: one that goes on as a version before a release does is older. order is for two that both
// do, or neither.
func earlier(a, b string, order int) int {
	at := func(rest string) bool { found := unstable.FindStringIndex(rest); return found != nil && found[0] == 0 }
	switch {
	case at(a) == at(b):
		return order
	case at(a):
		return -1
	default:
		return 1
	}
}

var unstable = regexp.MustCompile(`[-.](alpha|beta|rc|pre|dev)`)

// Unstable reports whether a version is one that no pattern stands for, such as 1.37.0-rc.1.
func Unstable(version string) bool { return unstable.MatchString(version) }

// NewestFirst sorts versions: the newest is first, and unstable ones are last. So latest stands for the first one.
func NewestFirst(a, b string) int {
	switch {
	case Unstable(a) == Unstable(b):
		return CompareVersions(b, a)
	case Unstable(a):
		return 1
	default:
		return -1
	}
}

// MajorMinor returns the first two numbers of a version such as 1.19.7, or -1 for both if it has no such beginning.
func MajorMinor(version string) (major, minor int) {
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		return -1, -1
	}
	return major, minor
}

// run splits off the longest prefix that is all digits or has none.
func run(s string) (first, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return isDigit(r) != isDigit(rune(s[0])) })
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }
