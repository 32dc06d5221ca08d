package lock

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle"
)

// Asset is the content that a URL served.
type Asset struct {
	URL         string `yaml:"url"` // the upstream URL, even if a mirror served it
	bundle.Blob `yaml:",inline"`
}

// Asset returns the locked asset of a URL.
func (l *Lock) Asset(url string) (Asset, bool) {
	return find(l.Assets, func(a Asset) bool { return a.URL == url })
}

func assetSection() section {
	return section{name: "assets", read: readAsset, facts: Lock.assets}
}

func readAsset(p *parser, n *yaml.Node, l *Lock) {
	r := p.record(n, "an asset", []string{"url", "sha256", "size"})
	l.Assets = append(l.Assets, Asset{URL: r.text("url"), Blob: r.blob()})
	r.once("url")
}

func (l Lock) assets() map[string]string {
	m := make(map[string]string)
	for _, a := range l.Assets {
		m["asset "+a.URL] = fmt.Sprintf("sha256:%s (%d bytes)", a.SHA256, a.Size)
	}
	return m
}
