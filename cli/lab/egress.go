package lab

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/testgrid/machine"
)

func (a commands) labEgressCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "egress NAME",
		Short: "List what a host has sent to other networks",
		Long: `List what a host that was booted with --exit has sent to other networks, one destination per line, with the process if
its socket still exists. All of it was dropped.`,
		Example: "  sealift-testgrid lab egress node-1\n  sealift-testgrid lab egress node-1 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.host(cmd, args[0])
			if err != nil {
				return err
			}
			left, err := machine.LabEgress(cmd.Context(), h)
			if err != nil {
				return err
			}
			if format == "json" {
				return a.PrintJSON(left)
			}
			for _, connection := range left {
				fmt.Fprintf(a.Out, "%s, %d packets\n", connection, connection.Packets)
			}
			return nil
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}
