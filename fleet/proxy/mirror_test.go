package proxy

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestMirrorsTakeWhatHelmTakes has a chart that Helm installs without mirrors: keys that are given twice, and an object that the API server
// names.
func TestMirrorsTakeWhatHelmTakes(t *testing.T) {
	const manifests = `apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {a: first, a: last}}
---
# nothing
---
apiVersion: batch/v1
kind: Job
metadata:
  generateName: once-
  annotations: {"helm.sh/hook": post-install}
spec: {template: {spec: {containers: [{name: c, image: "registry.example.io/c:1"}]}}}
`
	out, err := rewrite([]ocm.ImageMirror{{Source: "registry.example.io", Mirror: "ship.local:5000"}})([]byte(manifests))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a: last", "generateName: once-", "helm.sh/hook: post-install", "image: ship.local:5000/c:1"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
}
