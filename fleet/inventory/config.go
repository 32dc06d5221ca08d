package inventory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
)

// lookupTimeout bounds the wait for the cache of a kind, which never fills if the hub may not list it.
const lookupTimeout = 20 * time.Second

// Config returns a configuration object, or nil if there is none or its kind is not served.
func (r Reader) Config(ctx context.Context, config ocm.AddOnConfig) (*unstructured.Unstructured, error) {
	gvr := schema.GroupVersionResource{Group: config.Group, Resource: config.Resource}
	if config.Group == ocm.AddOnVersion.Group {
		gvr.Version = ocm.AddOnVersion.Version // the stored version needs no conversion
	}
	gvk, err := r.Mapper.KindFor(gvr)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the kind of %s in %q: %w", config.Resource, config.Group, err)
	}
	if r.Watch != nil {
		if err := r.Watch(gvk); err != nil {
			return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
		}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	err = r.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: config.Name}, object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// Lookup answers for configuration objects in their state during one decision.
type Lookup struct {
	ctx    context.Context //nolint:containedctx // it lives for one call
	reader Reader

	changed []*unstructured.Unstructured

	mu    sync.Mutex
	known map[ocm.AddOnConfig]configuration.Object
	found map[ocm.AddOnConfig]bool
	err   error // the first one
}

// Lookup begins a decision. The objects in changed replace those on the hub.
func (r Reader) Lookup(ctx context.Context, changed ...*unstructured.Unstructured) *Lookup {
	return &Lookup{ctx: ctx, reader: r, changed: changed, known: make(map[ocm.AddOnConfig]configuration.Object), found: make(map[ocm.AddOnConfig]bool)}
}

// Object returns the hash and the generation of an object, and whether it exists.
func (l *Lookup) Object(config ocm.AddOnConfig) (configuration.Object, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, asked := l.known[config]; asked {
		return known, l.found[config]
	}
	var known configuration.Object
	object, err := l.read(config)
	if err == nil && object != nil {
		known.Generation = object.GetGeneration()
		known.SpecHash, err = Hash(config.ConfigType, object)
	}
	if err != nil && l.err == nil {
		l.err = err
	}
	l.known[config], l.found[config] = known, object != nil
	return known, object != nil
}

// Hash returns the hash of a configuration object.
func Hash(kind ocm.ConfigType, object *unstructured.Unstructured) (string, error) {
	if kind == Templates {
		return configuration.TemplateHash(object.Object)
	}
	return configuration.SpecHash(object.Object)
}

// Err returns the first error. Objects that could not be read count as missing until then.
func (l *Lookup) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Lookup) read(config ocm.AddOnConfig) (*unstructured.Unstructured, error) {
	for _, o := range l.changed {
		gvk := o.GroupVersionKind()
		mapping, err := l.reader.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, err
		}
		kind := ocm.ConfigType{Group: gvk.Group, Resource: mapping.Resource.Resource}
		if config.ConfigType == kind && config.Namespace == o.GetNamespace() && config.Name == o.GetName() {
			return o, nil
		}
	}
	return l.reader.Config(l.ctx, config)
}
