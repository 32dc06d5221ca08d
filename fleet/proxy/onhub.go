package proxy

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/helm/source"
)

// onHub is the hub as the place of a release. Secrets beside the Cluster object hold the access to the cluster.
type onHub struct {
	*ReleaseReconciler
	hrp     *caaph.HelmReleaseProxy
	cluster *unstructured.Unstructured // nil if there is none
	carried bool
}

func (h *onHub) reach(ctx context.Context) (config *rest.Config, reason string, err error) {
	switch reference := h.hrp.Spec.ClusterRef; {
	case reference.Namespace != "" && reference.Namespace != h.hrp.Namespace:
		return nil, "GetClusterFailed", fmt.Errorf("cluster %s/%s is in another namespace", reference.Namespace, reference.Name)
	case h.cluster == nil:
		return nil, "GetClusterFailed", fmt.Errorf("there is no cluster %s in namespace %s", reference.Name, h.hrp.Namespace)
	case waits(h.cluster):
		return nil, "NotAvailable", errors.New("the control plane of the cluster is not initialized")
	}
	if config, err = kubeconfig(ctx, h.clusters.direct, h.hrp.Namespace, h.cluster.GetName()); err != nil {
		return nil, "GetKubeconfigFailed", err
	}
	return config, "", nil
}

func (h *onHub) access(ctx context.Context) (source.Access, string, error) {
	return accessOf(ctx, h.clusters.direct, h.hrp, h.options.SecretNamespaces)
}

// accessOf reads the credentials for a chart's repository.
func accessOf(ctx context.Context, c client.Reader, hrp *caaph.HelmReleaseProxy, allowed []string) (access source.Access, reason string, err error) {
	if err := credentials(ctx, c, hrp, allowed, &access); err != nil {
		return access, "GetCredentialsFailed", err
	}
	if err := authority(ctx, c, hrp, allowed, &access); err != nil {
		return access, "GetCACertificateFailed", err
	}
	return access, "", nil
}

func (h *onHub) mirrors() ([]ocm.ImageMirror, error) {
	return template.Mirrors(h.cluster.GetAnnotations(), nil)
}

func (h *onHub) patch(ctx context.Context, hrp, base *caaph.HelmReleaseProxy) error {
	return h.Patch(ctx, hrp, client.MergeFrom(base))
}

func (h *onHub) status(ctx context.Context, hrp, base *caaph.HelmReleaseProxy) error {
	patch := client.MergeFrom(base)
	if h.carried { // a report may be read at the same time, and takes precedence
		patch = client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	}
	return h.Status().Patch(ctx, hrp, patch)
}

func (h *onHub) release(ctx context.Context, hrp *caaph.HelmReleaseProxy) error {
	return withoutFinalizer(ctx, h.Client, hrp, caaph.ReleaseFinalizer)
}
