package control

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/store"
)

// configStore has one ConfigMap, configurations and works, and no add-ons.
type configStore struct {
	client.Client
	stored  *corev1.ConfigMap
	configs []*unstructured.Unstructured
	works   []ocm.ManifestWork
}

func (s *configStore) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if into, ok := o.(*unstructured.Unstructured); ok {
		for _, c := range s.configs {
			if c.GetKind() == into.GetKind() && client.ObjectKeyFromObject(c) == key {
				c.DeepCopyInto(into)
				return nil
			}
		}
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	if s.stored == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	}
	s.stored.DeepCopyInto(o.(*corev1.ConfigMap)) //nolint:forcetypeassert // nothing else is read
	return nil
}

func (s *configStore) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if works, ok := list.(*ocm.List[ocm.ManifestWork]); ok {
		works.Items = s.works
	}
	return nil
}

func (s *configStore) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.stored = o.DeepCopyObject().(*corev1.ConfigMap) //nolint:forcetypeassert // nothing else is written
	s.stored.ResourceVersion = "1"
	return nil
}

func (s *configStore) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	return s.Create(ctx, o)
}

// TestStoredPinsHold uses two that looked up images of one template at once, for different configurations.
func TestStoredPinsHold(t *testing.T) {
	s := &configStore{}
	i := newImages(&controllers{Client: s, direct: s, hub: &hub.Hub{Namespace: "fleet"}})
	a := &agent{template: &unstructured.Unstructured{}, hash: "h"}
	a.template.SetName("tools")
	a.template.SetUID("uid")
	for _, digests := range []map[string]string{{"first": "1"}, {"first": "2", "second": "2"}} {
		if err := i.write(t.Context(), a, pins{Digests: digests}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"first": "1", "second": "2"}
	stored, found, err := i.read(t.Context(), a)
	if known, _ := i.known.get(a.key()); err != nil || !found || !maps.Equal(stored.Digests, want) || !maps.Equal(known.Digests, want) {
		t.Errorf("stored are %v, known %v, %v", stored, known, err)
	}
}

// ownConfig is a hub with an add-on whose template has one image, with a variable for a tag. On its only cluster it names its own
// configuration, which gives the variable the value 2. The hub's store is empty.
type ownConfig struct {
	*addOns
	*configStore
	addOn  *inventory.AddOn
	on     *ocm.ManagedClusterAddOn
	result configuration.Result
}

func newOwnConfig(t *testing.T, hash string) *ownConfig {
	t.Helper()
	config := func(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": ocm.AddOnVersion.String(), "kind": kind, "spec": spec}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "tool", "namespace": "default"}, "spec": map[string]any{
		"containers": []any{map[string]any{"name": "tool", "image": "example.com/tool:{{TOOL}}"}},
	}}
	tools := config("AddOnTemplate", "", "tools", map[string]any{"addonName": "tools", "agentSpec": map[string]any{"workload": map[string]any{"manifests": []any{pod}}}})
	special := config("AddOnDeploymentConfig", "default", "special", map[string]any{"customizedVariables": []any{map[string]any{"name": "TOOL", "value": "2"}}})
	of, err := inventory.Hash(inventory.Templates, tools)
	if err != nil {
		t.Fatal(err)
	}
	own := ocm.AddOnConfig{ConfigType: inventory.DeploymentConfigs, ConfigObject: ocm.ConfigObject{Namespace: "default", Name: "special"}}
	refs := []ocm.ConfigReference{
		{ConfigType: own.ConfigType, DesiredConfig: &ocm.ConfigHash{ConfigObject: own.ConfigObject, SpecHash: hash}},
		{ConfigType: inventory.Templates, DesiredConfig: &ocm.ConfigHash{ConfigObject: ocm.ConfigObject{Name: "tools"}, SpecHash: of}},
	}
	o := &ownConfig{configStore: &configStore{configs: []*unstructured.Unstructured{tools, special}}}
	o.on = &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "oslo", Name: "tools"}}
	o.on.Spec.Configs, o.on.Status.ConfigReferences = []ocm.AddOnConfig{own}, stored(refs)
	all := &ocm.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "tools"}}
	all.Spec.SupportedConfigs = []ocm.SupportedConfig{{ConfigType: own.ConfigType}, {ConfigType: inventory.Templates}}
	o.addOn = &inventory.AddOn{ClusterManagementAddOn: all, Installed: []*ocm.ManagedClusterAddOn{o.on}}
	o.result.AddOns = []configuration.Decision{{Cluster: "oslo", References: refs}}

	packagesOf, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"AddOnTemplate", "AddOnDeploymentConfig"} {
		mapper.Add(ocm.AddOnVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	c := &controllers{Client: o.configStore, direct: o.configStore, hub: &hub.Hub{Namespace: "fleet"}, log: slog.New(slog.DiscardHandler)}
	c.reader = inventory.Reader{Reader: o.configStore, Mapper: mapper}
	c.Store, c.LookupInterval = &packages.Source{Store: packagesOf}, time.Hour
	c.images = newImages(c)
	o.addOns = &addOns{controllers: c, reader: c.reader}
	return o
}

// why returns why the add-on is given to no cluster, once the hub has looked for its images.
func (o *ownConfig) why(t *testing.T) string {
	t.Helper()
	looked := make(chan struct{}, 1)
	o.images.ctx, o.images.again = t.Context(), func(reconcile.Request) { looked <- struct{}{} }
	for {
		missing, ended, err := o.missing(t.Context(), o.addOn, o.result, o.reader.Lookup(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if ended {
			return missing["oslo"]
		}
		<-looked
	}
}

// TestOwnConfigurationNeedsImages uses a cluster's own configuration, which names an image that no package carries. The hub looks for it
// before the cluster gets the content that the configuration has now, also if the cluster has had no content of it so far.
func TestOwnConfigurationNeedsImages(t *testing.T) {
	for _, before := range []string{"another", ""} {
		o := newOwnConfig(t, before)
		if why := o.why(t); !strings.Contains(why, "example.com/tool:2") {
			t.Errorf("had %q: the add-on is withheld because of %q", before, why)
		}
		if o.configStore.stored != nil {
			t.Errorf("had %q: stored are %v", before, o.configStore.stored.Data)
		}
	}
}

// TestWorksWaitForImages renders for a cluster that got its references before the hub knew the images.
func TestWorksWaitForImages(t *testing.T) {
	o := newOwnConfig(t, "")
	refs := o.addOn.Refresh(o.on, inventory.References(o.on), o.reader.Lookup(t.Context()))
	o.on.Status.ConfigReferences = stored(refs)
	r := &clusterAddOns{controllers: o.controllers}
	if made, err := r.render(t.Context(), place{addOn: o.on}); !errors.Is(err, errUnpinned) {
		t.Errorf("an unknown image was given to a cluster: %+v, %v", made, err)
	}

	text, err := configuration.Annotate(refs)
	if err != nil {
		t.Fatal(err)
	}
	o.works = []ocm.ManifestWork{{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{configuration.HashAnnotation: text}}}}
	if made, err := r.render(t.Context(), place{addOn: o.on, works: o.works}); err != nil || made == nil {
		t.Errorf("a template from before the store is not rendered: %v", err)
	}
	if why := o.why(t); why != "" {
		t.Errorf("a template from before the store is withheld because of %q", why)
	}
	if made, err := r.render(t.Context(), place{addOn: o.on}); err != nil || made == nil {
		t.Errorf("a template whose images keep their names is not rendered: %v", err)
	}
}
