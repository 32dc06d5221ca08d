package lock

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle"
)

// Chart is the chart that a repository served at a version.
type Chart struct {
	Name        string           `json:"name" yaml:"name"`             // of the release
	Repository  string           `json:"repository" yaml:"repository"` // as written in the Manifest
	Version     string           `json:"version" yaml:"version"`
	URL         string           `json:"url" yaml:"url"` // of the archive, or oci:// with the digest of its manifest; always upstream's, even if a mirror served it
	bundle.Blob `yaml:",inline"` // the archive
}

// Chart returns the locked chart of a repository at a version.
func (l *Lock) Chart(repository, name, version string) (Chart, bool) {
	return find(l.Charts, func(c Chart) bool { return c.Repository == repository && c.Name == name && c.Version == version })
}

func chartSection() section {
	return section{name: "charts", read: readChart, facts: Lock.charts}
}

func readChart(p *parser, n *yaml.Node, l *Lock) {
	r := p.record(n, "a chart", []string{"name", "repository", "version", "url", "sha256", "size"})
	l.Charts = append(l.Charts, Chart{
		Name: r.text("name"), Repository: r.text("repository"), Version: r.text("version"),
		URL: r.text("url"), Blob: r.blob(),
	})
	r.once("repository", "name", "version")
}

func (l Lock) charts() map[string]string {
	m := make(map[string]string)
	for _, c := range l.Charts {
		m["chart "+c.Name+" "+c.Repository] = fmt.Sprintf("%s sha256:%s (%d bytes)", c.Version, c.SHA256, c.Size)
	}
	return m
}
