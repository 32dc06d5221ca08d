package control_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/control"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/store"
)

// toolTemplate is a template with an image whose tag is a variable. Its argument distinguishes contents.
const toolTemplate = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: tools}
spec:
  addonName: tools
  agentSpec:
    workload:
      manifests:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: tools, namespace: default}
        spec:
          selector: {matchLabels: {app: tools}}
          template:
            metadata: {labels: {app: tools}}
            spec:
              initContainers: [{name: first, image: "example.com/first:1", args: [%q]}]
              containers: [{name: tool, image: "example.com/tool:{{TOOL}}", args: ["{{OTHER}}"]}]
`

const toolConfig = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: tools, namespace: default}
spec: {customizedVariables: [{name: TOOL, value: %q}, {name: OTHER, value: %q}]}
`

// tools returns the images of the work on oslo, and the argument of the second one.
func (g *grid) tools() (found []string) {
	var works ocm.List[ocm.ManifestWork]
	g.must(g.client.List(g.Context(), &works, client.InNamespace("oslo"), client.MatchingLabels{ocm.AddOnLabel: "tools"}))
	for _, w := range works.Items {
		for _, m := range w.Spec.Workload.Manifests {
			found = append(found, template.Images(m)...)
			list, _, _ := unstructured.NestedSlice(m, "spec", "template", "spec", "containers")
			found = append(found, fmt.Sprint(list[0].(map[string]any)["args"]))
		}
	}
	return found
}

// toolsAre waits until the work on oslo has an argument and names some images.
func (g *grid) toolsAre(other string, images ...string) {
	g.Helper()
	want := append(slices.Clone(images), "["+other+"]")
	g.eventually("tools has its images", func() string {
		if got := g.tools(); !slices.Equal(got, want) {
			return fmt.Sprintf("%s, not %s", got, want)
		}
		return g.has("oslo", "tools", "Configured", "True/ConfigurationsConfigured")
	})
}

// TestWorksNameDigests uses a store with packages, a tag that moves, and images that no package carries.
func TestWorksNameDigests(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo")
	folder := t.TempDir()
	put := func(version string, images map[string]string) {
		t.Helper()
		p := bundle.Package{Name: "tools", Version: version, Platforms: []string{"linux/amd64"}}
		for ref, digit := range images {
			p.Contents.Images = append(p.Contents.Images, bundle.Image{ID: ref, Ref: ref, Digest: digest(digit)})
		}
		p.Files = []bundle.File{bundle.BytesFile(bundle.AddOnDir("tools", version)+"/install.sh", 0o644, nil)}
		f, err := os.Create(filepath.Join(folder, "tools-"+version+".tar.gz"))
		g.must(err)
		_, err = bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{})
		g.must(errors.Join(err, f.Close()))
	}
	restart := func(o control.Options) {
		t.Helper()
		g.stops["hub"]()
		g.options = o
		g.startHub()
	}
	s, err := store.Open(folder)
	g.must(err)
	stocked := control.Options{Store: &packages.Source{Store: s}, LookupInterval: time.Second}

	g.apply(strings.Join(strings.Split(hello, "---")[:2], "---")) // all clusters
	g.apply(fmt.Sprintf(toolTemplate, "one") + "---" + fmt.Sprintf(toolConfig, "1", "1") + "---" + strings.ReplaceAll(addOn, "name: hello", "name: tools"))
	g.toolsAre("1", "example.com/first:1", "example.com/tool:1")

	t.Log("a hub that gets a store changes nothing by that")
	put("1.0", map[string]string{"example.com/first:1": "a", "example.com/tool:1": "b"})
	restart(stocked)
	g.eventually("the hub has looked", func() string {
		config := g.pins()
		for _, text := range config {
			if strings.Contains(text, `"asNamed":true`) {
				return ""
			}
		}
		return fmt.Sprint(config)
	})
	g.apply(fmt.Sprintf(toolConfig, "1", "2"))
	g.toolsAre("2", "example.com/first:1", "example.com/tool:1")

	t.Log("another content of the template names digests")
	g.apply(fmt.Sprintf(toolTemplate, "two"))
	first, tool := "example.com/first:1@"+digest("a"), "example.com/tool:1@"+digest("b")
	g.toolsAre("2", first, tool)

	t.Log("a tag that moves changes nothing, whatever else changes")
	put("2.0", map[string]string{"example.com/first:1": "c", "example.com/tool:1": "c"})
	restart(stocked)
	g.apply(fmt.Sprintf(toolConfig, "1", "3"))
	g.toolsAre("3", first, tool)

	t.Log("an image that no package carries is named, and nothing starts")
	g.apply(fmt.Sprintf(toolConfig, "2", "3"))
	g.says("oslo", "tools", "Configured", "False/ImagesMissing", "no package of the hub's store contains example.com/tool:2;")
	g.eventually("the add-on says so", func() string {
		var all ocm.ClusterManagementAddOn
		g.must(g.client.Get(t.Context(), types.NamespacedName{Name: "tools"}, &all))
		if c := all.Status.InstallProgressions[0].Conditions[0]; c.Reason != "ImagesMissing" || !strings.Contains(c.Message, "example.com/tool:2") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	if got := g.tools(); !slices.Equal(got, []string{first, tool, "[3]"}) {
		t.Errorf("the cluster got %s", got)
	}
	t.Log("it starts when a package comes")
	put("3.0", map[string]string{"example.com/tool:2": "d"})
	g.toolsAre("3", first, "example.com/tool:2@"+digest("d"))

	if config := g.pins(); len(config) != 1 {
		t.Errorf("what no cluster has is kept: %v", config)
	}

	t.Log("clusters may have an image from elsewhere")
	g.apply(fmt.Sprintf(toolConfig, "3", "3"))
	g.says("oslo", "tools", "Configured", "False/ImagesMissing", "kubectl annotate addontemplate tools fleet.sealift.dev/uncarried-images=true")
	g.apply(strings.Replace(fmt.Sprintf(toolTemplate, "two"), "{name: tools}", `{name: tools, annotations: {fleet.sealift.dev/uncarried-images: "true"}}`, 1))
	g.toolsAre("3", first, "example.com/tool:3")

	t.Log("the way back leads to the content of before, also without the store")
	g.options.Store = nil
	restart(g.options)
	g.apply(fmt.Sprintf(toolConfig, "1", "3"))
	g.toolsAre("3", first, tool)
}

// pins returns the stored pins of template tools.
func (g *grid) pins() map[string]string {
	var config corev1.ConfigMap
	g.must(client.IgnoreNotFound(g.client.Get(g.Context(), types.NamespacedName{Namespace: hub.DefaultNamespace, Name: "images.tools"}, &config)))
	return config.Data
}

func digest(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
