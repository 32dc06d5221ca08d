package relocate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/installer/cluster"
)

// Removal is a prepared removal of add-ons that a Relocation brought.
type Removal struct {
	cluster   *cluster.External
	protected bool
	plan      []AddOn
}

// PrepareRemoval finds what the removal of add-ons would delete, in the order of names. It changes nothing. With protected, namespaces,
// definitions and volume claims are deleted too, with everything in them.
func PrepareRemoval(ctx context.Context, config *rest.Config, names []string, protected bool) (*Removal, error) {
	external, err := cluster.NewExternal(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &Removal{cluster: external, protected: protected}
	var errs []error
	for _, name := range names {
		record, result, err := external.PlanRemoval(ctx, name, protected)
		if err != nil {
			errs = append(errs, explain(err))
			continue
		}
		r.plan = append(r.plan, AddOn{Name: name, From: record.Version, Result: result})
	}
	return r, errors.Join(errs...)
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
