package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

// drilled is the output of 'restore --drill -o json'.
type drilled struct {
	snapshot.Found
	restore.Drill
}

// drill restores a snapshot isolated from everything on this host, and compares.
func (a commands) drill(ctx context.Context, from *snapshot.Loaded, o restoreOptions) (err error) {
	notes := a.Notes(o.Format)
	options := restore.DrillOptions{Say: func(line string) { fmt.Fprintln(notes, line) }, Output: a.ProgramOutput()}
	if o.source.name() != "" {
		archive, failed := o.openBundle(ctx, a)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, archive.Close()) }()
		options.Program = restore.BundlePrograms(archive)
	}
	d, err := restore.RunDrill(ctx, options, from.Content)
	if err != nil {
		return fmt.Errorf("drill: %w\nwhat it made was removed", err)
	}
	err = d.Remember(o.root, from.Content.Index)
	return errors.Join(a.Print(o.Format, drilled{from.Found(), d}, func() error { a.printDrill(d); return nil }), d.Err(), err)
}

// openBundle opens the bundle for its programs alone.
func (o *restoreOptions) openBundle(ctx context.Context, a commands) (*bundle.Archive, error) {
	if err := o.source.check("restore"); err != nil {
		return nil, err
	}
	trusted, err := app.PublicKeys(o.keys)
	if err != nil {
		return nil, err
	}
	return o.source.open(ctx, a, o.root, trusted...)
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
