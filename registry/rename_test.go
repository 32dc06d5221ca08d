package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/registry"
)

const (
	someDigest  = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	otherDigest = "sha256:1123456789012345678901234567890123456789012345678901234567890123"
)

func TestRenamerKeepsTagsAndDigests(t *testing.T) {
	target := registry.Target{Host: "harbor.corp", Prefix: "mirror"}
	refs := []string{"docker.io/library/busybox:1.35.0", "quay.io/jetstack/solver:v1.2", "reg.example:5000/app:1@" + someDigest, "docker.io/rancher/tool:v1", "docker.io/library/nginx:latest", "quay.io/jetstack/solver@" + someDigest}
	r, err := registry.NewRenamer(target, refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ object, want, renamed, unknown string }{
		{"{kind: Pod, spec: {containers: [{image: 'busybox:1.35.0'}]}}", "image: harbor.corp/mirror/docker.io/library/busybox:1.35.0", "busybox:1.35.0", ""},
		{"{kind: Pod, spec: {initContainers: [{image: docker.io/busybox:1.35.0}]}}", "image: harbor.corp/mirror/docker.io/library/busybox:1.35.0", "docker.io/busybox:1.35.0", ""},
		{"{kind: Pod, spec: {containers: [{image: nginx}]}}", "image: harbor.corp/mirror/docker.io/library/nginx:latest", "nginx", ""},
		{"{kind: Pod, spec: {containers: [{image: 'reg.example:5000/app:1'}]}}", "image: harbor.corp/mirror/reg.example_5000/app:1\n", "reg.example:5000/app:1", ""},
		{"{kind: Pod, spec: {containers: [{image: 'reg.example:5000/app@" + someDigest + "'}]}}", "image: harbor.corp/mirror/reg.example_5000/app@" + someDigest, "reg.example:5000/app@" + someDigest, ""},
		{"{kind: Pod, spec: {containers: [{image: 'quay.io/jetstack/solver:v1.2@" + someDigest + "'}]}}", "image: harbor.corp/mirror/quay.io/jetstack/solver:v1.2@" + someDigest, "quay.io/jetstack/solver:v1.2@" + someDigest, ""},
		{"{kind: Pod, spec: {containers: [{image: 'quay.io/jetstack/solver:v1.3'}]}}", "image: quay.io/jetstack/solver:v1.3", "", "quay.io/jetstack/solver:v1.3"},
		{"{kind: Pod, spec: {containers: [{args: ['--image=quay.io/jetstack/solver:v1.2']}]}}", "--image=harbor.corp/mirror/quay.io/jetstack/solver:v1.2", "quay.io/jetstack/solver:v1.2", ""},
		{"{kind: ConfigMap, data: {pod: 'image: busybox:1.35.0, image: rancher/tool:v1'}}", "image: harbor.corp/mirror/docker.io/library/busybox:1.35.0, image: harbor.corp/mirror/docker.io/rancher/tool:v1", "busybox:1.35.0 rancher/tool:v1", ""},
		{"{kind: ConfigMap, data: {pod: 'quay.io/jetstack/solver:v1.2.1 my/quay.io/jetstack/solver:v1.2 quay.io/jetstack/solver'}}", "quay.io/jetstack/solver:v1.2.1 my/quay.io/jetstack/solver:v1.2 quay.io/jetstack/solver", "", ""},
		{"{kind: Pod, spec: {containers: [{image: 'quay.io/jetstack/solver:v1.2@" + otherDigest + "'}]}}", "image: quay.io/jetstack/solver:v1.2@", "", "quay.io/jetstack/solver:v1.2@" + otherDigest},
		{"{kind: ConfigMap, data: {pod: 'quay.io/jetstack/solver:v1.2@" + otherDigest + "'}}", "pod: quay.io/jetstack/solver:v1.2@", "", ""},
		{"{kind: ConfigMap, data: {pod: 'quay.io/jetstack/solver:v1.2@" + someDigest + "'}}", "pod: harbor.corp/mirror/quay.io/jetstack/solver:v1.2@" + someDigest, "quay.io/jetstack/solver:v1.2", ""},
		{"{kind: ConfigMap, metadata: {name: nginx}, data: {image: nginx}}", "image: nginx", "", ""},
		{"{kind: CustomResourceDefinition, spec: {x: 'busybox:1.35.0'}}", "x: busybox:1.35.0", "", ""},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(row.object), &object); err != nil {
			t.Fatal(err)
		}
		for again := range 2 {
			renamed, unknown := r.Rename(object)
			text, err := yaml.Marshal(object)
			if err != nil || !strings.Contains(string(text), row.want) {
				t.Errorf("%s: %s, %v", row.object, text, err)
			}
			var from []string
			for _, one := range renamed {
				from = append(from, one.From)
			}
			if got := strings.Join(from, " "); again == 0 && (got != row.renamed || strings.Join(unknown, " ") != row.unknown) {
				t.Errorf("%s: renamed %q, unknown %v", row.object, got, unknown)
			} else if again > 0 && got != "" {
				t.Errorf("%s: renamed twice: %s", row.object, got)
			}
		}
	}
	if _, err := registry.NewRenamer(target, []string{"A B"}); err == nil || !strings.Contains(fmt.Sprint(err), `image "A B"`) {
		t.Error(err)
	}
}
