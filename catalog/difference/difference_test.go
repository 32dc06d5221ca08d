package difference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/catalog/difference"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/manifest"
)

func catalogue() map[string]string {
	const budget = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: demo, namespace: x}\n"
	return map[string]string{
		"demo/1.0/Manifest":          "",
		"demo/1.0/addon.yaml":        "options:\n  old: {type: string}\n  size: {type: integer, default: 1}\n",
		"demo/1.0/yaml/a.yaml":       budget + "---\napiVersion: v1\nkind: Service\nmetadata: {name: demo}\n",
		"demo/1.1/Manifest":          "",
		"demo/1.1/addon.yaml":        "options:\n  size: {type: integer, default: 2}\n  new: {type: boolean}\n",
		"demo/1.1/yaml/a.yaml":       strings.ReplaceAll(budget, "v1beta1", "v1") + "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: demos.example.org}\n",
		"kubernetes/1.24.1/Manifest": "",
		"old/0.1/Manifest":           "",
		"old/0.1/install.sh":         "old() {\nkubectl apply -f - <<EOF\napiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: tick}\nEOF\n}\n",
	}
}

func lines(changes []manifest.Change) string {
	var list []string
	for _, c := range changes {
		list = append(list, c.String())
	}
	return strings.Join(list, "\n")
}

func TestVersionsAreCompared(t *testing.T) {
	dir := fixture.Folder(t, catalogue())
	objects, options, err := difference.Of(t.Context(), dir, "demo", "1.0", "1.1")
	if err != nil {
		t.Fatal(err)
	}
	const wantObjects = `object CustomResourceDefinition demos.example.org: new, apiextensions.k8s.io/v1
object PodDisruptionBudget x/demo: policy/v1, was policy/v1beta1
object Service demo: no longer needed, was v1`
	const wantOptions = `option new: new, boolean
option size: integer, default 2, was integer, default 1
option old: no longer needed, was string`
	if got := lines(objects); got != wantObjects {
		t.Errorf("got\n%s\nwant\n%s", got, wantObjects)
	}
	if got := lines(options); got != wantOptions {
		t.Errorf("got\n%s\nwant\n%s", got, wantOptions)
	}
	if objects, _, err = difference.Of(t.Context(), dir, "demo", "", "1.0"); err != nil || len(objects) != 2 {
		t.Errorf("a first version has %v, %v", objects, err)
	}
}

func TestRemovedAPIsAreFound(t *testing.T) {
	const budget = "demo 1.0 has PodDisruptionBudget x/demo of policy/v1beta1, which Kubernetes 1.25 removed"
	const job = "old 0.1 has CronJob tick of batch/v1beta1, which Kubernetes 1.25 removed"
	for name, test := range map[string]struct {
		add            []string
		addOn, version string
		want           []string
	}{
		"while Kubernetes serves them":         {nil, "demo", "1.0", nil},
		"of one add-on":                        {[]string{"kubernetes/1.25.0"}, "demo", "1.0", []string{budget}},
		"of a version that has none":           {[]string{"kubernetes/1.25.0"}, "demo", "1.1", nil},
		"of all newest add-ons for Kubernetes": {[]string{"kubernetes/1.25.0"}, "kubernetes", "1.25.0", []string{job}},
	} {
		t.Run(name, func(t *testing.T) {
			files := catalogue()
			for _, dir := range test.add {
				files[dir+"/Manifest"] = ""
			}
			got, err := difference.RemovedAPIs(t.Context(), fixture.Folder(t, files), test.addOn, test.version)
			if !slices.Equal(got, test.want) || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
