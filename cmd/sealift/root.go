package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this program.
type commands struct{ *app.App }

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return app.Run(ctx, "sealift", rootCommand, args, in, out, errOut)
}

func rootCommand(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "sealift",
		Short: "Carry Kubernetes and its add-ons across an air gap",
		Long: `Sealift turns add-on directories with a Manifest into sealed packages, packages into one bundle,
and a bundle into a running Kubernetes cluster on hosts that have no route out.

Every flag may also be given as an environment variable: --out is SEALIFT_OUT, --cache is SEALIFT_CACHE.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by preflight checks.`,
	}
	app.AddGroups(root, commands{a}.groups()...)
	return root
}

// groups lists every command, in the order in which a package travels.
func (a commands) groups() []app.Group {
	return []app.Group{
		{ID: "build", Title: "Build packages:", Commands: []*cobra.Command{
			a.manifestCommand(), a.addonCommand(), a.lockCommand(), a.buildCommand(), a.keyCommand(), a.cacheCommand(),
			a.inspectCommand(), a.verifyCommand(), a.importCommand(), a.publishCommand(),
		}},
		{ID: "carry", Title: "Carry them:", Commands: []*cobra.Command{a.specCommand(), a.bundleCommand(), a.serveCommand()}},
		{ID: "install", Title: "Install a node:", Commands: []*cobra.Command{
			a.preflightCommand(), a.installCommand(), a.tokenCommand(), a.joinCommand(), a.statusCommand(), a.journalCommand(),
			a.supportBundleCommand(), a.imagesCommand(), a.nodeCommand(), a.resetCommand(),
		}},
		{ID: "keep", Title: "Keep a cluster right:", Commands: []*cobra.Command{a.applyCommand(), a.channelCommand()}},
		{Commands: []*cobra.Command{a.hookCommand(), a.VersionCommand()}},
	}
}
