package node

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/hooks/kurlbin"
)

// hookCommand is called by the programs in $DIR/bin of an install root.
func (a commands) hookCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "hook PROGRAM [ARG…]",
		Short:  "Run Sealift's replacement for a kURL program that hooks call",
		Hidden: true,
		Long: `Do what a program does that add-ons of kURL call by its path in $DIR/bin, with its flags and its output.
There are ` + strings.Join(kurlbin.Names(), ", ") + `.`,
		Example: `  sealift hook kurl netutil format-ip-address fd00::1
  sealift hook yamlutil -a -fp values.yaml -yp spec_replicas -v 3`,
		Args:               cobra.MinimumNArgs(1),
		DisableFlagParsing: true, // they are the program's
		RunE: func(cmd *cobra.Command, args []string) error {
			err := kurlbin.Run(cmd.Context(), args[0], args[1:], kurlbin.Streams{In: a.In, Out: a.RawOut, Err: a.RawErr})
			if errors.Is(err, kurlbin.ErrUsage) {
				return app.UsageError("%v", err)
			}
			return err
		},
	}
}
