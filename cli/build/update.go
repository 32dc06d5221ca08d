package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/upstream"
	"github.com/sealift/sealift/catalog/difference"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/manifest"
)

type updateOptions struct {
	version   newVersionOptions
	upstreams upstreams
}

// updated is the JSON of addon update.
type updated struct {
	newVersion
	Objects  []manifest.Change `json:"objects"`            // changes of the add-on's own objects
	Options  []manifest.Change `json:"options"`            // changes of what an Installer may set
	Resolved []manifest.Change `json:"resolved,omitempty"` // changes of the lock since the version before, if both are locked
	Licenses []manifest.Change `json:"licenses,omitempty"` // changes of the licenses of host packages, if both are locked
}

func (a commands) addonUpdateCommand() *cobra.Command {
	var o updateOptions
	cmd := &cobra.Command{
		Use:   "update NAME [VERSION]",
		Short: "Write the next version of an add-on, as its upstream has it",
		Long: `Write addons/NAME/VERSION from addons/NAME/template as 'sealift addon new-version' does, with the values that upstreams
have: without VERSION the newest version that breaks no rule, and for the other parameters what belongs to that version,
or else the newest value. --set overrides them. What the version changes is listed: images, packages and their licenses,
objects and options.

A version is refused, and nothing is written, if
- it skips a line that the add-on keeps (lines: in its addon.yaml), or needs a newer version of another add-on (skew:);
- the newest versions of the catalogue do not work with it;
- upstream withdrew it;
- an object of it uses an API that the newest Kubernetes of the catalogue does not have. A new version of Kubernetes is
  refused if an object of any add-on does so.

The exit code is 0 if the version was written or there is nothing newer, 3 if a rule forbids it, and 1 for anything else.`,
		Example: `  sealift addon update containerd
  sealift addon update kubernetes 1.37.2 --set cni-plugins=v1.9.1
  sealift addon update flannel --within minor --no-lock -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.update(cmd.Context(), args[0], strings.Join(args[1:], ""), o)
		},
	}
	o.version.addCommon(cmd)
	o.upstreams.add(cmd.Flags())
	return cmd
}

func (a commands) update(ctx context.Context, name, version string, o updateOptions) error {
	query, err := o.upstreams.query()
	if err != nil {
		return err
	}
	settings, err := o.version.sources.options(a)
	if err != nil {
		return err
	}
	catalogue, err := upstream.OpenCatalogue(o.version.addons)
	if err != nil {
		return err
	}
	source := a.versionSource(settings.Config)
	defer source.Close()
	next, err := source.Next(ctx, catalogue, name, version, o.version.set, query)
	if current, ok := errors.AsType[*upstream.CurrentError](err); ok {
		fmt.Fprintf(a.Err, "%v\n", current)
		return nil
	}
	if err != nil {
		return refusal(err)
	}
	o.version.from, o.version.set = next.From, next.Set
	var u updated
	u.newVersion, err = a.writeVersion(ctx, name, next.Version, o.version, func(v template.Version) (err error) {
		if u.Objects, u.Options, err = difference.Of(ctx, o.version.addons, name, v.ComparedTo, v.Version); err != nil {
			return err
		}
		gone, err := difference.RemovedAPIs(ctx, o.version.addons, name, v.Version)
		if err == nil && len(gone) > 0 {
			err = &upstream.RefusedError{AddOn: name, Version: v.Version, Broken: gone}
		}
		return err
	})
	if err != nil {
		return refusal(err)
	}
	if err := a.compareLocked(ctx, o.version, &u); err != nil {
		return fmt.Errorf("%s is written, but it could not be compared with %s: %w", u.Dir, u.ComparedTo, err)
	}
	return a.Print(o.version.format, u, func() error {
		a.printNewVersion(u.Version, u.Lock)
		for _, change := range slices.Concat(u.Objects, u.Options, u.Resolved, u.Licenses) {
			fmt.Fprintf(a.Out, "  %s\n", change)
		}
		return nil
	})
}

// refusal sets the exit code of a rule that forbids a version.
func refusal(err error) error {
	if _, ok := errors.AsType[*upstream.RefusedError](err); ok {
		return app.WithCode(app.ExitRefused, err)
	}
	return err
}

// compareLocked compares what two versions resolve to, and its licenses. It does nothing if one of them is not locked.
func (a commands) compareLocked(ctx context.Context, o newVersionOptions, u *updated) error {
	if u.ComparedTo == "" || u.Lock == nil {
		return nil
	}
	before := filepath.Join(filepath.Dir(u.Dir), u.ComparedTo)
	was, err := readLock(before)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := readLock(u.Dir)
	if err != nil {
		return err
	}
	u.Resolved = lock.Diff(was, now)
	return charts{a, o.sources}.with(func(b *builder.Builder) error {
		u.Licenses, err = b.LicenseChanges(ctx, before, u.Dir)
		return err
	})
}

func readLock(dir string) (lock.Lock, error) {
	name := filepath.Join(dir, lock.FileName)
	f, err := os.Open(name)
	if err != nil {
		return lock.Lock{}, err
	}
	defer f.Close()
	return lock.Parse(name, f)
}
