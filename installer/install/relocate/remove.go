package relocate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
)

// Removal is a prepared removal of add-ons that a Relocation brought.
type Removal struct {
	cluster   *cluster.External
	protected bool
	plan      []AddOn
}

// RemovalOptions select what is removed.
type RemovalOptions struct {
	Names []string
	// Protected deletes namespaces, definitions and volume claims too, with everything in them.
	Protected bool
	// Provided are names and capabilities that the cluster has without these add-ons.
	Provided []string
}

// PrepareRemoval finds what the removal of add-ons would delete. Those that require others of them come first. It fails with a RefusedError if
// an add-on that stays requires one of them. It changes nothing.
func PrepareRemoval(ctx context.Context, config *rest.Config, o RemovalOptions) (*Removal, error) {
	external, err := cluster.NewExternal(ctx, config)
	if err != nil {
		return nil, err
	}
	records, err := external.Owners(ctx)
	if err != nil {
		return nil, err
	}
	errs := []error{checkNeeds(records, o)}
	names, err := removalOrder(records, o.Names)
	if err != nil {
		return nil, err
	}
	r := &Removal{cluster: external, protected: o.Protected}
	for _, name := range names {
		record, result, err := external.PlanRemoval(ctx, name, o.Protected)
		if err != nil {
			errs = append(errs, explain(err))
			continue
		}
		r.plan = append(r.plan, AddOn{Name: name, From: record.Version, Result: result})
	}
	return r, errors.Join(errs...)
}

// checkNeeds refuses to remove what an add-on that stays requires, and no other one provides.
func checkNeeds(records []addon.Record, o RemovalOptions) error {
	var going, staying []addon.Record
	for _, r := range records {
		if slices.Contains(o.Names, r.Name) {
			going = append(going, r)
		} else {
			staying = append(staying, r)
		}
	}
	var errs []error
	for _, r := range staying {
		for _, need := range r.Needs() {
			satisfies := func(other addon.Record) bool { return slices.Contains(other.Capabilities(), need) }
			at := slices.IndexFunc(going, satisfies)
			if at < 0 || slices.ContainsFunc(staying, satisfies) || slices.Contains(o.Provided, need) {
				continue
			}
			errs = append(errs, &RefusedError{fmt.Errorf("add-on %s requires %s of add-on %s: remove %s, too, or give --provided %s if the cluster has it without %s",
				r.Name, need, going[at].Name, r.Name, need, going[at].Name)})
		}
	}
	return errors.Join(errs...)
}

// removalOrder sorts names of add-ons against the order in which they are applied. Names without a record come last.
func removalOrder(records []addon.Record, names []string) ([]string, error) {
	var metas []catalog.Meta
	var unknown []string
	for _, name := range names {
		at := slices.IndexFunc(records, func(r addon.Record) bool { return r.Name == name })
		switch {
		case at < 0:
			unknown = append(unknown, name)
		case !slices.ContainsFunc(metas, func(m catalog.Meta) bool { return m.Name == name }):
			metas = append(metas, catalog.Meta{Name: name, Declared: true, Provides: records[at].Capabilities()[1:], After: records[at].Needs()})
		}
	}
	ordered, err := catalog.Order(metas)
	if err != nil {
		return nil, err
	}
	slices.Reverse(ordered)
	return append(ordered, unknown...), nil
}

// Plan returns what Run does. The versions are empty.
func (r *Removal) Plan() []AddOn { return r.plan }

// Run removes the add-ons. After an interruption, call PrepareRemoval and Run again with the names that List still has.
func (r *Removal) Run(ctx context.Context, output io.Writer) (done []AddOn, err error) {
	for _, one := range r.plan {
		fmt.Fprintf(output, "add-on %s\n", one.Name)
		if one.Result, err = r.cluster.Remove(ctx, one.Name, r.protected, output); err != nil {
			return done, fmt.Errorf("add-on %s: %w", one.Name, explain(err))
		}
		done = append(done, one)
	}
	return done, nil
}

// List returns the records of all add-ons of the cluster, whoever owns them.
func List(ctx context.Context, config *rest.Config) ([]addon.Record, error) {
	external, err := cluster.NewExternal(ctx, config)
	if err != nil {
		return nil, err
	}
	return external.Owners(ctx)
}
