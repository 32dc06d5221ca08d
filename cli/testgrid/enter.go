package testgrid

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/testgrid/report"
)

type enterOptions struct {
	out    string
	system string
	node   int
}

func (a commands) enterCommand() *cobra.Command {
	var o enterOptions
	cmd := &cobra.Command{
		Use:   "enter TEST --out REPORT",
		Short: "Open a shell on a host of a test",
		Long: `Open a shell on a host of a test that is running, or that failed and was kept with --keep-failed. TEST is the test's ID. The
shell is root's. It reads its standard input, so a script can be piped into it, and its exit code becomes that of this
command.`,
		Example: `  sealift testgrid enter two-nodes --out report
  sealift testgrid enter two-nodes --out report --system debian-12 --node 2
  echo 'kubectl get pods -A' | sealift testgrid enter two-nodes --out report`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.out == "" {
				return app.UsageError("--out is missing; see '%s --help'", cmd.CommandPath())
			}
			m, err := o.find(args[0])
			if err != nil {
				return err
			}
			shell := exec.CommandContext(cmd.Context(), m.Enter[0], m.Enter[1:]...)
			shell.Stdin, shell.Stdout, shell.Stderr = a.In, a.RawOut, a.RawErr
			err = shell.Run()
			var failed *exec.ExitError
			if errors.As(err, &failed) && failed.ExitCode() > 0 {
				return app.WithCode(failed.ExitCode(), err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", "", "folder of the report")
	flags.StringVar(&o.system, "system", "", "the system on which the test ran, if there are several")
	flags.IntVar(&o.node, "node", 1, "the node; 1 installs")
	return cmd
}

// find returns the machine of the newest attempt that has some.
func (o enterOptions) find(test string) (m report.Machine, err error) {
	results, err := report.Folder{Path: o.out}.Read()
	if err != nil {
		return m, err
	}
	var newest *report.Result
	known := false
	for i, r := range results {
		if r.Test != test || o.system != "" && r.System != o.system {
			continue
		}
		known = true
		if len(r.Machines) == 0 {
			continue
		}
		if newest != nil && newest.System != r.System {
			return m, app.UsageError("%s has hosts on %s and on %s; choose with --system", test, newest.System, r.System)
		}
		if newest == nil || r.Attempt > newest.Attempt {
			newest = &results[i]
		}
	}
	switch {
	case !known:
		return m, fmt.Errorf("%s has no test %q; its pages show the IDs", o.out, test)
	case newest == nil:
		return m, fmt.Errorf("no host of %s exists any longer; run it again with --keep-failed", test)
	case o.node < 1 || o.node > len(newest.Machines):
		return m, app.UsageError("%s has nodes 1 to %d, and no node %d", test, len(newest.Machines), o.node)
	case len(newest.Machines[o.node-1].Enter) == 0:
		return m, fmt.Errorf("node %d of %s cannot be entered", o.node, test)
	}
	return newest.Machines[o.node-1], nil
}
