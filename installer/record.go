package installer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/installer/baseline"
	"github.com/sealift/sealift/installer/lifecycle"
)

func recordDir(root string) string { return filepath.Join(StateDir(root), "before") }

// openRecord opens the memory of what the host was like before anything was changed.
func openRecord(root, logDir string) (*baseline.Record, error) {
	r, err := baseline.Open(recordDir(root),
		baseline.Options{Skip: []string{root, logDir}, Folders: append(clusterFolders(), dataFolders()...)})
	if err != nil {
		return nil, fmt.Errorf("what is known of the host before the install: %w", err)
	}
	return r, nil
}

// recorded makes each step note what it changed on the host before it counts as finished. Failed steps note it, too: what
// an administrator then changes by hand is told from it.
func (i *Install) recorded(ctx context.Context) (lifecycle.Plan, error) {
	if err := markRoot(i.options.Root); err != nil {
		return nil, fmt.Errorf("mark %s as sealift's: %w", i.options.Root, err)
	}
	if err := i.journal.Begin(); err != nil {
		return nil, err
	}
	record, err := openRecord(i.options.Root, i.options.LogDir)
	if err != nil {
		return nil, err
	}
	if err := record.Begin(ctx, strings.Join(i.journal.Open(), ", ")); err != nil {
		return nil, err
	}
	i.before = record.Before().Packages
	if err := i.writeRun(); err != nil {
		return nil, err
	}
	plan := make(lifecycle.Plan, len(i.plan))
	for n, step := range i.plan {
		run := step.Run
		step.Run = func(ctx context.Context) (lifecycle.State, error) {
			state, err := run(ctx)
			return state, errors.Join(err, record.Note(context.WithoutCancel(ctx), step.ID))
		}
		plan[n] = step
	}
	return plan, nil
}
