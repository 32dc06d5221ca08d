// Package lab is the command line of the lab: a mirror of the outside world, and hosts without other networks.
package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/manual"
	"github.com/sealift/sealift/cli/testgrid"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// commands makes and runs the commands of the program.
type commands struct{ *app.App }

// Root is the whole command line.
func Root(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:     "sealift-testgrid",
		Short:   "Test Installers and add-ons on hosts",
		Long:    "Test Installers and add-ons on hosts: read files of tests, and run the lab, which has hosts without a route out and plays the outside\nworld. 'sealift testgrid' is the same program.",
		Example: "  sealift-testgrid lint tests.yaml\n  sealift-testgrid lab boot node-1",
	}
	c := commands{a}
	root.AddCommand(testgrid.Commands(a)...)
	root.AddCommand(c.labCommand(), a.VersionCommand(root.Name()), manual.Command())
	return root
}

func (a commands) labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "A mirror of the outside world, and hosts without other networks",
		Long: `The lab makes what add-ons fetch from the world (Kubernetes, containerd, images, …) out of Go modules and Debian
packages, serves it under its real names, and boots Linux hosts that have no route out.

What it makes is kept in $SEALIFT_LAB_CACHE (default: sealift/lab in the user's cache folder), hosts in
$SEALIFT_LAB_STATE (default: /var/lib/sealift-lab). Every command that works on hosts first removes those whose owner was killed.`,
		Example: "  sealift-testgrid lab build\n  sealift-testgrid lab serve --write-config sealift.yaml\n  sealift-testgrid lab boot node-1\n" +
			"  sealift-testgrid lab enter node-1 -- kubectl get nodes\n  sealift-testgrid lab remove --all",
	}
	cmd.AddCommand(a.labBuildCommand(), a.labServeCommand(), a.labImageCommand(), a.labBootCommand(), a.labEnterCommand(), a.labRebootCommand(), a.labPowerCutCommand(),
		a.labEgressCommand(), a.labListCommand(), a.labRemoveCommand())
	return cmd
}

// progress prints one line per event where it does not disturb output.
func (a commands) progress(line string) { fmt.Fprintln(a.Err, line) }

func (a commands) labBuildCommand() *cobra.Command {
	var c choice
	cmd := &cobra.Command{
		Use:   "build [COMPONENT...]",
		Short: "Build the images and files that the lab serves",
		Long: `Make everything that the lab serves and that hosts run on, or only the named components, unless the cache has it.
With --platform, programs and images are also cross-compiled for arm64, which takes about as long again.
With --kubernetes or --add-on only what these versions and the other add-ons need is made, and the default system of hosts.
Downloads overlap with compiles; one component is compiled at a time. While it works, the lab says which components are under
way, how many are made, and how long that took so far. Nothing is made twice on a machine.`,
		Example: "  sealift-testgrid lab build\n  sealift-testgrid lab build --kubernetes v1.36.3\n  sealift-testgrid lab build --platform linux/amd64,linux/arm64\n  sealift-testgrid lab build etcd-v3.6.8",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) > 0 && len(c.names()) > 0 {
				return app.UsageError("name components, or give --kubernetes or --add-on; see '%s --help'", cmd.CommandPath())
			}
			if err := c.check(); err != nil {
				return err
			}
			w, err := upstream.NewWorkshop(upstream.Options{Progress: a.progress})
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				ids = c.components()
			}
			if err := w.CheckTools(ids...); err != nil {
				return err
			}
			folders, err := w.Build(cmd.Context(), ids...)
			if err != nil {
				return err
			}
			for _, id := range ids {
				fmt.Fprintf(a.Out, "%s\t%s\n", id, folders[id])
			}
			return nil
		},
	}
	c.addFlags(cmd)
	return cmd
}

// choice is the choice of versions and platforms that build and serve have.
type choice struct{ kubernetes, addOns, platforms []string }

func (c *choice) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&c.kubernetes, "kubernetes", nil, "only these Kubernetes releases, of "+strings.Join(upstream.Releases(), ", ")+"; default: those that the tests install")
	cmd.Flags().StringSliceVar(&c.addOns, "add-on", nil, "only these versions of other add-ons, of "+strings.Join(upstream.AddOns(), ", ")+"; default: those that the tests install")
	cmd.Flags().StringSliceVar(&c.platforms, "platform", upstream.Platforms()[:1], "for these platforms, of "+strings.Join(upstream.Platforms(), ", "))
}

func (c *choice) names() []string { return slices.Concat(c.kubernetes, c.addOns) }

func (c *choice) check() error {
	for _, version := range c.kubernetes {
		if !slices.Contains(upstream.Releases(), version) {
			return app.UsageError("the lab has no Kubernetes %s; it has %s", version, strings.Join(upstream.Releases(), ", "))
		}
	}
	for _, addOn := range c.addOns {
		if !slices.Contains(upstream.AddOns(), addOn) {
			return app.UsageError("the lab has no add-on %s; it has %s", addOn, strings.Join(upstream.AddOns(), ", "))
		}
	}
	for _, platform := range c.platforms {
		if !slices.Contains(upstream.Platforms(), platform) {
			return app.UsageError("the lab makes nothing for %s; it knows %s", platform, strings.Join(upstream.Platforms(), ", "))
		}
	}
	return nil
}

// images and downloads are those that the lab serves for this choice.
func (c *choice) images() []upstream.Image {
	return upstream.ImagesOn(c.platforms, upstream.Images(c.names()...))
}

func (c *choice) downloads() []upstream.Download {
	return upstream.DownloadsOn(c.platforms, upstream.Downloads(c.names()...))
}

