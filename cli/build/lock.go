package build

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/cli/app"
)

type lockOptions struct {
	sources       sources
	check, update bool
	format        string
}

func (a commands) lockCommand() *cobra.Command {
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock ADDON_DIR...",
		Short: "Record what Manifests resolve to, for repeatable builds",
		Long: `Resolve everything in the Manifest of each add-on directory, and write the result to the Manifest.lock beside it:
the digests of images, the sha256 of the content of URLs, and for every target the exact operating system packages.

What is already locked stays as it is, and what is missing is added. --update resolves everything again. --check
writes nothing, and fails if --update would change something: it shows what was published upstream since.

A build takes locked items from the lock. 'sealift build --locked' accepts nothing else.`,
		Example: `  sealift lock addons/kubernetes/1.36.3
  sealift lock addons/*/* --check
  sealift lock addons/flannel/0.26.7 --update --platform linux/amd64,linux/arm64 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error { return a.lock(cmd.Context(), withoutTemplates(dirs), o) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.check, "check", false, "change nothing; fail if a lock differs from what its Manifest resolves to now")
	flags.BoolVar(&o.update, "update", false, "resolve everything again, also what is locked")
	o.sources.add(flags)
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (o lockOptions) mode() builder.LockMode {
	switch {
	case o.check:
		return builder.LockCheck
	case o.update:
		return builder.LockUpdate
	}
	return builder.LockMissing
}

func (a commands) lock(ctx context.Context, dirs []string, o lockOptions) error {
	if o.check && o.update {
		return app.UsageError("--check changes nothing and --update does; choose one")
	}
	settings, err := o.sources.options(a)
	if err != nil {
		return err
	}
	b, watch, closeCache, err := o.sources.locker(a, settings)
	if err != nil {
		return err
	}
	defer closeCache()
	results := []builder.Locked{}
	var failed []error
	drifted := 0
	for _, dir := range dirs {
		fmt.Fprintf(a.Err, "resolving %s\n", dir)
		r, err := b.Lock(ctx, dir, o.mode())
		watch.settle()
		for _, w := range r.Warnings {
			fmt.Fprintln(a.Err, w.Error())
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil { // the others are none the worse for it
			failed = append(failed, err)
			continue
		}
		results = append(results, r)
		if o.check && len(r.Changes) > 0 {
			drifted++
		}
		if o.format != "json" {
			a.printLocked(r, o.check)
		}
	}
	if o.format == "json" {
		if err := a.PrintJSON(results); err != nil {
			return err
		}
	}
	if drifted > 0 {
		failed = append(failed, fmt.Errorf("%d of %d locks differ from what their Manifests resolve to now; review the changes, and lock again with sealift lock --update", drifted, len(dirs)))
	}
	return errors.Join(failed...)
}

// printLocked writes one line for each change of a lock, and one for the lock.
func (a commands) printLocked(r builder.Locked, check bool) {
	for _, change := range r.Changes {
		fmt.Fprintf(a.Out, "%s: %s\n", r.Path, change)
	}
	switch {
	case r.Written:
		fmt.Fprintf(a.Out, "%s: written, %d changes\n", r.Path, len(r.Changes))
	case check && len(r.Changes) > 0:
		fmt.Fprintf(a.Out, "%s: differs, %d changes\n", r.Path, len(r.Changes))
	default:
		fmt.Fprintf(a.Out, "%s: up to date\n", r.Path)
	}
}
