package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/spec"
)

// withModules is an install of two modules and their operator.
func withModules(t *testing.T) *Install {
	t.Helper()
	var addOns []addOn
	for _, name := range []string{"kubernetes", "my-web", "zone", "operator", "other"} {
		a := with(t, name, "", name)
		a.layout = &runtime.Layout{Images: make([]runtime.Image, 1)}
		switch name {
		case "my-web", "zone":
			a.meta.Module, a.hooks = true, nil
		case "operator":
			a.meta.Provides, a.texts = []string{catalog.ModuleOperator}, [][]byte{[]byte("operator() { log $" + modulesVariable + "; }")}
		}
		addOns = append(addOns, a)
	}
	return made(t, addOns...)
}

func TestOperatorWaitsForModuleImages(t *testing.T) {
	for _, s := range withModules(t).plan {
		want := map[string][]string{"operator/install": {"operator/images", "my-web/images", "zone/images"}, "other/install": {"other/images"}}[s.ID]
		if want != nil && !slices.Equal(s.After, want) {
			t.Errorf("%s waits for %v, want %v", s.ID, s.After, want)
		}
	}
}

// TestOperatorRerunsWhenModuleChanges compares the inputs of its step.
func TestOperatorRerunsWhenModuleChanges(t *testing.T) {
	inputs := func(change func(*Install)) string {
		i := withModules(t)
		change(i)
		i.vars = i.variables()
		i.hooks = newHooks(i.options.Root, i.addOns, i.vars, i.Log)
		plan := i.makePlan()
		at := slices.IndexFunc(ids(plan), func(id string) bool { return id == "operator/install" })
		return plan[at].Inputs
	}
	same := inputs(func(*Install) {})
	for name, row := range map[string]struct {
		change func(*Install)
		same   bool
	}{
		"nothing":          {func(*Install) {}, true},
		"another add-on":   {func(i *Install) { i.addOns[4].info.Index = "new" }, true},
		"a module's files": {func(i *Install) { i.addOns[1].info.Index = "new" }, false},
		"its options":      {func(i *Install) { i.addOns[1].options = "new" }, false},
		"it is gone":       {func(i *Install) { i.addOns = slices.Delete(i.addOns, 1, 2) }, false},
	} {
		if got := inputs(row.change) == same; got != row.same {
			t.Errorf("%s: the step is the same: %t, want %t", name, got, row.same)
		}
	}
}

func TestModulesReachOperator(t *testing.T) {
	i := withModules(t)
	var err error
	i.spec, err = spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n"+
		"  myWeb: {version: '1', greeting: moin, size: 3, s3Override: https://example.com/web.tar.gz}\n  zone: {version: '1'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"myWebEnabled": true, "myWeb": map[string]any{"greeting": "moin", "size": int64(3)}, "zoneEnabled": true}
	if diff := cmp.Diff(want, i.moduleSections()); diff != "" {
		t.Error(diff)
	}
	deployment, err := i.mountModules("addon-operator", "operator")
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"path: /root-of-install/addons/my-web/1\n", "path: /root-of-install/addons/zone/1\n", "type: Directory\n",
		"mountPath: /modules/my-web\n", "mountPath: /modules/zone\n", "readOnly: true\n", modulesAnnotation + ": ",
		`sealift.dev/module-options: '{"configMap":"addon-operator","sections":{"myWeb":{"greeting":"moin","size":3},"myWebEnabled":true,"zoneEnabled":true}}'`} {
		if !strings.Contains(string(patch), text) {
			t.Errorf("no %q in\n%s", text, patch)
		}
	}
	if err := i.giveModules(t.Context(), []string{"one"}, nil); err == nil {
		t.Error("too few arguments are no error")
	}
}

