package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/build"
	"github.com/sealift/sealift/cli/bundle"
	"github.com/sealift/sealift/cli/channel"
	"github.com/sealift/sealift/cli/delegate"
	"github.com/sealift/sealift/cli/evidence"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/cli/manual"
	"github.com/sealift/sealift/cli/node"
	"github.com/sealift/sealift/cli/push"
	"github.com/sealift/sealift/cli/relocate"
)

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return app.Run(ctx, "sealift", rootCommand, delegate.HelpWords(args), in, out, errOut)
}

// rootCommand has every command, in the order in which a package travels.
func rootCommand(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "sealift",
		Short: "Carry Kubernetes and its add-ons across an air gap",
		Long: `Sealift builds packages from add-on directories with a Manifest, assembles packages into a bundle, and installs a
Kubernetes cluster from the bundle on hosts without access to other networks.

Every flag can also be set with an environment variable: SEALIFT_OUT for --out, SEALIFT_CACHE for --cache.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 refused by preflight checks or a policy.`,
	}
	nodes := node.CommandNames()
	install := node.Commands(a, bundle.InPlace(a, nodes))
	evidence.AddToStatus(a, install[slices.IndexFunc(install, func(cmd *cobra.Command) bool { return cmd.Name() == "status" })])
	app.AddGroups(root,
		app.Group{ID: "build", Title: "Build packages:", Commands: []*cobra.Command{
			build.Manifest(a), build.AddOn(a, relocate.Commands(a)...), build.Lock(a), build.Build(a), build.Key(a), build.Cache(a),
			build.Inspect(a), archive.Verify(a), build.Extract(a), evidence.Evidence(a), evidence.Diff(a), evidence.VulnDB(a), evidence.Verdict(a), evidence.FIPS(a), build.Import(a), build.Publish(a),
		}},
		app.Group{ID: "carry", Title: "Carry them:", Commands: []*cobra.Command{installers.Spec(a), bundle.Bundle(a, nodes), bundle.Serve(a, nodes), push.Push(a)}},
		app.Group{ID: "install", Title: "Install a node:", Commands: install},
		app.Group{ID: "keep", Title: "Keep a cluster right:", Commands: []*cobra.Command{channel.Apply(a), channel.Channel(a), delegate.Operator(), delegate.Fleet()}},
		app.Group{ID: "test", Title: "Test before a release:", Commands: []*cobra.Command{delegate.Testgrid()}},
		app.Group{Commands: []*cobra.Command{node.Hook(a), build.InPod(a), a.VersionCommand("sealift"), manual.Command()}},
	)
	return root
}
