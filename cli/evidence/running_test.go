package evidence

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/builder/inventory"
)

// TestImagesAreJoinedByDigest uses an image that two nodes report by several names, one that only a pod names, and one without a digest.
func TestImagesAreJoinedByDigest(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	all := make(collected)
	for node, names := range map[string][]any{"one": {"x.io/a@" + a, "x.io/a:1"}, "two": {"x.io/a@" + a, "x.io/a:latest"}} {
		all.node(unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": node}, "status": map[string]any{"images": []any{map[string]any{"names": names}, map[string]any{"names": []any{"x.io/loaded:1"}}}}}})
	}
	all.pod(unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeName": "two"}, "status": map[string]any{"containerStatuses": []any{
		map[string]any{"image": "x.io/b:1", "imageID": "x.io/b@" + b}, map[string]any{"image": "x.io/loaded:1", "imageID": "sha256:" + strings.Repeat("c", 64)}}}}})
	all.pod(unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"containerStatuses": []any{map[string]any{"image": "x.io/not-scheduled:1"}}}}})
	images := all.sorted()
	found, unknown := pick(images, []inventory.Image{{Ref: "x.io/a:1", Digest: a, Manifest: a}, {Ref: "x.io/b:1", Digest: a + "0"}, {Ref: "x.io/loaded:1", Digest: b + "0"}})
	var lines []string
	for _, i := range images {
		lines = append(lines, fmt.Sprintf("%v %d %v %v", i.Names, len(i.Digests), i.Nodes, i.Known))
	}
	want := "[x.io/a:1 x.io/a:latest] 1 [one two] true\n[x.io/b:1] 1 [two] false\n[x.io/loaded:1] 0 [one two] true"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(found) != 2 || len(unknown) != 1 || !strings.HasPrefix(unknown[0], "image x.io/b:1 on two:") {
		t.Errorf("found %v, unknown %q", found, unknown)
	}
}
