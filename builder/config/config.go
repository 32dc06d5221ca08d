// Package config reads sealift.yaml, the file that says how packages are built: through which mirrors, and for which targets.
// The parser is strict: unknown keys are refused with their position, so that no typo goes unnoticed.
//
//	mirrors:                                  # longest prefix wins
//	  registry.k8s.io: 127.0.0.1:5000/registry.k8s.io
//	  https://dl.k8s.io/: http://127.0.0.1:5080/dl.k8s.io/
//	defaultTargets: [debian-12, rhel-9]       # what is built for without --target; without it Debian
//	targets:                                  # replaces the built-in target of the same name
//	  debian-12:
//	    directives: [apt]
//	    base: [apt, systemd, systemd-sysv, usr-is-merged]
//	    sources:
//	    - url: http://ftp.debian.org/debian
//	      suites: [bookworm, bookworm-updates]
//	      components: [main]
//	      signedBy: /usr/share/keyrings/debian-archive-keyring.gpg
//	  rhel-9:
//	    platform: platform:el9                # of modules
//	    modules: [nginx:1.24]                 # streams in addition to the default ones
//	    sources:
//	    - url: https://dl.rockylinux.org/pub/rocky/9/BaseOS/$basearch/os/
//	      signedBy: https://dl.rockylinux.org/pub/rocky/RPM-GPG-KEY-Rocky-9
//	      signedMetadata: false               # whether the index is also signed
//	      mirrorList: false                   # whether the URL is a list of mirrors
//	      architectures: [x86_64]             # default: any
//	signatures:                               # that images must have; see cosign.Policy
//	  ghcr.io/example:
//	    keys: [example.pub]
//	licenses:                                 # of what packages carry; see license.Policy
//	  forbidden: [AGPL-3.0-only]
//	  exceptions:
//	  - license: AGPL-3.0-only
//	    image: ghcr.io/example
//	    reason: they are ours
//	    until: 2027-03-31
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/manifest"
)

// FileName is the configuration in the working directory.
const FileName = "sealift.yaml"

// maxSize is the largest configuration, in bytes.
const maxSize = 1 << 20

// Config holds the mirrors and targets of builds.
type Config struct {
	Mirrors mirror.Set
	Targets []hostpkg.Target // in order of their names
	// DefaultTargets names the targets that are built if --target is not given.
	DefaultTargets []string
	// Signatures says whose signatures images must have.
	Signatures cosign.Policy
	// Licenses says which licenses packages may not carry.
	Licenses license.Policy
}

// Default returns the configuration without a file: no mirrors, and the built-in targets. Only Debian's are built by
// default, because the others need tools that many build machines lack.
func Default() Config {
	return Config{Targets: builtinTargets(), DefaultTargets: []string{"debian-12", "debian-13"}}
}

// Target returns the target with this name.
func (c Config) Target(name string) (hostpkg.Target, error) {
	var known []string
	for _, t := range c.Targets {
		if t.Name == name {
			return t, nil
		}
		known = append(known, t.Name)
	}
	return hostpkg.Target{}, fmt.Errorf("target %s is not known: %s; define it under targets in %s",
		name, diag.DidYouMean(name, known, "there are "), FileName)
}

// Load reads the file at path. If path is empty, it reads sealift.yaml in the working directory, if there is one.
func Load(path string) (Config, error) {
	name := path
	if name == "" {
		name = FileName
	}
	f, err := os.Open(name)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	return Parse(name, f)
}

// Parse reads a configuration. A file, or a key, with nothing but comments changes nothing. name stands for it in positions. Mistakes are a diag.Errors with all of them.
func Parse(name string, r io.Reader) (Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return Config{}, fmt.Errorf("read %s: %w", name, err)
	}
	p := &parser{Reader: strictyaml.Reader{Name: name}}
	if len(data) > maxSize {
		p.Errorf(diag.Pos{File: name}, "", "larger than %d bytes", maxSize)
		return Config{}, p.Err()
	}
	c := Default()
	if strictyaml.IsEmpty(data) {
		return c, nil
	}
	if root := p.Mapping(data); root != nil {
		fields := p.Fields(root, "the configuration", "mirrors", "defaultTargets", "targets", "signatures", "licenses")
		maps.DeleteFunc(fields, func(_ string, n *yaml.Node) bool { return n.ShortTag() == "!!null" }) // all below it are comments
		if n := fields["mirrors"]; n != nil {
			c.Mirrors = p.mirrors(n)
		}
		if n := fields["targets"]; n != nil {
			c.Targets = p.targets(n, c.Targets)
		}
		if n := fields["defaultTargets"]; n != nil {
			c.DefaultTargets = p.defaultTargets(n, c)
		}
		if n := fields["signatures"]; n != nil {
			c.Signatures = cosign.ReadPolicy(&p.Reader, n)
		}
		if n := fields["licenses"]; n != nil {
			c.Licenses = p.licenses(n)
		}
	}
	if err := p.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// parser converts a checked document to a configuration.
