package upstreamfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/kube/render"
)

// pack makes the archive of the row's chart as 'helm package' does, without the dependencies that are absent.
func (r row) pack(t *testing.T, dir string) (name, version string, archive []byte) {
	t.Helper()
	loaded, err := loader.LoadDir(filepath.Join(dir, filepath.FromSlash(r.chart)))
	if err != nil {
		t.Fatal(err)
	}
	loaded.Metadata.Dependencies = slices.DeleteFunc(loaded.Metadata.Dependencies, func(d *chart.Dependency) bool { return slices.Contains(r.absent, d.Name) })
	if loaded.Lock = nil; loaded.Metadata.APIVersion == "" {
		loaded.Metadata.APIVersion = "v2"
	}
	packed, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if archive, err = os.ReadFile(packed); err != nil {
		t.Fatal(err)
	}
	return loaded.Name(), loaded.Metadata.Version, archive
}

// release is the one for which the row's chart is rendered.
func (r row) release(name string) helm.Release {
	namespace := r.namespace
	if namespace == "" {
		namespace = name
	}
	return helm.Release{Name: name, Namespace: namespace, Values: []byte(r.values)}
}

// rendered renders the row's chart, and compares its objects with those of Helm.
func (r row) rendered(t *testing.T, archive []byte, of helm.Release) (helm.Rendered, []*unstructured.Unstructured) {
	t.Helper()
	got, err := engine.Renderer{}.Render(t.Context(), archive, of)
	if err != nil {
		t.Fatalf("render the chart: %v", err)
	}
	objects, err := render.Build(folderOf(t, got))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := named(t, objects), map[string]*unstructured.Unstructured{}
	for _, o := range template(t, archive, of) {
		key := o.GroupVersionKind().GroupKind().String() + " " + o.GetName()
		inNamespace := o.GroupVersionKind().GroupKind().String() + " " + of.Namespace + "/" + o.GetName()
		switch {
		case o.GetNamespace() != "":
			key = o.GroupVersionKind().GroupKind().String() + " " + o.GetNamespace() + "/" + o.GetName()
		case ours[key] == nil && ours[inNamespace] != nil: // Helm applies it there
			key = inNamespace
			o.SetNamespace(of.Namespace)
		}
		theirs[key] = o
	}
	added := "Namespace " + of.Namespace
	if theirs[added] == nil { // as helm install --create-namespace
		delete(ours, added)
	}
	if diff := cmp.Diff(keys(theirs), keys(ours)); diff != "" {
		t.Errorf("other objects than Helm renders (-Helm +Sealift):\n%s", diff)
	}
	for key, o := range theirs {
		if ours[key] != nil {
			if diff := cmp.Diff(o.Object, ours[key].Object); diff != "" {
				t.Errorf("%s is another one than Helm's (-Helm +Sealift):\n%s", key, diff)
			}
		}
	}
	return got, objects
}

// folderOf writes a rendered chart as packages have it.
func folderOf(t *testing.T, r helm.Rendered) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"kustomization.yaml": []byte("resources: [rendered.yaml]\n"), "rendered.yaml": r.Document()} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// template is what 'helm template --include-crds' prints, and the hooks of an installation.
func template(t *testing.T, archive []byte, of helm.Release) []*unstructured.Unstructured {
	t.Helper()
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	values, err := helm.ReadValues(of.Values)
	if err != nil {
		t.Fatal(err)
	}
	version, err := common.ParseKubeVersion("v1.36.0")
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.IncludeCRDs, install.KubeVersion = action.DryRunClient, true, version
	install.ReleaseName, install.Namespace = of.Name, of.Namespace
	made, err := install.RunWithContext(t.Context(), loaded, values)
	if err != nil {
		t.Fatalf("Helm itself does not render the chart: %v", err)
	}
	rendered, ok := made.(*release.Release)
	if !ok {
		t.Fatalf("Helm made a %T", made)
	}
	text := rendered.Manifest
	for _, hook := range rendered.Hooks {
		if slices.Contains(hook.Events, release.HookPreInstall) || slices.Contains(hook.Events, release.HookPostInstall) {
			text += "\n---\n" + hook.Manifest
		}
	}
	objects, err := render.DecodeApplied(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
