package kube

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// Healthy is the rule of kOps (K-23), which asks less than Health: an object is healthy that is not being deleted and of
// which no condition that counts is False. One that has not said anything yet is healthy.
func Healthy(obj *unstructured.Unstructured) (bool, string) {
	if obj.GetDeletionTimestamp() != nil {
		return false, "it is being deleted"
	}
	gk := obj.GroupVersionKind().GroupKind()
	types := unhealthyWhenFalse(gk)
	if gk == deploymentKind {
		types = append(types, "Progressing")
	}
	for _, c := range conditions(obj) {
		if c.status == "False" && slices.Contains(types, c.kind) {
			return false, c.String()
		}
	}
	return true, ""
}

// Unhealthy looks at objects once, without waiting, and gives those that are missing or not Healthy.
func (e *Engine) Unhealthy(ctx context.Context, objs []*unstructured.Unstructured) ([]ObjectState, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultApplyTimeout)
	defer cancel()
	states := make([]ObjectState, len(objs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i, obj := range objs {
		group.Go(func() error {
			ref := RefOf(obj)
			return e.retry(ctx, ref, func(err error, _ time.Duration) bool { return Transient(err) }, func(ctx context.Context) error {
				res, err := e.kinds.find(ctx, ref.gvk())
				if err != nil {
					return err
				}
				ref.Namespace = placeOf(obj, res)
				live, err := e.fullFor(res, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
				switch {
				case apierrors.IsNotFound(err):
					states[i] = ObjectState{Object: ref, State: Waiting, Reason: "it does not exist"}
				case err != nil:
					return err
				default:
					states[i] = ObjectState{Object: ref, State: Ready}
					if ok, reason := Healthy(live); !ok {
						states[i] = ObjectState{Object: ref, State: Waiting, Reason: reason}
					}
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(states, func(s ObjectState) bool { return s.State == Ready }), nil
}