type parser struct{ strictyaml.Reader }

func (p *parser) mirrors(n *yaml.Node) mirror.Set {
	rules := make(map[string]string)
	for key, value := range p.pairs(n, "mirrors") {
		from, to := key.Value, p.Text(value, "the mirror of "+key.Value)
		// Each rule is checked alone, so that its error has its position.
		if _, err := mirror.New(map[string]string{from: to}); err != nil {
			p.Errorf(p.Pos(key), "", "%v", err)
			continue
		}
		rules[from] = to
	}
	set, err := mirror.New(rules)
	if err != nil {
		p.Errorf(p.Pos(n), "", "%v", err)
	}
	return set
}

// pairs iterates over the keys and values of a mapping in order.
func (p *parser) pairs(n *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if !p.IsMapping(n, what) {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

func (p *parser) targets(n *yaml.Node, targets []hostpkg.Target) []hostpkg.Target {
	for key, value := range p.pairs(n, "targets") {
		what := "target " + key.Value
		if !p.IsMapping(value, what) {
			continue
		}
		t := p.target(key.Value, what, value)
		if err := t.Check(); err != nil {
			p.Errorf(p.Pos(key), "", "%v", err)
			continue
		}
		targets = slices.DeleteFunc(targets, func(other hostpkg.Target) bool { return other.Name == t.Name })
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b hostpkg.Target) int { return strings.Compare(a.Name, b.Name) })
	return targets
}

func (p *parser) defaultTargets(n *yaml.Node, c Config) []string {
	names := p.texts(n, "defaultTargets")
	for i, name := range names {
		if _, err := c.Target(name); err != nil {
			p.Errorf(p.Pos(n.Content[i]), "", "%v", err)
		}
	}
	return names
}

func (p *parser) target(name, what string, n *yaml.Node) hostpkg.Target {
	t := hostpkg.Target{Name: name, Directives: directivesFor(name)}
	fields := p.Fields(n, what, "directives", "base", "platform", "modules", "sources")
	if n := fields["directives"]; n != nil {
		t.Directives = p.directives(n)
	}
	var ok bool
	if t.Manager, ok = managerOf(t.Directives); !ok {
		p.Errorf(p.Pos(n), "split it into two targets", "%s has directives of both %s and %s", what, manifest.ManagerApt, manifest.ManagerYum)
	}
	t.Base = mergedServer()
	if t.Manager == manifest.ManagerYum {
		t.Base = minimalYumServer()
	}
	if n := fields["base"]; n != nil {
		t.Base = p.texts(n, "base")
	}
	if n := fields["platform"]; n != nil {
		t.Platform = p.Text(n, "platform")
	}
	if n := fields["modules"]; n != nil {
		t.Modules = p.texts(n, "modules")
	}
	if n := fields["sources"]; n != nil {
		t.Sources = p.sources(n)
	}
	return t
}

func (p *parser) directives(n *yaml.Node) []string {
	known := directives("")
	list := p.texts(n, "directives")
	for i, word := range list {
		if !slices.Contains(known, word) {
			p.Errorf(p.Pos(n.Content[i]), diag.DidYouMean(word, known, "known: "), "%q is not a directive for host packages", word)
		}
	}
	return list
}

func (p *parser) sources(n *yaml.Node) []hostpkg.Archive {
	var list []hostpkg.Archive
	for _, item := range p.items(n, "sources") {
		if !p.IsMapping(item, "a source") {
			continue
		}
		var a hostpkg.Archive
		lists := map[string]*[]string{"suites": &a.Suites, "components": &a.Components, "architectures": &a.Architectures}
		texts := map[string]*string{"url": &a.URL, "signedBy": &a.SignedBy}
		switches := map[string]*bool{"mirrorList": &a.MirrorList, "signedMetadata": &a.SignedMetadata}
		fields := p.Fields(item, "a source", slices.Concat(keys(lists), keys(texts), keys(switches))...)
		for name, n := range fields {
			switch {
			case n == nil:
			case lists[name] != nil:
				*lists[name] = p.texts(n, name)
			case texts[name] != nil:
				*texts[name] = p.Text(n, name)
			case switches[name] != nil:
				*switches[name] = p.boolean(n, name)
			}
		}
		list = append(list, a)
	}
	return list
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// boolean reads a YAML 1.2 boolean.
func (p *parser) boolean(n *yaml.Node, what string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		p.Errorf(p.Pos(n), "", "%s must be true or false", what)
	}
	return n.Value == "true"
}

func (p *parser) items(n *yaml.Node, what string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		p.Errorf(p.Pos(n), "", "%s must be a list", what)
		return nil
	}
	return n.Content
}

func (p *parser) texts(n *yaml.Node, what string) []string {
	var list []string
	for _, item := range p.items(n, what) {
		list = append(list, p.Text(item, "an element of "+what))
	}
	return list
}