// components lists what there is to make for this choice, or what the lab makes without one.
func (c *choice) components() []string {
	ids := upstream.ComponentsOf(c.images(), c.downloads())
	if len(c.names()) > 0 {
		return append(ids, upstream.Program("registry").Component, upstream.HostDebian12)
	}
	ids = append(ids, upstream.Everyday()...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (a commands) labServeCommand() *cobra.Command {
	var o mirror.Options
	var config string
	var c choice
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve images and files under their upstream names",
		Long: `Serve every image of the lab from a real registry and every download from a file server, both on loopback, until
interrupted. What is missing is made first. With --write-config the mirrors are written as a sealift.yaml once both
servers answer, otherwise they are printed. Debian's archive is mapped to the one that this machine installs from.`,
		Example: "  sealift-testgrid lab serve --write-config sealift.yaml\n  sealift-testgrid lab serve --registry 127.0.0.1:0 --files 127.0.0.1:0",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			o.Progress, o.Images, o.Downloads = a.progress, c.images(), c.downloads()
			m, err := mirror.Serve(cmd.Context(), o)
			if err != nil {
				return err
			}
			text, err := m.Config()
			if err == nil && config != "" {
				err = m.WriteConfig(config)
			} else if err == nil {
				_, err = a.Out.Write(text)
			}
			if err == nil {
				a.progress(fmt.Sprintf("serving images on %s and files on http://%s; end with Ctrl-C", m.Registry(), m.Files()))
				err = m.Wait(cmd.Context())
			}
			return errors.Join(err, m.Close())
		},
	}
	cmd.Flags().StringVar(&o.Registry, "registry", mirror.DefaultRegistry, "address of the registry; port 0 takes a free one")
	cmd.Flags().StringVar(&o.Files, "files", mirror.DefaultFiles, "address of the file server; port 0 takes a free one")
	c.addFlags(cmd)
	cmd.Flags().StringVar(&config, "write-config", "", "write the mirrors to this sealift.yaml, replacing one that this command wrote")
	return cmd
}

func (a commands) labEnterCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "enter NAME [-- COMMAND...]",
		Short: "Run a command, or a shell, in a host",
		Long:  "Run a command in a host as root, with this terminal if there is one; without a command, a login shell. Its exit code becomes that of sealift-testgrid.",
		Example: "  sealift-testgrid lab enter node-1\n  sealift-testgrid lab enter node-1 -- kubectl get nodes\n" +
			"  sealift-testgrid lab enter node-1 -- bash -s < script.sh",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.host(cmd, args[0])
			if err != nil {
				return err
			}
			c := host.Command{Args: args[1:], Stdin: a.In, Stdout: a.RawOut, Stderr: a.RawErr, Terminal: a.CanAsk()}
			if name := os.Getenv("TERM"); c.Terminal && name != "" {
				c.Env = []string{"TERM=" + name}
			}
			err = h.Exec(cmd.Context(), c)
			var failed *exec.ExitError
			if errors.As(err, &failed) && failed.ExitCode() > 0 {
				return app.WithCode(failed.ExitCode(), err)
			}
			return err
		},
	}
}

// labHost is a host in the output of 'list'.
type labHost struct {
	Name    string `json:"name"`
	OS      string `json:"os"`
	Address string `json:"address"`
	State   string `json:"state"` // running or stopped
	Created string `json:"created"`
	Kept    bool   `json:"kept"`
	Machine bool   `json:"machine"` // it is a virtual machine
}

func (a commands) labListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the hosts of the lab",
		Long:    "List the hosts of the lab: what they run, their address, and whether they run. A host that is not kept belongs to a test and goes with it.",
		Example: "  sealift-testgrid lab list\n  sealift-testgrid lab list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rack, err := a.rack(cmd)
			if err != nil {
				return err
			}
			hosts, err := rack.List()
			if err != nil {
				return err
			}
			list := make([]labHost, 0, len(hosts))
			for _, h := range hosts {
				state := "stopped"
				if h.Running() {
					state = "running"
				}
				list = append(list, labHost{h.Name(), h.OS(), h.Address().String(), state, h.Created().Format("2006-01-02T15:04:05Z07:00"), h.Kept(), h.IsMachine()})
			}
			if format == "json" {
				return a.PrintJSON(list)
			}
			return a.printHosts(list)
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printHosts(list []labHost) error {
	w := plaintext.NewTable(tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0))
	w.Println("NAME\tSYSTEM\tADDRESS\tSTATE\tCREATED\tKEPT")
	for _, h := range list {
		w.Printf("%s\t%s\t%s\t%s\t%s\t%t\n", h.Name, h.OS, h.Address, h.State, h.Created, h.Kept)
	}
	return w.Flush()
}

func (a commands) labRemoveCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "remove NAME... | --all",
		Short:   "Stop hosts and remove everything of them",
		Long:    "Stop hosts and remove everything of them. With --all, every host of the lab goes, and its network with them.",
		Example: "  sealift-testgrid lab remove node-1\n  sealift-testgrid lab remove --all",
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return app.UsageError("name the hosts to remove, or give --all; see '%s --help'", cmd.CommandPath())
			}
			rack, err := a.rack(cmd)
			if err != nil {
				return err
			}
			if all {
				hosts, err := rack.List()
				if err != nil {
					return err
				}
				for _, h := range hosts {
					names = append(names, h.Name())
				}
			}
			var errs []error
			for _, name := range names {
				errs = append(errs, rack.Remove(cmd.Context(), name))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all hosts")
	return cmd
}

// rack opens the machine's hosts.
func (a commands) rack(cmd *cobra.Command) (*host.Rack, error) {
	return host.OpenRack(cmd.Context(), host.Options{Progress: a.progress})
}
