package relocate_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/install/relocate"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/registry"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

// site is a cluster that Sealift did not install, and a folder with packages.
type site struct {
	*testing.T
	config *rest.Config
	client dynamic.Interface
	dir    string
	image  v1.Image
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, config: shared.Config(t), dir: t.TempDir()}
	var err error
	if s.client, err = dynamic.NewForConfig(s.config); err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.image = imagepackage.Runnable(t, image)
	return s
}

// The hooks of an add-on with a template, a preflight and options.
const (
	hooksOfApp = `NAME_preflights() { [[ $VARIABLE_COLOUR =~ ^[a-z]+$ ]] || bail "NAME.colour must be a word"; }
NAME() {
    local dir
    dir=$(sealift_add_on_dir NAME)
    cp "$DIR/addons/NAME/$VARIABLE_VERSION"/yaml/* "$dir/"
    render_yaml_file_2 "$dir/colour.tmpl.yaml" >"$dir/colour.yaml"
    insert_resources "$dir/kustomization.yaml" colour.yaml
    sealift_apply NAME "$dir"
}
`
	metaOfApp  = "description: x\nlicense: Apache-2.0\nrequires: [kubernetes]\noptions: {colour: {type: string, default: red}}\n"
	colour     = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME-colour, namespace: NAMESPACE}\ndata: {colour: '${VARIABLE_COLOUR}', image: 'quay.io/NAME/app:VERSION'}\n"
	deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  replicas: 0
  selector: {matchLabels: {app: NAME}}
  template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: c, image: 'quay.io/NAME/app:VERSION'}]}}
