package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/rotation"
)

type rotateCAOptions struct {
	rotation.Options
	plan, yes bool
	format    string
}

func (a commands) rotateCACommand() *cobra.Command {
	var o rotateCAOptions
	cmd := &cobra.Command{
		Use:   "rotate-ca",
		Short: "Replace the cluster's CAs and its service-account key",
		Long: `Replace the CA of the cluster, that of etcd, that of the front proxy, and the key that signs tokens of service accounts, on
all nodes, while the cluster works. Run the command on one control plane. It has two parts:

'rotate-ca' makes the new CAs and gives them to every node beside the old ones, and then lets the new ones sign. Static pods
are restarted, on one control plane at a time. Old certificates and old tokens work as before.

'rotate-ca --finish' lets every node forget the old CAs. It refuses that while pods run that were started before: they may
know only the old ones. Restart them yourself, or give --restart-workloads. Tokens in Secrets are made again.

If the command is interrupted, run it again: it resumes where it stopped. Until the end, upgrades and joins of control planes
are refused.

Commands for joining, copies of admin.conf and snapshots from before belong to the old CAs. Make them again.`,
		Example: "  sealift certs rotate-ca --plan\n  sealift certs rotate-ca --yes\n  sealift certs rotate-ca --finish --restart-workloads --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
				o.Output = a.Err
			}
			return refuse(a.rotateCA(cmd.Context(), o))
		},
	}
	cmd.Flags().StringVar(&o.Root, "root", node.DefaultRoot, "state folder of the node")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "rotate only these: "+strings.Join(authority.Names(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(authority.Names(), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&o.Finish, "finish", false, "forget the old CAs and the old key")
	cmd.Flags().BoolVar(&o.Restart, "restart-workloads", false, "with --finish: restart the workloads from before the new CAs")
	cmd.Flags().BoolVar(&o.plan, "plan", false, "show what would be done, and change nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) rotateCA(ctx context.Context, o rotateCAOptions) (err error) {
	if o.Restart && !o.Finish {
		return app.UsageError("--restart-workloads needs --finish")
	}
	r, err := rotation.Prepare(ctx, o.Options)
	if errors.Is(err, rotation.ErrNoPart) {
		return app.WithCode(app.ExitUsage, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.plan {
		return a.printRotationOfCAs(r, o.format)
	}
	if r.Signed() && !o.Finish {
		return a.tellRotated(r, o.format)
	}
	if err := r.Check(); err != nil {
		return err
	}
	question := "Give every node new CAs? Static pods are restarted, on one control plane at a time."
	if o.Finish {
		question = "Forget the old CAs? Certificates and tokens from before end."
	}
	if err := a.agree(o.yes, "rotate", question); err != nil {
		return err
	}
	defer a.tellOfInterruption(ctx)()
	events, waiting := a.eventsOfMany(o.format)
	if err := r.Run(ctx, waiting, func(e lifecycle.Event) { printEvent(events, e) }); err != nil {
		again := "sealift certs rotate-ca"
		if o.Finish {
			again += " --finish"
		}
		return fmt.Errorf("%w\nlog: %s\nrun '%s' again to go on", err, r.LogFile(), again)
	}
	if !o.Finish {
		return a.tellRotated(r, o.format)
	}
	if o.format == "json" {
		return a.PrintJSON(rotatedCA{Parts: r.Parts(), Finished: true, Holders: []rotation.Holder{}})
	}
	fmt.Fprintf(a.Out, "nothing of the old %s is left, log %s\n", strings.Join(r.Parts(), ", "), r.LogFile())
	fmt.Fprintln(a.Out, "save a snapshot now: those from before have the old ones")
	return nil
}

// rotatedCA is what 'certs rotate-ca -o json' prints.
type rotatedCA struct {
	Parts    []string `json:"parts"`
	Pin      string   `json:"pin,omitempty"` // of the new cluster CA
	Finished bool     `json:"finished"`
	// Holders may know only the old CAs.
	Holders []rotation.Holder `json:"holders"`
}

// tellRotated tells that every node has the new CAs, and what to do next.
func (a commands) tellRotated(r *rotation.Rotation, format string) error {
	pin, err := r.Pin()
	if err != nil {
		return err
	}
	if format == "json" {
		return a.PrintJSON(rotatedCA{Parts: r.Parts(), Pin: pin, Holders: append([]rotation.Holder{}, r.Holders...)})
	}
	fmt.Fprintf(a.Out, "every node has the new %s beside the old\n", strings.Join(r.Parts(), ", "))
	if pin != "" {
		fmt.Fprintf(a.Out, "the new CA has the hash %s: make commands for joining, and copies of admin.conf, again\n", pin)
	}
	for _, h := range r.Holders {
		fmt.Fprintf(a.Out, "from before: %s\n", h)
	}
	fmt.Fprintln(a.Out, "forget the old ones with 'sealift certs rotate-ca --finish --restart-workloads'")
	return nil
}

func (a commands) printRotationOfCAs(r *rotation.Rotation, format string) error {
	if format == "json" {
		return a.PrintJSON(map[string]any{"steps": r.Plan(), "parts": r.Parts(), "resumes": r.Resumes, "signed": r.Signed(), "holders": append([]rotation.Holder{}, r.Holders...)})
	}
	if err := a.printSteps(r.Plan()); err != nil {
		return err
	}
	if r.Resumes {
		fmt.Fprintln(a.Out, "\nthis resumes a rotation that was begun before")
	}
	for _, h := range r.Holders {
		fmt.Fprintf(a.Out, "from before: %s\n", h)
	}
	return nil
}
