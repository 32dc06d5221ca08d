package testgrid

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/report"
)

func (a commands) openHistory(location string, write bool) (*history.History, error) {
	s, err := store.Opener{Write: write, Log: a.Log, CAs: a.CAs}.Open(location)
	if err != nil {
		return nil, fmt.Errorf("open the store of results: %w", err)
	}
	return &history.History{Store: s}, nil
}

// remembered is the output of history for one test on one system.
type remembered struct {
	Test   string           `json:"test"`
	System string           `json:"system"`
	Runs   []report.Earlier `json:"runs"`
	Broke  *report.Change   `json:"broke,omitempty"` // missing if the last run passed
}

func (a commands) historyCommand() *cobra.Command {
	var format string
	var last int
	cmd := &cobra.Command{
		Use:   "history STORE",
		Short: "Say which test broke when, and by which package",
		Long: `Say how tests ended in the runs that 'sealift testgrid run --history STORE' has stored, since when a test is broken, and which
packages differ between the last run in which it passed and the first in which it did not. STORE is a folder or
s3://bucket/prefix.`,
		Example: "  sealift testgrid history s3://results/grid\n  sealift testgrid history /srv/grid --last 5 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 1 {
				return app.UsageError("--last must be 1 or more")
			}
			h, err := a.openHistory(args[0], false)
			if err != nil {
				return err
			}
			runs, err := h.Runs(cmd.Context(), last)
			if err != nil {
				return err
			}
			past := history.Past(runs)
			list := make([]remembered, 0, len(past))
			for _, key := range slices.Sorted(maps.Keys(past)) {
				test, system, _ := strings.Cut(key, "/")
				r := remembered{Test: test, System: system, Runs: past[key], Broke: report.Broke(past[key])}
				if r.Broke != nil {
					r.Broke.Test, r.Broke.System = test, system
				}
				list = append(list, r)
			}
			if format == "json" {
				return a.PrintJSON(list)
			}
			return a.printHistory(list)
		},
	}
	cmd.Flags().IntVar(&last, "last", 20, "look at so many runs, the newest ones")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printHistory(list []remembered) error {
	w := plaintext.NewTable(tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0))
	w.Println("TEST\tSYSTEM\tRUNS\tSTATE")
	for _, r := range list {
		var signs strings.Builder
		for _, e := range r.Runs {
			signs.WriteString(report.Sign(e.Verdict))
		}
		state := "passes"
		if r.Broke != nil {
			state = r.Broke.String()
		}
		w.Printf("%s\t%s\t%s\t%s\n", r.Test, r.System, signs.String(), state)
	}
	return w.Flush()
}
