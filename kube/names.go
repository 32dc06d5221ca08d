package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindOf finds a kind by any of its names, in any case: the kind, a plural, a singular or a short name. apiVersion may be
// empty; then the first group of the API server that has the name wins, the core group before all others, in the version
// that it prefers. meta.IsNoMatchError recognizes the error of a cluster that does not serve the kind.
func (c *Cluster) KindOf(ctx context.Context, apiVersion, name string) (Ref, error) {
	key := apiVersion + " " + strings.ToLower(name)
	c.kinds.mu.Lock()
	gvk, ok := c.kinds.named[key]
	c.kinds.mu.Unlock()
	if !ok {
		var err error
		if gvk, err = c.kinds.byName(ctx, apiVersion, name); err != nil {
			return Ref{}, err
		}
		c.kinds.mu.Lock()
		c.kinds.named[key] = gvk
		c.kinds.mu.Unlock()
	}
	return Ref{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}, nil
}

func (k *kinds) byName(ctx context.Context, apiVersion, name string) (schema.GroupVersionKind, error) {
	if apiVersion != "" {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil {
			return schema.GroupVersionKind{}, fmt.Errorf("find kind %s: apiVersion %q is not <group>/<version>", name, apiVersion)
		}
		found, err := k.inVersion(ctx, gv, name)
		if err == nil && found.Kind == "" {
			err = &noKindError{gv.WithKind(name).GroupKind(), gv.Version}
		}
		return found, err
	}
	var groups metav1.APIGroupList
	if err := k.read(ctx, "/apis", &groups); err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("find kind %s: %w", name, err)
	}
	versions := []schema.GroupVersion{{Version: "v1"}}
	for _, g := range groups.Groups {
		versions = append(versions, schema.GroupVersion{Group: g.Name, Version: g.PreferredVersion.Version})
	}
	var failed error // an extension API server that is down must not hide kinds of other groups
	for _, gv := range versions {
		found, err := k.inVersion(ctx, gv, name)
		if err == nil && found.Kind != "" {
			return found, nil
		}
		failed = errors.Join(failed, err)
	}
	return schema.GroupVersionKind{}, cmp.Or(failed, error(&noKindError{kind: schema.GroupKind{Kind: name}}))
}

// inVersion looks for the name in one group version. The result is zero if the name is unknown.
func (k *kinds) inVersion(ctx context.Context, gv schema.GroupVersion, name string) (schema.GroupVersionKind, error) {
	var list metav1.APIResourceList
	if err := k.read(ctx, apiPath(gv), &list); err != nil {
		if apierrors.IsNotFound(err) {
			return schema.GroupVersionKind{}, nil
		}
		return schema.GroupVersionKind{}, fmt.Errorf("find kind %s of %s: %w", name, gv, err)
	}
	same := func(other string) bool { return strings.EqualFold(name, other) }
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") && (same(r.Kind) || same(r.Name) || same(r.SingularName) || slices.ContainsFunc(r.ShortNames, same)) {
			return gv.WithKind(r.Kind), nil
		}
	}
	return schema.GroupVersionKind{}, nil
}
