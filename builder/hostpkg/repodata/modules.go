package repodata

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// modules collects the packages of module streams. dnf refuses a package of a module that no document describes. The module
// data in a package's header suffices for one: the streams were chosen when the packages were resolved, and each is the default
// of its module here, so that a host need not enable it.
type modules struct {
	artifacts map[moduleBuild][]string // names of packages with their versions
}

// moduleBuild is one build of a stream for one architecture.
type moduleBuild struct{ name, stream, version, context, arch string }

const (
	noarch = "noarch"
	// carried holds the fields that describe a module; a package's header has no others.
	carried = "Packages that a Sealift package carries"
)

func (m *modules) add(p *Package) error {
	if p.Module == "" {
		return nil
	}
	parts := strings.Split(p.Module, ":")
	if len(parts) != 4 || !isNumber(parts[2]) {
		return fmt.Errorf("package %s: %q is not a module of the form name:stream:version:context", p.Name, p.Module)
	}
	if m.artifacts == nil {
		m.artifacts = make(map[moduleBuild][]string)
	}
	build := moduleBuild{parts[0], parts[1], parts[2], parts[3], p.Arch}
	m.artifacts[build] = append(m.artifacts[build], fmt.Sprintf("%s-%d:%s-%s.%s", p.Name, p.Epoch, p.Version, p.Release, p.Arch))
	return nil
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// document is modules.yaml, a modulemd v2 document for each build and modulemd-defaults for each module; without modules
// it is empty.
func (m *modules) document() []byte {
	var b bytes.Buffer
	defaults := make(map[string]string)
	for _, build := range slices.SortedFunc(maps.Keys(m.artifacts), compareBuilds) {
		artifacts := slices.Clone(m.artifacts[build])
		if build.arch == noarch && m.hasOther(build) {
			continue // they are listed for each architecture
		}
		if build.arch != noarch {
			independent := build
			independent.arch = noarch
			artifacts = append(artifacts, m.artifacts[independent]...)
		}
		slices.Sort(artifacts)
		fmt.Fprintf(&b, "---\ndocument: modulemd\nversion: 2\ndata:\n  name: %q\n  stream: %q\n  version: %s\n  context: %q\n  arch: %q\n"+
			"  summary: %q\n  description: %q\n"+
			"  license:\n    module:\n    - various\n  artifacts:\n    rpms:\n",
			build.name, build.stream, build.version, build.context, build.arch, carried, carried)
		for _, artifact := range artifacts {
			fmt.Fprintf(&b, "    - %q\n", artifact)
		}
		b.WriteString("...\n")
		defaults[build.name] = build.stream
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		fmt.Fprintf(&b, "---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: %q\n  stream: %q\n...\n", name, defaults[name])
	}
	return b.Bytes()
}

func (m *modules) hasOther(build moduleBuild) bool {
	for other := range m.artifacts {
		arch := other.arch
		other.arch = build.arch
		if other == build && arch != build.arch {
			return true
		}
	}
	return false
}

func compareBuilds(a, b moduleBuild) int {
	return slices.Compare([]string{a.name, a.stream, a.version, a.context, a.arch}, []string{b.name, b.stream, b.version, b.context, b.arch})
}