// catalogued renders the objects of the catalogue's operator, with its patches.
func catalogued(t *testing.T, i *Install) []*unstructured.Unstructured {
	t.Helper()
	const from = "../../addons/operator/template/yaml"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"deployment.yaml": read(t, dir, "deployment.yaml.tmpl"), "replicas.yaml": strings.ReplaceAll(read(t, dir, "replicas.tmpl.yaml"), "${OPERATOR_REPLICAS}", "2"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.giveModules(t.Context(), []string{"addon-operator", "operator", "sealift-operator-definitions", filepath.Join(dir, "modules.yaml")}, nil); err != nil {
		t.Fatal(err)
	}
	objects, err := render.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestCatalogueOperatorMountsModules(t *testing.T) {
	objects := catalogued(t, withModules(t))
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	var d appsv1.Deployment
	if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(objects[at].Object, &d); err != nil {
		t.Fatal(err)
	}
	var volumes, mounts []string
	for _, v := range d.Spec.Template.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	slices.Sort(volumes)
	slices.Sort(mounts)
	if diff := cmp.Diff([]string{"module-0", "module-1", "run", "tmp"}, volumes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/modules/my-web", "/modules/zone", "/run/addon-operator", "/tmp"}, mounts); diff != "" {
		t.Error(diff)
	}
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("new modules wait for the old operator: %q", d.Spec.Strategy.Type)
	}
	if d.Annotations["sealift.dev/module-options"] == "" {
		t.Error("the Deployment does not tell the options of modules")
	}
	if d.Namespace != "addon-operator" || *d.Spec.Replicas != 2 || d.Spec.Template.Annotations[modulesAnnotation] == "" || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("the Deployment is %+v", d)
	}
}

// definition is a CustomResourceDefinition of plants.
func definition(plural string) string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: ` + plural + `, kind: K` + plural + `}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
}

// TestOperatorWritesOnlyItsModuleDefinitions gives the catalogue's operator its rights in a real API server, and tries as the
// operator what it may do with definitions.
func TestOperatorWritesOnlyItsModuleDefinitions(t *testing.T) {
	i := withModules(t)
	i.options.Root = t.TempDir()
	crds := filepath.Join(i.options.Root, i.modules()[0].info.Dir(), "crds")
	if err := os.MkdirAll(crds, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"roses.yaml": definition("roses"), "trees.yaml": definition("oaks") + "---\n" + definition("elms"), "doc-en.yaml": "spec: {a: 1}\n", "_x.yaml": "a: ["} {
		if err := os.WriteFile(filepath.Join(crds, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	admin := controlplane.ForTest(t)
	clusterOf := func(user string) *kube.Cluster {
		config := rest.CopyConfig(admin)
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		}
		cluster, err := kube.Connect(config, nil)
		if err != nil {
			t.Fatal(err)
		}
		return cluster
	}
	all := kube.New(clusterOf(""), kube.Options{})
	if _, err := all.Apply(t.Context(), kube.Set{Name: "operator", Namespace: "default"}, catalogued(t, i), kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	operator := clusterOf("system:serviceaccount:addon-operator:operator")
	write := func(plural string, update bool) error {
		objects, err := render.Decode(strings.NewReader(definition(plural)))
		if err != nil {
			t.Fatal(err)
		}
		definitions, err := operator.Objects(t.Context(), kube.RefOf(objects[0]))
		if err != nil {
			t.Fatal(err)
		}
		if !update {
			_, err = definitions.Create(t.Context(), objects[0], metav1.CreateOptions{})
			return err
		}
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the API server writes the status
			live, err := definitions.Get(t.Context(), objects[0].GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			live.SetLabels(map[string]string{"seen": "yes"})
			_, err = definitions.Update(t.Context(), live, metav1.UpdateOptions{})
			return err
		})
	}
	foreign, err := render.Decode(strings.NewReader(definition("weeds")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Apply(t.Context(), kube.Set{Name: "other", Namespace: "default"}, foreign, kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ { // a policy holds a moment after it was made
		err := write(fmt.Sprintf("thorns%d", n), false)
		if err != nil && strings.Contains(err.Error(), fmt.Sprintf("may not create the definition thorns%d.example.com, which is not in crds/ of its modules", n)) {
			break
		}
		if err != nil || n == 300 {
			t.Fatalf("a definition of nobody is created: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, plural := range []string{"roses", "oaks", "elms"} {
		if err := errors.Join(write(plural, false), write(plural, true)); err != nil {
			t.Errorf("a definition of a module: %v", err)
		}
	}
	if err := write("weeds", true); !apierrors.IsForbidden(err) {
		t.Errorf("a definition of somebody else is updated: %v", err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
