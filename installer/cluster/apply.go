package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// AddOn is an add-on that the installer applies, with the content that its owner record names.
type AddOn struct {
	Name string
	addon.Applied
	// Memory is the folder with the record of applied objects; see GoBack. "" records nothing.
	Memory string
}

// Apply makes the cluster hold the rendered kustomization as the set of an add-on, and prunes former members. It waits until
// all of it is healthy, unless wait is zero. An add-on of another owner is left alone, which output reports.
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
	kept := false
	err = m.alone(ctx, output, func(ctx context.Context) (err error) {
		kept, err = m.applyObjects(ctx, a, objects, output)
		return err
	})
	if err != nil || kept || wait == 0 {
		return err
	}
	return waitFor(ctx, m.engine, objects, wait, output)
}

// Remove deletes the objects of an add-on that the installer owns. Volume claims, namespaces and definitions stay, with their
// content. An add-on of another owner is left alone, which output reports.
func Remove(ctx context.Context, name string, output io.Writer) error {
	here, err := administrator()
	if err != nil {
		return err
	}
	return here.alone(ctx, output, func(ctx context.Context) error {
		record, found, err := here.records.Get(ctx, name)
		if err != nil {
			return err
		}
		if found && record.Owner != addon.Installer() {
			fmt.Fprintln(output, KeptBy(record))
			return nil
		}
		_, err = here.engine.Delete(ctx, setOf(name, []addon.Record{record}), kube.DeleteOptions{Progress: func(e kube.Entry) { fmt.Fprintln(output, e) }})
		if err != nil {
			return err
		}
		return here.records.Forget(ctx, name, addon.Installer())
	})
}

// applyObjects applies an add-on if the installer owns it or nobody does.
func (m *applier) applyObjects(ctx context.Context, a AddOn, objects []*unstructured.Unstructured, output io.Writer) (kept bool, err error) {
	set, err := m.own(ctx, a.Name, addon.Installer())
	if owned, ok := errors.AsType[*addon.OwnedError](err); ok {
		fmt.Fprintln(output, KeptBy(owned.Record))
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := a.remember(objects, false); err != nil {
		return false, err
	}
	if err := m.configureOperators(ctx, set, objects, output); err != nil {
		return false, err
	}
	result, err := m.engine.Apply(ctx, set, objects, kube.ApplyOptions{Progress: func(e kube.Entry) { fmt.Fprintln(output, e) }})
	if err != nil {
		return false, err
	}
	fmt.Fprintln(output, result.Summary())
	if _, err = m.records.SetApplied(ctx, a.Name, addon.Installer(), a.Applied); err != nil {
		return false, err
	}
	return false, a.remember(objects, true)
}

// own makes an owner the one of an add-on, with all of its objects in one set. It fails with an *addon.OwnedError if another one owns it.
func (m *applier) own(ctx context.Context, name string, owner addon.Owner) (kube.Set, error) {
	set := kube.Set{Name: name, Namespace: kube.DefaultNamespace}
	record, err := m.records.Claim(ctx, name, addon.Ownership{Owner: owner, Policy: addon.OnChange, Set: set.String()})
	if err == nil {
		_, err = m.records.Finish(ctx, record, m.engine.AdoptNamed)
	}
	return set, err
}
