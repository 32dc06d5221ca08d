package lock

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle"
)

// Target is what the package solver of an operating system returned.
type Target struct {
	Name     string    `yaml:"target"`   // such as debian-12
	Platform string    `yaml:"platform"` // such as linux/amd64
	Names    []string  `yaml:"names"`    // the requested packages, resolved in one transaction; sorted
	Packages []Package `yaml:"packages"` // the resolved packages, sorted by Name and Arch
}

// Package is one package file.
type Package struct {
	bundle.HostPackageID `yaml:",inline"`
	URL                  string `json:"url" yaml:"url"` // the upstream URL, even if a mirror served it
	bundle.Blob          `yaml:",inline"`
	Key                  string `json:"key,omitempty" yaml:"key,omitempty"` // sha256 of the keys that verified the signature of an rpm
}

// Target returns the locked packages of an operating system on a platform.
func (l *Lock) Target(name, platform string) (Target, bool) {
	return find(l.Targets, func(t Target) bool { return t.Name == name && t.Platform == platform })
}

func targetSection() section {
	return section{
		name:  "hostPackages",
		read:  func(p *parser, n *yaml.Node, l *Lock) { l.Targets = append(l.Targets, p.target(n)) },
		facts: Lock.packages,
	}
}

func (p *parser) target(n *yaml.Node) Target {
	r := p.record(n, "a target", []string{"target", "platform", "names", "packages"})
	t := Target{Name: r.text("target"), Platform: r.text("platform")}
	r.once("target", "platform")
	for _, n := range r.list("names") {
		t.Names = append(t.Names, p.Text(n, "a name"))
	}
	for _, n := range r.list("packages") {
		r := p.record(n, "a package", []string{"name", "version", "arch", "url", "sha256", "size"}, "key")
		one := Package{HostPackageID: bundle.HostPackageID{Name: r.text("name"), Version: r.text("version"), Arch: r.text("arch")}, URL: r.text("url"), Blob: r.blob()}
		if r.has("key") {
			one.Key = r.sha256("key")
		}
		t.Packages = append(t.Packages, one)
	}
	return t
}

// packages maps each package to its versions, and to its content if the version alone would not show a change. It maps each
// target to the requested names.
func (l Lock) packages() map[string]string {
	m := make(map[string]string)
	for _, t := range l.Targets {
		target := t.Name + " " + t.Platform
		m[target] = "packages for " + strings.Join(t.Names, " ")
		for _, p := range t.Packages {
			what := target + " " + p.Name
			is := fmt.Sprintf("%s %s (sha256:%s)", p.Version, p.Arch, p.SHA256[:min(12, len(p.SHA256))])
			if p.Key != "" {
				is += " signed by keys sha256:" + p.Key[:min(12, len(p.Key))]
			}
			if other := m[what]; other != "" {
				is = other + ", " + is
			}
			m[what] = is
		}
	}
	return m
}
