package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/installer"
)

// nodeCommand has what services of a node run. People have no use for it.
func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Run what services of a node run", Hidden: true}
	for _, service := range []struct {
		use, short string
		run        func(context.Context, string, *slog.Logger) error
	}{
		{"balance", "Give this node an address of the API that works while any control plane does", installer.Balance},
		{"share", "Serve hosts that join the cluster", installer.Share},
	} {
		var root string
		one := &cobra.Command{Use: service.use, Short: service.short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(a.errOut, nil)) // the journal of systemd keeps all of it
			return service.run(cmd.Context(), root, log)
		}}
		one.Flags().StringVar(&root, "root", installer.DefaultRoot, "folder for what the node keeps")
		cmd.AddCommand(one)
	}
	return cmd
}
