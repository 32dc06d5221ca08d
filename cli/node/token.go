package node

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/catalog/online"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/plaintext"
)

// tokenLife is how long a token is good unless told otherwise: a working day and a night. Certificates stay for two hours.
const (
	tokenLife       = 24 * time.Hour
	certificateLife = 2 * time.Hour
)

func (a commands) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke join tokens",
		Long:  "Create, list and revoke the tokens with which hosts join the cluster. Run the commands as root on a control plane.",
	}
	cmd.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return cmd
}

type tokenOptions struct {
	controlPlane bool
	ttl          time.Duration
	description  string
	from         string // URL of an Installer on a server
	renew        string // the worker for which the token is
	root         string
	format       string
}

func (a commands) tokenCreateCommand() *cobra.Command {
	var o tokenOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token, and print the command that joins a host",
		Long: `Make a token that expires, and print the command that joins a host to this cluster. Run that command as root on the
host. The host needs nothing else.

With --control-plane, the host becomes an additional control plane node. Run the command within two hours then. With
--from, the host downloads its files from a server instead of this control plane.

With --renew NODE, print the command that brings a worker back that was off for longer than its certificate was valid.
The token is good for one certificate of that node and for nothing else.`,
		Example: "  sealift token create\n  sealift token create --control-plane\n  sealift token create --ttl 30m --description 'rack 7'\n  sealift token create --from https://sealift.example.com/abc1234\n  sealift token create --renew worker-1 --ttl 1h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.controlPlane && !cmd.Flags().Changed("ttl") {
				o.ttl = certificateLife
			}
			if o.ttl <= 0 {
				return app.UsageError("--ttl must be more than nothing")
			}
			if err := checkInstallerURL(o.from); err != nil {
				return err
			}
			admin, err := controlplane.AsAdministrator()
			if err != nil {
				return err
			}
			return a.createToken(cmd.Context(), admin, o)
		},
	}
	cmd.Flags().BoolVar(&o.controlPlane, "control-plane", false, "create a token for an additional control plane")
	cmd.Flags().StringVar(&o.renew, "renew", "", "create a token for the worker of this name, whose certificate has ended")
	cmd.Flags().DurationVar(&o.ttl, "ttl", tokenLife, "lifetime of the token; default 2h for a control plane")
	cmd.Flags().StringVar(&o.from, "from", "", "URL of the cluster's Installer on a server that the host can reach")
	cmd.Flags().StringVar(&o.description, "description", "", "description for the list of tokens")
	addRoot(cmd, &o.root)
	cmd.MarkFlagsMutuallyExclusive("renew", "control-plane")
	cmd.MarkFlagsMutuallyExclusive("renew", "from")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

// createToken creates a token and prints the command that uses it.
func (a commands) createToken(ctx context.Context, admin controlplane.Administrator, o tokenOptions) error {
	life := o.ttl
	if o.controlPlane {
		life = min(life, certificateLife)
	}
	made := joinCommand{ControlPlane: o.controlPlane, Expires: time.Now().Add(life).Truncate(time.Second)}
	var err error
	if o.renew != "" {
		var whole string
		whole, err = admin.RenewToken(ctx, o.ttl, o.description, o.renew)
		made.Command = fmt.Sprintf("echo '%s' | %s", whole, hostpath.Sudo("certs renew --token -")) // others can read a command line
	} else {
		made.Command, err = exclusion.JoinCommand(ctx, admin, controlplane.Invitation{For: o.ttl, Description: o.description, ControlPlane: o.controlPlane, Root: o.root, From: o.from})
	}
	if err != nil {
		return err
	}
	return a.Print(o.format, made, change.Line(a.Out, "%s", made.Command))
}

// checkInstallerURL accepts "" or the base URL of a server with scripts.
func checkInstallerURL(from string) error {
	if from == "" {
		return nil
	}
	if _, err := online.BundleURL(from); err != nil {
		return app.UsageError("--from: %v", err)
	}
	if strings.HasSuffix(from, ".tar.gz") {
		return app.UsageError("--from: %s is a bundle; name the Installer on the server, such as https://host/abc1234", from)
	}
	return nil
}

func (a commands) tokenListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the cluster's tokens, without their secrets",
		Example: "  sealift token list\n  sealift token list -o json | jq '.[] | select(.usable)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := controlplane.AsAdministrator()
			if err != nil {
				return err
			}
			list, err := token.List(cmd.Context(), admin.Client)
			if err != nil {
				return err
			}
			return a.Print(format, list, func() error { return a.printTokens(list) })
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printTokens(list []token.Token) error {
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("TOKEN\tEXPIRES\tJOINS\tFOR")
	for _, one := range list {
		expires, joins := "never", "no"
		if !one.Expires.IsZero() {
			expires = one.Expires.Format(time.RFC3339)
		}
		if one.Usable {
			joins = "yes"
		}
		t.Printf("%s\t%s\t%s\t%s\n", one.ID, expires, joins, one.Description)
	}
	return t.Flush()
}

func (a commands) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke TOKEN...",
		Short:   "Revoke tokens immediately",
		Long:    "Revoke tokens, given in full or by their first six characters. Nodes that have already joined are not affected.",
		Example: "  sealift token revoke abcdef",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			admin, err := controlplane.AsAdministrator()
			if err != nil {
				return err
			}
			return token.Revoke(cmd.Context(), admin.Client, args...)
		},
	}
}

// joinCommand is a command with which hosts join the cluster, or with which a worker comes back.
type joinCommand struct {
	ControlPlane bool      `json:"controlPlane"`
	Expires      time.Time `json:"expires"`
	Command      string    `json:"command"`
}

// joinCommands makes the commands with which hosts join the cluster that was just made.
func joinCommands(ctx context.Context, root string) ([]joinCommand, error) {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return nil, err
	}
	var all []joinCommand
	for _, one := range []controlplane.Invitation{{For: tokenLife}, {For: certificateLife, ControlPlane: true}} {
		one.Description, one.Root = "made by the install", root
		command, err := exclusion.JoinCommand(ctx, admin, one)
		if err != nil {
			return nil, err
		}
		all = append(all, joinCommand{one.ControlPlane, time.Now().Add(one.For).Truncate(time.Second), command})
	}
	return all, nil
}

func (a commands) printJoinCommands(all []joinCommand) {
	for _, one := range all {
		title := "to add a node, run as root on the host, within 24 hours"
		if one.ControlPlane {
			title = "to add a control plane, within 2 hours"
		}
		fmt.Fprintf(a.Out, "\n%s:\n  %s\n", title, one.Command)
	}
	fmt.Fprintln(a.Out, "\nmake such commands again with: sealift token create")
}
