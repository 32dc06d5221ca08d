package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// AddOn is an add-on that the installer applies, with what the record of its owner says of its content.
type AddOn struct {
	Name string
	addon.Applied
}

// Apply makes the cluster hold what a kustomization renders as the set of an add-on, and prunes what the set has no longer.
// It waits until all of it is well, unless wait is zero. An add-on that another owner keeps is left alone, and output says so.
func Apply(ctx context.Context, a AddOn, dir string, wait time.Duration, output io.Writer) error {
	here, err := administrator()
	if err != nil {
		return err
	}
	return here.apply(ctx, a, dir, wait, output)
}

func (m *applier) apply(ctx context.Context, a AddOn, dir string, wait time.Duration, output io.Writer) error {
	objects, err := render.Build(dir)
	if err != nil {
		return err
	}
	set := kube.Set{Name: a.Name, Namespace: kube.DefaultNamespace}
	own := addon.Ownership{Owner: addon.Installer(), Policy: addon.OnChange, Set: set.String()}
	record, err := m.records.Claim(ctx, a.Name, own)
	var owned *addon.OwnedError
	if errors.As(err, &owned) {
		fmt.Fprintln(output, KeptBy(owned.Record))
		return nil
	}
	if err == nil {
		_, err = m.records.Finish(ctx, record, m.engine.AdoptNamed)
	}
	if err != nil {
		return err
	}
	result, err := m.engine.Apply(ctx, set, objects, kube.ApplyOptions{Progress: func(e kube.Entry) { fmt.Fprintln(output, e) }})
	if err != nil {
		return err
	}
	fmt.Fprintln(output, result.Summary())
	if _, err := m.records.SetApplied(ctx, a.Name, own.Owner, a.Applied); err != nil {
		return err
	}
	if wait == 0 {
		return nil
	}
	return waitFor(ctx, m.engine, objects, wait, output)
}
