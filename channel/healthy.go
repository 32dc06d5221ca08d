package channel

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
)

// looks is how many objects are checked at once.
const looks = 8

// unhealthyReason returns why an object is unhealthy by the rule of kOps (K-23), or "". The rule asks less than health.Of: no condition
// that counts may be False, and the object may not be on its way out. An object without a status is healthy.
func unhealthyReason(obj *unstructured.Unstructured) string {
	if obj.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	var more []string
	if obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
		more = append(more, "Progressing")
	}
	if c, failing := health.Failing(obj, more...); failing {
		return c.String()
	}
	return ""
}

// unhealthy checks objects once, without waiting. It returns an error for each missing or unhealthy object.
func (c *Cluster) unhealthy(ctx context.Context, objs []*unstructured.Unstructured) (ill []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, kube.DefaultApplyTimeout)
	defer cancel()
	ill = make([]error, len(objs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(looks)
	for i, obj := range objs {
		group.Go(func() (err error) {
			ref := kube.RefOf(obj)
			return c.engine.Retry(ctx, ref, func(ctx context.Context) error {
				ill[i], err = c.checkHealth(ctx, ref)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ill, func(err error) bool { return err == nil }), nil
}

// checkHealth returns why an object is unhealthy, or the error of the server.
func (c *Cluster) checkHealth(ctx context.Context, ref kube.Ref) (ill, err error) {
	objects, err := c.engine.Objects(ctx, ref)
	if err != nil {
		return nil, err
	}
	live, err := objects.Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: it does not exist", ref), nil
	case err != nil:
		return nil, err
	}
	if why := unhealthyReason(live); why != "" {
		return fmt.Errorf("%s: %s", ref, why), nil
	}
	return nil, nil
}
