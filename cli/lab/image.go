package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

func (a commands) labImageCommand() *cobra.Command {
	var out, name string
	cmd := &cobra.Command{
		Use:   "image SYSTEM",
		Short: "Make a container image with the system of hosts",
		Long: `Make a container image with the system of hosts, for tests whose HOSTS.yaml has the kind kubernetes. It boots systemd and needs
a privileged container. The file is a docker-archive, which skopeo copies to a registry and ctr imports on a node. No container
engine is needed to make it.`,
		Example: "  sealift-testgrid lab image debian-12 --out debian-12.tar\n  skopeo copy docker-archive:debian-12.tar docker://registry.example.com/host-debian-12:1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(host.Systems(), args[0]) {
				return app.UsageError("the lab has no system %q: use %s", args[0], strings.Join(host.Systems(), " or "))
			}
			if out == "" {
				return app.UsageError("--out is missing; see '%s --help'", cmd.CommandPath())
			}
			w, err := upstream.NewWorkshop(upstream.Options{Progress: a.progress})
			if err != nil {
				return err
			}
			if name == "" {
				name = "sealift.dev/host-" + args[0] + ":1"
			}
			digest, err := w.WriteHostImage(cmd.Context(), "host-"+args[0], name, out)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s: %s %s\n", out, name, digest)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file for the image")
	cmd.Flags().StringVar(&name, "name", "", "name of the image in the file (default: sealift.dev/host-SYSTEM:1)")
	return cmd
}
