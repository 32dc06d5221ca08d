package install

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// recorded makes each step record its changes to the host before the step counts as finished. Failed steps record them, too. So a
// later reset can distinguish them from manual changes of an administrator.
func (i *Install) recorded(ctx context.Context, steps lifecycle.Plan) (lifecycle.Plan, error) {
	if err := node.MarkRoot(i.options.Root); err != nil {
		return nil, fmt.Errorf("mark %s as sealift's: %w", i.options.Root, err)
	}
	if err := i.Journal.Begin(); err != nil {
		return nil, err
	}
	record, err := node.OpenBaseline(i.options.Root, i.options.LogDir)
	if err != nil {
		return nil, err
	}
	record.Unwatch(i.spec.HostPaths()...)
	if err := record.Begin(ctx, strings.Join(i.Journal.Open(), ", ")); err != nil {
		return nil, err
	}
	i.before = record.Before().Packages
	if err := i.writeRun(); err != nil {
		return nil, err
	}
	plan := make(lifecycle.Plan, len(steps))
	for n, step := range steps {
		run := step.Run
		step.Run = func(ctx context.Context) (lifecycle.State, error) {
			state, err := run(ctx)
			return state, errors.Join(err, record.Note(context.WithoutCancel(ctx), step.ID))
		}
		plan[n] = step
	}
	return plan, nil
}

// writeRun records this run.
func (i *Install) writeRun() error {
	run := node.Run{Installer: i.spec.Name, Bundle: i.options.Bundle, Log: i.Log.Name(), Resume: i.options.Resume, Began: time.Now().UTC(), Plan: i.plan, Address: i.settings.address}
	if path, err := filepath.Abs(i.options.Bundle); err == nil && !i.options.Remote { // a URL is not a path
		run.Bundle = path
	}
	var err error
	if run.Content, err = i.content(); err != nil { // only a forecast of the next upgrade needs it
		fmt.Fprintln(i.Log, "what the bundle takes on this node is unknown:", err)
		run.Content = node.Content{}
	}
	for _, a := range i.addOns {
		run.AddOns = append(run.AddOns, node.AddOn{Name: a.name(), Version: a.info.Version})
	}
	if i.Joins() {
		run.Networks = i.options.Join.Cluster.Networks().List()
	}
	return run.Write(i.options.Root)
}
