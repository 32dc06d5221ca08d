package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// noKindError reports that the cluster does not serve a kind, or not yet.
type noKindError struct {
	kind    schema.GroupKind
	version string
}

func (e *noKindError) Error() string {
	at := e.kind.Group
	if e.version != "" {
		at = schema.GroupVersion{Group: e.kind.Group, Version: e.version}.String()
	}
	return fmt.Sprintf("the cluster does not serve kind %s in %q: is its CustomResourceDefinition missing?", e.kind.Kind, at)
}

// Unwrap makes meta.IsNoMatchError recognise the error.
func (e *noKindError) Unwrap() error {
	return &meta.NoKindMatchError{GroupKind: e.kind, SearchedVersions: []string{e.version}}
}

// resource is where the objects of a kind are found.
type resource struct {
	gvr        schema.GroupVersionResource
	namespaced bool
}

// kinds finds resources by requesting only the group version that holds them, when it is needed. The usual mapper reads every
// group of the cluster and links every typed API, 20 MiB, and fails as a whole when one extension is down.
type kinds struct {
	client rest.Interface

	mu    sync.Mutex
	known map[schema.GroupVersionKind]resource
	named map[string]schema.GroupVersionKind // by apiVersion and any name
}

func newKinds(cfg *rest.Config, client *http.Client) (*kinds, error) {
	cfg = rest.CopyConfig(cfg)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.GroupVersion = &schema.GroupVersion{}
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	rc, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	return &kinds{client: rc, known: map[schema.GroupVersionKind]resource{}, named: map[string]schema.GroupVersionKind{}}, nil
}

// find returns the resource of a kind in one version. The error is a *noKindError when the cluster answers without it.
func (k *kinds) find(ctx context.Context, gvk schema.GroupVersionKind) (resource, error) {
	k.mu.Lock()
	found, ok := k.known[gvk]
	k.mu.Unlock()
	if ok {
		return found, nil
	}
	var list metav1.APIResourceList
	if err := k.read(ctx, apiPath(gvk.GroupVersion()), &list); err != nil {
		if apierrors.IsNotFound(err) {
			return resource{}, &noKindError{gvk.GroupKind(), gvk.Version}
		}
		return resource{}, fmt.Errorf("find kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range list.APIResources {
		// A name with a slash is a subresource, which may carry the kind of its parent.
		if !strings.Contains(r.Name, "/") {
			k.known[gvk.GroupVersion().WithKind(r.Kind)] = resource{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}
		}
	}
	if found, ok = k.known[gvk]; !ok {
		return resource{}, &noKindError{gvk.GroupKind(), gvk.Version}
	}
	return found, nil
}

// findAny returns the resource of a kind in the version that the cluster prefers, or in any other that has it.
func (k *kinds) findAny(ctx context.Context, gk schema.GroupKind) (resource, error) {
	if gk.Group == "" {
		return k.find(ctx, gk.WithVersion("v1"))
	}
	var group metav1.APIGroup
	if err := k.read(ctx, "/apis/"+gk.Group, &group); err != nil {
		if apierrors.IsNotFound(err) {
			return resource{}, &noKindError{kind: gk}
		}
		return resource{}, fmt.Errorf("find kind %s of %s: %w", gk.Kind, gk.Group, err)
	}
	versions := []string{group.PreferredVersion.Version}
	for _, v := range group.Versions {
		if v.Version != group.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	for _, version := range versions {
		found, err := k.find(ctx, gk.WithVersion(version))
		var missing *noKindError
		if err == nil || !errors.As(err, &missing) {
			return found, err
		}
	}
	return resource{}, &noKindError{kind: gk}
}

// forget drops a kind whose resource has answered 404: its definition was deleted.
func (k *kinds) forget(gvk schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, gvk)
	maps.DeleteFunc(k.named, func(_ string, named schema.GroupVersionKind) bool { return named == gvk })
}

// Unserved reports whether an error is the 404 of a server that does not serve the kind, or no longer in that version. The 404 of a
// missing object is a Status of the API.
func Unserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Forget makes the cluster look up a kind again, whose resource is Unserved.
func (c *Cluster) Forget(kind Ref) { c.kinds.forget(kind.gvk()) }

func (k *kinds) read(ctx context.Context, path string, into any) error {
	data, err := k.client.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func apiPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}
