package upstreamfiles

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/catalog/references/object"
	"github.com/sealift/sealift/internal/strictyaml"
)

// found are the images of objects.
func found(t *testing.T, text []byte) (images []object.Image) {
	t.Helper()
	if err := strictyaml.Documents(text, func(node *yaml.Node) { images = append(images, object.Scan{}.Images(node)...) }); err != nil {
		t.Fatal(err)
	}
	return images
}

// count prints the number of different images by rule.
func count(images []object.Image) string {
	byRule := map[string]map[string]bool{}
	for _, image := range images {
		if byRule[string(image.Rule)] == nil {
			byRule[string(image.Rule)] = map[string]bool{}
		}
		byRule[string(image.Rule)][image.Ref] = true
	}
	var list []string
	for _, rule := range keys(byRule) {
		list = append(list, fmt.Sprintf("%d %s", len(byRule[rule]), rule))
	}
	return strings.Join(list, ", ")
}

// checkImages compares the images that were found with those that a reader sees: every word of every text of the objects that has
// the form of an image with a tag or a digest.
func (r row) checkImages(t *testing.T, objects []*unstructured.Unstructured, images []object.Image) {
	t.Helper()
	known := map[string]bool{}
	for _, image := range images {
		known[image.Ref] = true
	}
	seen := map[string]string{}
	for _, o := range objects {
		look(o.Object, o.GetKind()+" "+o.GetName(), seen)
	}
	for _, image := range keys(seen) {
		if !known[image] && !slices.Contains(r.unlike, image) {
			t.Errorf("%s names the image %s, which no rule finds", seen[image], image)
		}
	}
	for _, text := range r.unlike {
		if seen[text] == "" || known[text] {
			t.Errorf("%s is not in the objects, or is taken for an image", text)
		}
	}
	got := count(images)
	t.Logf("images by rule: %s", cmp.Or(got, "none"))
	if got != r.images {
		t.Errorf("images: %s; want %s", got, r.images)
	}
}

// word has the form of an image: a registry or a folder, and a version or a digest; or one of the large registries.
var word = regexp.MustCompile(`^(?:(?:[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d+)?/)(?:[a-z0-9._-]+/)*[a-z0-9._-]+(?::v?\d[\w.-]*|:latest|:main|@sha256:[0-9a-f]{64})+|(?:docker\.io|quay\.io|ghcr\.io|gcr\.io|k8s\.gcr\.io|registry\.k8s\.io)/[a-z0-9._/-]+)$`)

// look finds words in all texts below a value.
func look(value any, at string, seen map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if _, text := inner.(string); key != "description" || !text {
				look(inner, at+"."+key, seen)
			}
		}
	case []any:
		for i, inner := range value {
			look(inner, fmt.Sprintf("%s[%d]", at, i), seen)
		}
	case string:
		for _, text := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\n\"'`=,;()[]{}<>|", c) }) {
			if word.MatchString(text) {
				seen[text] = at
			}
		}
	}
}
