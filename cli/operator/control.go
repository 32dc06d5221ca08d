// Package operator has the commands of sealift-controller: those that run permanently in a cluster, and those that inspect it.
package operator

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/fleet"
	"github.com/sealift/sealift/cli/manual"
)

// ShellOperatorName is the name by which sealift-controller is Flant's shell-operator.
const ShellOperatorName = "shell-operator"

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Run executes one command line and returns its exit code.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return app.Run(ctx, "sealift-controller", func(a *app.App) *cobra.Command {
		root := &cobra.Command{
			Use:   "sealift-controller",
			Short: "Run what works in a cluster all the time",
			Long: `sealift-controller runs in a cluster all the time.

Every flag can also be set with an environment variable: SEALIFT_HOOKS_DIR for --hooks-dir.`,
		}
		root.AddCommand(commands{a}.operatorCommand("operator", "sealift operator"), fleet.Command(a), a.VersionCommand(root.Name()), manual.Command())
		return root
	}, args, in, out, errOut)
}

// RunShellOperator executes a command line of shell-operator. Without a command it starts, as the images of shell-operator do.
func RunShellOperator(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return runAs(ctx, ShellOperatorName, args, in, out, errOut)
}

// RunAddonOperator executes a command line of addon-operator. Without a command it starts, as the images of addon-operator do.
func RunAddonOperator(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return runAs(ctx, AddonOperatorName, args, in, out, errOut)
}

func runAs(ctx context.Context, name string, args []string, in io.Reader, out, errOut io.Writer) int {
	if len(args) == 0 {
		args = []string{"start"}
	}
	return app.Run(ctx, name, func(a *app.App) *cobra.Command {
		root := commands{a}.operatorCommand(name, name)
		root.AddCommand(a.VersionCommand(root.Name()))
		return root
	}, args, in, out, errOut)
}
