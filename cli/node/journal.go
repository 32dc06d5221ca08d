package node

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) journalCommand() *cobra.Command {
	var root, format string
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Show the history of steps on this node",
		Long: `Show the journal of this node, oldest entry first: each step that started, finished, failed, or stopped because
another step failed. The command hides the values that hooks have left, because they may contain secrets.`,
		Example: "  sealift journal\n  sealift journal -o json | jq '.[] | select(.outcome == \"failed\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			records, err := lifecycle.ReadJournal(node.StateDir(root))
			if err != nil {
				return fmt.Errorf("read the journal: %w", err)
			}
			for i := range records {
				records[i].State = nil
			}
			return a.Print(format, append([]lifecycle.Record{}, records...), func() error {
				if len(records) == 0 {
					fmt.Fprintf(a.Err, "there is no journal in %s: no install was begun on this host\n", node.StateDir(root))
					return nil
				}
				return a.printJournal(records)
			})
		},
	}
	addRoot(cmd, &root)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printJournal(records []lifecycle.Record) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("TIME\tOPERATION\tPHASE\tSTEP\tOUTCOME\tTOOK")
	for _, r := range records {
		took := ""
		if r.Outcome != lifecycle.Started {
			took = r.Duration.Round(10 * time.Millisecond).String()
		}
		operation := string(r.Operation)
		if operation == "" { // in a journal of an earlier sealift
			operation = "-"
		}
		t.Printf("%s\t%s\t%s\t%s\t%s\t%s\n", r.Time.Format(time.RFC3339), operation, r.Phase, r.Step, r.Outcome, took)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if failure, failed := lifecycle.LastFailure(records); failed {
		fmt.Fprintf(a.Out, "\nstep %s failed: %s\nits log and the command that goes on: sealift status\n", failure.Step, failure.Error)
	}
	return nil
}
