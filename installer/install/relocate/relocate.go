// Package relocate brings add-ons of a bundle to a cluster that Sealift did not install, and removes them again. It knows the cluster by
// its API alone: hooks only render objects, on this machine. Images are those of a registry that a push has filled, or those that the
// cluster's container runtimes find by themselves.
//
// Each add-on has one owner. The package never touches objects that somebody else made, or add-ons that the installer or a channel owns.
// It never changes a host, and never sends images.
package relocate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/registry"
)

// Options select what is brought where.
type Options struct {
	// Bundle has the fields that install.ReadContents uses.
	Bundle install.Options
	// Names are the add-ons, as folders (cert-manager) or as keys of the Installer (certManager).
	Names []string
	// Registry has the images of the bundle under the names that a push gives them; nil leaves the names of images as they are.
	Registry *registry.Options
	// Provided are capabilities that the cluster has, beside those that it shows.
	Provided []string
	// AllowDowngrade accepts older versions than those that were applied.
	AllowDowngrade bool
	// Wait is how long each add-on may take to be healthy; zero does not wait.
	Wait time.Duration
	// Output receives what hooks print.
	Output io.Writer
}

// AddOn is the planned or completed work on one add-on.
type AddOn struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// From is the version that was applied before; empty for none.
	From string `json:"from,omitempty"`
	// Images are those that have other names in the registry.
	Images []registry.Renamed `json:"images,omitempty"`
	// HostChecks means that the add-on has checks of hosts, which nobody ran.
	HostChecks bool `json:"hostChecks,omitempty"`
	kube.Result
}

// Relocation is a prepared change.
type Relocation struct {
	options  Options
	contents *install.Contents
	cluster  *cluster.External
	version  string // of Kubernetes
	addOns   []install.Rendered
	plan     []AddOn // with an element for each add-on
}

// RefusedError reports that the bundle and the cluster do not fit together, or that somebody else owns something of an add-on. Nothing
// was changed.
type RefusedError struct{ error }

// Unwrap returns the reasons.
func (e *RefusedError) Unwrap() error { return e.error }

