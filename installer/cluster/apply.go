package cluster

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// Apply makes the cluster hold what a kustomization renders as the set of an add-on, and prunes what the set has no longer.
// It waits until all of it is well, unless wait is zero.
func Apply(ctx context.Context, addOn, dir string, wait time.Duration, output io.Writer) error {
	objects, err := render.Build(dir)
	if err != nil {
		return err
	}
	engine, err := administrator()
	if err != nil {
		return err
	}
	result, err := engine.Apply(ctx, kube.Set{Name: addOn}, objects, kube.ApplyOptions{Progress: func(e kube.Entry) { fmt.Fprintln(output, e) }})
	if err != nil {
		return err
	}
	fmt.Fprintln(output, result.Summary())
	if wait == 0 {
		return nil
	}
	return waitFor(ctx, engine, objects, wait, output)
}
