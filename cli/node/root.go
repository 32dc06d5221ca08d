package node

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/channel"
	"github.com/sealift/sealift/cli/installers"
)

// Root is the command line of the sealift that nodes get: what runs on a node, and nothing that builds, carries or serves.
func Root(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "sealift",
		Short: "Install this host as a Kubernetes node and maintain its cluster",
		Long: `Sealift makes this host a Kubernetes node from a bundle, without access to other networks, and maintains the add-ons
of its cluster.

This is the sealift for nodes. To build packages and bundles, use the sealift that made this node's bundle.

Every flag can also be set with an environment variable: SEALIFT_ROOT for --root.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 refused by preflight checks.`,
	}
	app.AddGroups(root,
		app.Group{ID: "install", Title: "Install a node:", Commands: Commands(a, nil)},
		app.Group{ID: "keep", Title: "Keep a cluster right:", Commands: []*cobra.Command{channel.Apply(a), channel.Channel(a)}},
		app.Group{ID: "check", Title: "Check what was carried:", Commands: []*cobra.Command{archive.Verify(a), archive.Inspect(a), installers.Spec(a)}},
		app.Group{Commands: []*cobra.Command{Hook(a), a.VersionCommand("sealift")}},
	)
	return root
}

// CommandNames lists the commands that scripts may start on a node.
func CommandNames() []string {
	var names []string
	for _, c := range Root(&app.App{}).Commands() {
		names = append(names, c.Name())
	}
	return names
}
