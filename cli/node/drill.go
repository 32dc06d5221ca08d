package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

// drilled is what 'restore --drill -o json' prints.
type drilled struct {
	saved
	restore.Drill
}

// drill restores a snapshot beside everything that this host has, and compares.
func (a commands) drill(ctx context.Context, content *snapshot.Content, from saved, o restoreOptions) (err error) {
	program, stop, err := a.drillPrograms(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	says := a.Out
	if o.snapshotKeys.format == "json" {
		says = a.Err
	}
	options := restore.DrillOptions{Program: program, Say: func(line string) { fmt.Fprintln(says, line) }}
	if o.verbose {
		options.Output = a.Err
	}
	d, err := restore.RunDrill(ctx, options, content)
	if err != nil {
		return fmt.Errorf("drill: %w\nwhat it made was removed", err)
	}
	if o.snapshotKeys.format == "json" {
		return errors.Join(a.PrintJSON(drilled{from, d}), d.Err())
	}
	a.printDrill(d)
	return d.Err()
}

// drillPrograms takes programs out of the images of the bundle, or out of those that this host's containerd has.
func (a commands) drillPrograms(ctx context.Context, o restoreOptions) (program func(ctx context.Context, image, path, to string) error, stop func() error, err error) {
	if o.source.name() == "" {
		r, err := runtime.Connect(ctx, runtime.Socket)
		if err != nil {
			return nil, nil, fmt.Errorf("this host has no container runtime; give the cluster's bundle with --bundle: %w", err)
		}
		return r.Program, r.Close, nil
	}
	if err := o.source.check("restore"); err != nil {
		return nil, nil, err
	}
	trusted, err := app.PublicKeys(o.keys)
	if err != nil {
		return nil, nil, err
	}
	archive, err := o.source.open(ctx, a, o.root, trusted...)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, image, name, to string) error {
		return programIn(ctx, archive, image, name, to)
	}, archive.Close, nil
}

// programIn copies a program out of the package that has the image.
func programIn(ctx context.Context, archive *bundle.Archive, image, name, to string) error {
	for _, p := range archive.Index.Packages {
		layout, err := runtime.OpenLayout(archive, path.Join(p.Dir(), "images"))
		if err != nil {
			return err
		}
		if err := layout.Program(ctx, image, name, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("the bundle has no image %s with %s; use one with the cluster's version: %w", image, name, fs.ErrNotExist)
}

func (a commands) printDrill(d restore.Drill) {
	for _, kind := range slices.Sorted(maps.Keys(d.Kinds)) {
		fmt.Fprintf(a.Out, "%6d %s\n", d.Kinds[kind], kind)
	}
	for _, l := range []struct {
		what string
		all  []string
	}{{"differs", d.Differ}, {"cannot be read by the API server", d.Unserved}, {"cannot be listed", d.Unlisted}} {
		for i, name := range l.all {
			if i == namedObjects {
				fmt.Fprintf(a.Out, "%s: %d more; -o json names them\n", l.what, len(l.all)-i)
				break
			}
			fmt.Fprintf(a.Out, "%s: %s\n", l.what, name)
		}
	}
	seconds := func(s float64) time.Duration {
		return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond)
	}
	fmt.Fprintf(a.Out, "%s: %d differ, %d cannot be read by the API server\n", app.Counted(d.Objects, "object"), len(d.Differ), len(d.Unserved))
	if d.Encrypted {
		fmt.Fprintln(a.Out, "Secrets are encrypted in etcd, and were decrypted with the keys of the snapshot")
	}
	fmt.Fprintf(a.Out, "etcd answered after %s, the API after %s, and every object was read after %s\n", seconds(d.Etcd), seconds(d.API), seconds(d.Whole))
}
