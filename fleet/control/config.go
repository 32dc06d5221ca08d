package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
)

// The types of configuration that the hub renders.
var (
	templates         = ocm.ConfigType{Group: ocm.AddOnVersion.Group, Resource: "addontemplates"}
	deploymentConfigs = ocm.ConfigType{Group: ocm.AddOnVersion.Group, Resource: "addondeploymentconfigs"}
)

// lookupTimeout bounds the wait for the cache of a kind, which never fills if the hub may not list it.
const lookupTimeout = 20 * time.Second

// usesTemplate says whether the hub renders an add-on. The others have a manager of their own.
func usesTemplate(a *ocm.ClusterManagementAddOn) bool {
	return slices.Contains(supported(a), templates)
}

// supported returns the types that an add-on may be configured by: those that it lists, and those of its placements (O-12).
func supported(a *ocm.ClusterManagementAddOn) []ocm.ConfigType {
	var types []ocm.ConfigType
	for _, s := range a.Spec.SupportedConfigs {
		types = append(types, s.ConfigType)
	}
	for _, p := range a.Spec.InstallStrategy.Placements {
		for _, c := range p.Configs {
			if !slices.Contains(types, c.ConfigType) {
				types = append(types, c.ConfigType)
			}
		}
	}
	return types
}

// configs reads configuration objects of any kind. What it has read once is watched from then on.
type configs struct {
	*controllers
	controller controller.Controller
	changed    handler.EventHandler

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

func newConfigs(c *controllers, watcher controller.Controller, changed handler.EventHandler) *configs {
	return &configs{controllers: c, controller: watcher, changed: changed, watched: make(map[schema.GroupVersionKind]bool)}
}

// read returns a configuration object, or nil if there is none or its kind is not served.
func (c *configs) read(ctx context.Context, config ocm.AddOnConfig) (*unstructured.Unstructured, error) {
	gvr := schema.GroupVersionResource{Group: config.Group, Resource: config.Resource}
	if config.Group == ocm.AddOnVersion.Group {
		gvr.Version = ocm.AddOnVersion.Version // the stored version needs no conversion
	}
	gvk, err := c.RESTMapper().KindFor(gvr)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the kind of %s in %q: %w", config.Resource, config.Group, err)
	}
	if err := c.watch(gvk); err != nil {
		return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	err = c.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: config.Name}, object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

func (c *configs) watch(gvk schema.GroupVersionKind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched[gvk] {
		return nil
	}
	var object client.Object = &unstructured.Unstructured{}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	if err := c.controller.Watch(source.Kind(c.hub.GetCache(), object, c.changed)); err != nil {
		return err
	}
	c.watched[gvk] = true
	return nil
}

// lookup answers for configuration objects as they are during one decision.
type lookup struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	configs *configs

	mu    sync.Mutex
	known map[ocm.AddOnConfig]configuration.Object
	found map[ocm.AddOnConfig]bool
	err   error // the first one
}

func (c *configs) lookup(ctx context.Context) *lookup {
	return &lookup{ctx: ctx, configs: c, known: make(map[ocm.AddOnConfig]configuration.Object), found: make(map[ocm.AddOnConfig]bool)}
}

// object returns the hash and the generation of an object, and whether it exists.
func (l *lookup) object(config ocm.AddOnConfig) (configuration.Object, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, asked := l.known[config]; asked {
		return known, l.found[config]
	}
	var known configuration.Object
	object, err := l.configs.read(l.ctx, config)
	if err == nil && object != nil {
		known.Generation = object.GetGeneration()
		known.SpecHash, err = hash(config.ConfigType, object)
	}
	if err != nil && l.err == nil {
		l.err = err
	}
	l.known[config], l.found[config] = known, object != nil
	return known, object != nil
}

func hash(kind ocm.ConfigType, object *unstructured.Unstructured) (string, error) {
	if kind == templates {
		return configuration.TemplateHash(object.Object)
	}
	return configuration.SpecHash(object.Object)
}
