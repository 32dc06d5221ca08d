package release_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/helm/release"
)

const thingDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s.example.com, labels: {version: "%[2]s"}}
spec:
  group: %[1]s.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// TestIncludedDefinitionsSurviveUpgrades installs a chart whose definitions are objects of the release, and upgrades it with the option and
// without it.
func TestIncludedDefinitionsSurviveUpgrades(t *testing.T) {
	w := newWorld(t)
	with := func(version string) release.Chart {
		return chart(t, version, map[string]string{
			"crds/things.yaml":      fmt.Sprintf(thingDefinition, w.namespace, version),
			"templates/things.yaml": "apiVersion: " + w.namespace + ".example.com/v1\nkind: Thing\nmetadata: {name: one}\n",
		})
	}
	w.must(w.Install(t.Context(), "web", with("1.0.0"), nil, release.Options{IncludeCRDs: true}))
	r := w.wantStatus("web", 1, release.Deployed)
	installed := w.definition("things." + w.namespace + ".example.com")
	if installed.UID == "" || strings.Count(r.Manifest, "kind: CustomResourceDefinition") != 1 {
		t.Fatalf("installed is the definition %v, with the manifest\n%s", installed, r.Manifest)
	}
	for i, version := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		w.must(w.Upgrade(t.Context(), "web", with(version), nil, release.Options{IncludeCRDs: i == 0}))
		r := w.wantStatus("web", i+2, release.Deployed)
		has := w.definition("things." + w.namespace + ".example.com")
		if has.UID != installed.UID || has.Labels["version"] != version || strings.Count(r.Manifest, "kind: CustomResourceDefinition") != 1 {
			t.Fatalf("version %s has the definition %v, and had %v, with the manifest\n%s", version, has, installed, r.Manifest)
		}
	}
	if err := w.Uninstall(t.Context(), "web", release.Options{}); err != nil {
		t.Fatal(err)
	}
	if has := w.definition("things." + w.namespace + ".example.com"); has.UID != "" {
		t.Errorf("after uninstalling there is %v", has)
	}
}

// definition returns a CustomResourceDefinition that is not being deleted.
func (w *world) definition(name string) (d metav1.PartialObjectMetadata) {
	w.t.Helper()
	text, err := w.objects.RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name).DoRaw(w.t.Context())
	if apierrors.IsNotFound(err) {
		return d
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if d.DeletionTimestamp != nil {
		return metav1.PartialObjectMetadata{}
	}
	return d
}
