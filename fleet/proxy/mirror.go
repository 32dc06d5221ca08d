package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/kube/render"
)

// mirrorsID identifies mirrors in a label. No mirrors have none.
func mirrorsID(mirrors []ocm.ImageMirror) string {
	if len(mirrors) == 0 {
		return ""
	}
	text, err := json.Marshal(mirrors)
	if err != nil {
		return "" // two strings each: they are JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// rewrite returns what makes the images of a chart's pods those that the cluster finds.
func rewrite(mirrors []ocm.ImageMirror) func([]byte) ([]byte, error) {
	return func(manifests []byte) ([]byte, error) {
		objects, err := render.DecodeRendered(bytes.NewReader(manifests))
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		for _, o := range objects {
			template.RewriteImages(o.Object, mirrors)
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return nil, err
			}
			out.WriteString("---\n")
			out.Write(text)
		}
		return out.Bytes(), nil
	}
}