`
)

func namespaceOf(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// packed writes a package of an add-on whose kustomization has the named files, and returns its path. changes replace files of the add-on.
func (s *site) packed(name, version string, yaml map[string]string, changes ...[2]string) string {
	s.Helper()
	variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	filled := strings.NewReplacer("NAMESPACE", name, "NAME", name, "VARIABLE", variable, "VERSION", version)
	var names []string
	all := map[string]string{"Manifest": "image app quay.io/NAME/app:VERSION\n", "addon.yaml": metaOfApp, "yaml/colour.tmpl.yaml": colour}
	all["install.sh"] = strings.NewReplacer("VARIABLE", variable, "NAME", name).Replace(hooksOfApp)
	for file, text := range yaml {
		all["yaml/"+file] = text
		names = append(names, file)
	}
	all["yaml/kustomization.yaml"] = "resources: [" + strings.Join(names, ", ") + "]\n"
	for _, change := range changes {
		all[change[0]] = change[1]
	}
	var files []bundle.File
	for file, text := range all {
		if file != "install.sh" {
			text = filled.Replace(text)
		}
		files = append(files, bundle.BytesFile(bundle.AddOnDir(name, version)+"/"+file, 0o644, []byte(text)))
	}
	path := filepath.Join(s.dir, name+"-"+version+".tar.gz")
	imagepackage.WriteAddOn(s, path, name, version, "quay.io/"+name+"/app:"+version, s.image, files...)
	return path
}

func (s *site) options(file string, names ...string) relocate.Options {
	return relocate.Options{Bundle: install.Options{Bundle: file}, Names: names, Output: &bytes.Buffer{}}
}

// apply prepares and runs.
func (s *site) apply(o relocate.Options) ([]relocate.AddOn, error) {
	s.Helper()
	r, err := relocate.Prepare(s.Context(), s.config, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Run(s.Context(), &bytes.Buffer{})
}

func (s *site) mustApply(o relocate.Options) []relocate.AddOn {
	s.Helper()
	done, err := s.apply(o)
	if err != nil {
		s.Fatal(err)
	}
	return done
}

// refused checks that an add-on is refused with these words, and that no record was made.
func (s *site) refused(o relocate.Options, words ...string) {
	s.Helper()
	_, err := s.apply(o)
	for _, want := range words {
		if err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("no %q in: %v", want, err)
		}
	}
}

func (s *site) resource(resource, namespace string) dynamic.ResourceInterface {
	gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
	if resource == "deployments" {
		gvr.Group = "apps"
	}
	return s.client.Resource(gvr).Namespace(namespace)
}

// object reads an object; nil if there is none.
func (s *site) object(resource, namespace, name string) map[string]any {
	s.Helper()
	found, err := s.resource(resource, namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return found.Object
}

func text(object map[string]any, fields ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(object, fields...)
	return fmt.Sprint(value)
}

func (s *site) image0(object map[string]any) string {
	containers, _, _ := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	return text(containers[0].(map[string]any), "image")
}

// TestAddOnIsUpgradedPrunedAndRemoved uses two versions of an add-on, and images in a real registry.
func TestAddOnIsUpgradedPrunedAndRemoved(t *testing.T) {
	s := newSite(t)
	host := realregistry.Start(t)
	target := registry.Target{Host: host, Prefix: "mirror", Plain: true}
	whole := map[string]string{"namespace.yaml": namespaceOf("shop"), "app.yaml": deployment, "old.yaml": strings.ReplaceAll(colour, "NAME-colour", "NAME-old")}
	first := s.options(s.packed("shop", "1.0.0", whole), "shop")
	delete(whole, "old.yaml")
	second := s.options(s.packed("shop", "1.1.0", whole), "shop")
	first.Registry, second.Registry = &registry.Options{Target: target}, &registry.Options{Target: target}

	s.refused(first, "the registry lacks images", host+"/mirror/quay.io/shop/app:1.0.0", "sealift push "+first.Bundle.Bundle)
	for _, o := range []relocate.Options{first, second} {
		opened, err := bundle.Open(o.Bundle.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		push, err := registry.Prepare(t.Context(), opened, registry.Options{Target: target})
		if err == nil {
			_, err = push.Run(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	done := s.mustApply(first)
	if done[0].Count(kube.Created) != 4 || done[0].From != "" || len(done[0].Images) != 1 {
		t.Errorf("%+v", done)
	}
	want := host + "/mirror/quay.io/shop/app:1.0.0"
	if got := s.image0(s.object("deployments", "shop", "shop")); got != want {
		t.Errorf("the pods get %s, not %s", got, want)
	}
	if got := text(s.object("configmaps", "shop", "shop-colour"), "data", "image"); got != want {
		t.Errorf("the ConfigMap names %s", got)
	}
	if again := s.mustApply(first); again[0].Count(kube.Unchanged) != 4 || again[0].From != "1.0.0" {
		t.Errorf("again: %+v", again)
	}

	second.Bundle.Adjust = override("shop.colour=blue")
	r, err := relocate.Prepare(t.Context(), s.config, second)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if plan := r.Plan()[0]; plan.Summary() != "2 configured, 1 unchanged, 1 pruned" || plan.From != "1.0.0" || plan.Version != "1.1.0" {
		t.Errorf("%s %+v", plan.Summary(), plan)
	}
	if got := s.object("configmaps", "shop", "shop-old"); got == nil {
		t.Error("the plan deleted an object")
	}
	s.mustApply(second)
	if got := text(s.object("configmaps", "shop", "shop-colour"), "data", "colour"); got != "blue" || s.object("configmaps", "shop", "shop-old") != nil {
		t.Errorf("the option is %s, and the old object: %v", got, s.object("configmaps", "shop", "shop-old"))
	}
	s.refused(first, "has version 1.1.0 in the cluster", "--allow-downgrade")

	records := s.records("shop")
	if len(records) != 1 || records[0].Owner != addon.Command() || records[0].Version != "1.1.0" {
		t.Errorf("%+v", records)
	}
	removal, err := relocate.PrepareRemoval(t.Context(), s.config, relocate.RemovalOptions{Names: []string{"shop"}})
	if err != nil || removal.Plan()[0].Summary() != "2 pruned, 1 kept" {
		t.Fatalf("%+v, %v", removal.Plan(), err)
	}
	if s.object("deployments", "shop", "shop") == nil {
		t.Error("the plan deleted an object")
	}
	if _, err := removal.Run(t.Context(), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if records := s.records("shop"); len(records) != 0 || s.object("deployments", "shop", "shop") != nil {
		t.Errorf("%+v", records)
	}
	if _, err := relocate.PrepareRemoval(t.Context(), s.config, relocate.RemovalOptions{Names: []string{"shop"}}); err == nil || !strings.Contains(err.Error(), "nobody applied an add-on shop") {
		t.Error(err)
	}
}

// TestAddOnsOfOthersAreRefused uses an add-on of the installer, and objects that Helm, a GitOps tool and another set made.
func TestAddOnsOfOthersAreRefused(t *testing.T) {
	s := newSite(t)
	yaml := map[string]string{"namespace.yaml": namespaceOf("owned"), "app.yaml": deployment}
	o := s.options(s.packed("owned", "1.0.0", yaml), "owned")
	records := addon.RecordsOf(s.client)
	if _, err := records.Claim(t.Context(), "owned", addon.Ownership{Owner: addon.Installer(), Policy: addon.OnChange, Set: "sealift/owned"}); err != nil {
		t.Fatal(err)
	}
	s.refused(o, `add-on "owned" belongs to installer`, "take it out of the cluster's Installer")
	if _, err := relocate.PrepareRemoval(t.Context(), s.config, relocate.RemovalOptions{Names: []string{"owned"}}); err == nil || !strings.Contains(err.Error(), "belongs to installer") {
		t.Errorf("removed: %v", err)
	}
	if err := records.Forget(t.Context(), "owned", addon.Installer()); err != nil {
		t.Fatal(err)
	}

	create := func(resource string, text string) {
		t.Helper()
		object := &unstructured.Unstructured{Object: objectOf(t, text)}
		if _, err := s.resource(resource, object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{FieldManager: "helm"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(),
		&unstructured.Unstructured{Object: objectOf(t, namespaceOf("owned"))}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create("configmaps", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned-colour, namespace: owned, annotations: {meta.helm.sh/release-name: paint, meta.helm.sh/release-namespace: apps}}\n")
	s.refused(o, "ConfigMap/owned/owned-colour: it exists and belongs to the release apps/paint of Helm")
	if s.object("deployments", "owned", "owned") != nil || text(s.object("configmaps", "owned", "owned-colour"), "data") != "<nil>" {
		t.Error("something was changed")
	}
	if found := s.records("owned"); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestRequirementsAreChecked(t *testing.T) {
	s := newSite(t)
	needs := func(what string) [2]string {
		return [2]string{"addon.yaml", strings.Replace(metaOfApp, "[kubernetes]", "[kubernetes, "+what+"]", 1)}
	}
	yaml := map[string]string{"namespace.yaml": namespaceOf("needy")}
	o := s.options(s.packed("needy", "1.0.0", yaml, needs("pod-network")), "needy")
	s.refused(o, "add-on needy requires pod-network", "--provided pod-network")
	o.Provided, o.Wait = []string{"pod-network"}, time.Minute
	s.mustApply(o)
	o.Provided = nil
	node := objectOf(t, "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'True'}]}\n")
	nodes := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	made, err := nodes.Create(t.Context(), &unstructured.Unstructured{Object: node}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Object["status"] = node["status"]
	if _, err := nodes.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.mustApply(o)

	other := s.options(s.packed("second", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("second")}, needs("needy, storage")), "second")
	s.refused(other, "add-on second requires storage")
	class := objectOf(t, "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: a, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}\nprovisioner: x\n")
	if _, err := s.client.Resource(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}).Create(t.Context(), &unstructured.Unstructured{Object: class}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.mustApply(other)
}

func TestUnfitAddOnsAreRefused(t *testing.T) {
	s := newSite(t)
	yaml := map[string]string{"namespace.yaml": namespaceOf("unfit"), "app.yaml": deployment}
	hooks := strings.NewReplacer("VARIABLE", "UNFIT", "NAME", "unfit").Replace(hooksOfApp)
	for n, row := range []struct {
		changes [][2]string
		adjust  string
		want    []string
	}{
		{[][2]string{{"Manifest", "apt conntrack\nimage app quay.io/unfit/app:1.0.0\n"}}, "", []string{"works only where Sealift installed the nodes", "packages on hosts: conntrack"}},
		{[][2]string{{"install.sh", hooks + "unfit_join() { :; }\n"}}, "", []string{"the hook unfit_join, which runs on nodes"}},
		{[][2]string{{"install.sh", hooks + "unfit_pre_init() { :; }\n"}}, "", []string{"the hook unfit_pre_init"}},
		{[][2]string{{"install.sh", strings.Replace(hooks, "local dir\n", "local dir\n    kubectl get nodes\n", 1)}}, "", []string{"kubectl (install.sh:4)"}},
		{[][2]string{{"install.sh", "touch /etc/ran\n" + hooks}}, "", []string{"touch (install.sh:1)", "the path /etc/ran of a host"}},
		{[][2]string{{"yaml/colour.tmpl.yaml", colour + "# $PRIVATE_ADDRESS\n"}}, "", []string{"the variable PRIVATE_ADDRESS of a node, in a template"}},
		{nil, "unfit.colour=RED1", []string{"unfit.colour must be a word"}},
		{nil, "unfit.shape=round", []string{`no option "shape"`}},
		{[][2]string{{"yaml/app.yaml", strings.Replace(deployment, "quay.io/NAME/app", "quay.io/other/app", 1)}}, "", []string{"Deployment/unfit/unfit has images that its package does not carry", "quay.io/other/app:1.0.0"}},
		{[][2]string{{"yaml/app.yaml", "apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: x}\n"}}, "", []string{"PodSecurityPolicy/x is of policy/v1beta1, which Kubernetes 1.25 removed"}},
		{[][2]string{{"yaml/app.yaml", "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: x}\n"}}, "", []string{"does not serve kind Thing"}},
	} {
		o := s.options(s.packed("unfit", "1.0.0", yaml, row.changes...), "unfit")
		o.Registry = &registry.Options{Target: registry.Target{Host: "127.0.0.1:1", Prefix: "x", Plain: true}, Patience: time.Millisecond}
		if strings.Contains(row.want[0], "Thing") || strings.Contains(row.want[0], "removed") {
			o.Registry = nil
		}
		if row.adjust != "" {
			o.Bundle.Adjust = override(row.adjust)
		}
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			in := *s
			in.T = t
			in.refused(o, row.want...)
		})
	}
	s.refused(s.options(s.packed("unfit", "1.0.0", yaml), "absent"), "has no add-on absent; it has unfit")
	if found := s.records("unfit"); len(found) != 0 || s.object("deployments", "unfit", "unfit") != nil {
		t.Errorf("%+v", found)
	}
}

// TestUntrustedBundleIsRefused uses a package that nobody signed.
func TestUntrustedBundleIsRefused(t *testing.T) {
	s := newSite(t)
	_, public := fixture.SigningKey(t)
	o := s.options(s.packed("untrusted", "1.0.0", map[string]string{"namespace.yaml": namespaceOf("untrusted")}), "untrusted")
	o.Bundle.Trusted = append(o.Bundle.Trusted, public)
	s.refused(o, "bundle")
	if s.object("namespaces", "", "untrusted") != nil {
		t.Error("it was applied")
	}
}