// Prepare reads the bundle and the cluster, checks requirements, renders the add-ons, and finds what applying them would do. It changes
// nothing in the cluster, and asks the registry whether it has the images. Close must be called.
func Prepare(ctx context.Context, config *rest.Config, o Options) (_ *Relocation, err error) {
	r := &Relocation{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.contents, err = install.ReadContents(o.Bundle); err != nil {
		return nil, err
	}
	if r.cluster, err = cluster.NewExternal(ctx, config); err != nil {
		return nil, err
	}
	records, err := r.cluster.Owners(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := r.facts(ctx, records)
	if err != nil {
		return nil, err
	}
	r.version = facts.Kubernetes
	if err := r.contents.Choose(o.Names, facts); err != nil {
		return nil, &RefusedError{err}
	}
	if err := r.render(ctx); err != nil {
		return nil, err
	}
	if err := r.check(ctx, records); err != nil {
		return nil, err
	}
	return r, r.diff(ctx)
}

// Close closes the bundle.
func (r *Relocation) Close() error {
	if r.contents == nil {
		return nil
	}
	return r.contents.Close()
}

// Trust says in words who signed the bundle.
func (r *Relocation) Trust() string { return r.contents.Trust() }

// Kubernetes is the version of the cluster.
func (r *Relocation) Kubernetes() string { return r.version }

// Plan returns what Run does, in its order.
func (r *Relocation) Plan() []AddOn { return r.plan }

// facts finds what the cluster has.
func (r *Relocation) facts(ctx context.Context, records []addon.Record) (facts install.ClusterFacts, err error) {
	if facts.Kubernetes, err = r.cluster.Version(ctx); err != nil {
		return facts, err
	}
	provided, err := r.cluster.Provided(ctx)
	if err != nil {
		return facts, err
	}
	provided = append(provided, r.options.Provided...)
	for _, record := range records {
		provided = slices.Concat(provided, record.Capabilities(), r.contents.Provides(record.Name))
	}
	facts.Provided = map[string]bool{}
	for _, name := range provided {
		facts.Provided[name] = true
	}
	return facts, nil
}

// render makes the objects, in a folder that is then removed: options may be secrets.
func (r *Relocation) render(ctx context.Context) (err error) {
	work, err := scratch.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	if r.addOns, err = r.contents.Render(ctx, work.Path(), r.options.Output); err != nil {
		if _, ok := errors.AsType[*hook.Error](err); ok { // such as a preflight of options
			return &RefusedError{err}
		}
		return err
	}
	for _, a := range r.addOns {
		r.plan = append(r.plan, AddOn{Name: a.Name, Version: a.Version, HostChecks: a.HostChecks})
	}
	return r.rename()
}

// rename gives images the names that they have in the registry.
func (r *Relocation) rename() error {
	if r.options.Registry == nil {
		return nil
	}
	renamer, err := registry.NewRenamer(r.options.Registry.Target, r.contents.Images())
	if err != nil {
		return err
	}
	var errs []error
	for n, a := range r.addOns {
		for _, object := range a.Objects {
			renamed, unknown := renamer.Rename(object.Object)
			for _, image := range renamed {
				if !slices.Contains(r.plan[n].Images, image) {
					r.plan[n].Images = append(r.plan[n].Images, image)
				}
			}
			if len(unknown) > 0 {
				errs = append(errs, &RefusedError{fmt.Errorf("add-on %s: %s has images that its package does not carry, so that %s cannot have them: %s",
					a.Name, kube.RefOf(object), r.options.Registry.Target, strings.Join(unknown, ", "))})
			}
		}
	}
	return errors.Join(errs...)
}

// check refuses what the cluster or the registry cannot take. It names everything at once.
func (r *Relocation) check(ctx context.Context, records []addon.Record) error {
	var errs []error
	for n, a := range r.addOns {
		for _, record := range records {
			if record.Name != a.Name {
				continue
			}
			r.plan[n].From = record.Version
			if record.Version != "" && !r.options.AllowDowngrade && catalog.CompareVersions(a.Version, record.Version) < 0 {
				errs = append(errs, fmt.Errorf("add-on %s has version %s in the cluster, and the bundle has the older %s: --allow-downgrade applies it", a.Name, record.Version, a.Version))
			}
		}
		for _, object := range a.Objects {
			if removed := catalog.RemovedAPI(object.GetAPIVersion(), object.GetKind()); removed != "" && catalog.CompareVersions(r.version, removed) >= 0 {
				errs = append(errs, fmt.Errorf("add-on %s %s: %s is of %s, which Kubernetes %s removed, and the cluster has %s: take a newer version of the add-on",
					a.Name, a.Version, kube.RefOf(object), object.GetAPIVersion(), removed, r.version))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &RefusedError{err}
	}
	return r.checkRegistry(ctx)
}

// checkRegistry asks the registry for the images.
func (r *Relocation) checkRegistry(ctx context.Context) error {
	if r.options.Registry == nil {
		return nil
	}
	o := *r.options.Registry
	o.Only, o.Packages = []string{registry.KindImage}, nil
	for _, a := range r.addOns {
		o.Packages = append(o.Packages, a.Name)
	}
	found, err := registry.Prepare(ctx, r.contents.Archive(), o)
	if err != nil {
		return err
	}
	var missing []string
	hidden := ""
	for _, image := range found.Images {
		if image.Kind == registry.KindImage && image.State != registry.Present {
			missing = append(missing, image.Target)
			if image.Note == registry.HiddenNote {
				hidden = ", or does not show them to these credentials"
			}
		}
	}
	if len(missing) > 0 {
		return &RefusedError{fmt.Errorf("the registry lacks images of the bundle%s: push them with 'sealift push %s %s'\n  %s",
			hidden, r.options.Bundle.Bundle, o.Target, strings.Join(missing, "\n  "))}
	}
	if pinned := unpullable(r.plan, found.Images); len(pinned) > 0 {
		return &RefusedError{fmt.Errorf("the registry lacks platforms of images, and so the digests by which objects name them: build the packages with all platforms, and push them\n  %s",
			strings.Join(pinned, "\n  "))}
	}
	return nil
}

// unpullable lists the images that objects name by digests that the registry does not have: it refuses indexes with absent platforms.
func unpullable(plan []AddOn, found []registry.Image) (names []string) {
	for _, a := range plan {
		for _, image := range a.Images {
			_, digest, pinned := strings.Cut(image.To, "@")
			if pinned && !slices.ContainsFunc(found, func(i registry.Image) bool { return i.Digest == digest }) {
				names = append(names, image.To)
			}
		}
	}
	return names
}

// diff asks the cluster what would change. Kinds that an earlier add-on defines count as served.
func (r *Relocation) diff(ctx context.Context) error {
	var errs []error
	var before []*unstructured.Unstructured
	for n, a := range r.addOns {
		result, err := r.cluster.Plan(ctx, a.Name, a.Objects, before)
		r.plan[n].Result = result
		if err != nil {
			errs = append(errs, fmt.Errorf("add-on %s: %w", a.Name, explain(err)))
		}
		before = append(before, a.Objects...)
	}
	return errors.Join(errs...)
}

// explain says how an add-on of another owner gets free, and marks the errors about owners as refusals.
func explain(err error) error {
	if owned, ok := errors.AsType[*addon.OwnedError](err); ok {
		switch {
		case owned.Record.Owner == addon.Installer():
			err = fmt.Errorf("%w: take it out of the cluster's Installer there, or leave it to the installer", err)
		case owned.Record.Owner.Kind == addon.ChannelKind:
			err = fmt.Errorf("%w: change it by its channel", err)
		}
		return &RefusedError{err}
	}
	_, foreign := errors.AsType[*kube.ForeignError](err)
	_, inSet := errors.AsType[*kube.OwnedError](err)
	_, fields := errors.AsType[*kube.ConflictError](err)
	if foreign || inSet || fields {
		return &RefusedError{err}
	}
	return err
}

// Run applies the add-ons. Call Prepare and Run again after an interruption. It returns what was done until an error.
func (r *Relocation) Run(ctx context.Context, output io.Writer) (done []AddOn, err error) {
	for n, a := range r.addOns {
		one := r.plan[n]
		fmt.Fprintf(output, "add-on %s %s\n", a.Name, a.Version)
		applied := cluster.AddOn{Name: a.Name, Applied: a.Applied}
		if one.Result, err = r.cluster.Apply(ctx, applied, a.Objects, r.options.Wait, output); err != nil {
			return done, fmt.Errorf("add-on %s: %w", a.Name, explain(err))
		}
		done = append(done, one)
	}
	return done, nil
}
