package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/operation/rotation"
)

type rotateCAOptions struct {
	rotation.Options
	change.Flags
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
know only the old ones. Restart them yourself, or give --restart-workloads. Tokens in Secrets are recreated.

If the command is interrupted, run it again: it resumes where it stopped. Until the end, upgrades and joins of control planes
are refused.

Commands for joining, copies of admin.conf and snapshots from before belong to the old CAs. Make them again.`,
		Example: "  sealift certs rotate-ca --plan\n  sealift certs rotate-ca --yes\n  sealift certs rotate-ca --finish --restart-workloads --yes",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.rotateCA(cmd.Context(), o) },
	}
	addRoot(cmd, &o.Root)
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "rotate only these: "+strings.Join(authority.Names(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(authority.Names(), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&o.Finish, "finish", false, "forget the old CAs and the old key")
	cmd.Flags().BoolVar(&o.Restart, "restart-workloads", false, "with --finish: restart the workloads from before the new CAs")
	o.Add(cmd, "what would be done")
	return cmd
}

func (a commands) rotateCA(ctx context.Context, o rotateCAOptions) (err error) {
	if o.Restart && !o.Finish {
		return app.UsageError("--restart-workloads needs --finish")
	}
	o.Output = a.ProgramOutput()
	r, err := rotation.Prepare(ctx, o.Options)
	if errors.Is(err, rotation.ErrNoPart) {
		return app.WithCode(app.ExitUsage, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if !o.Plan && r.Signed() && !o.Finish {
		done, err := a.signed(r)
		if err != nil {
			return err
		}
		return change.Print(a.App, o.Flags, done)
	}
	question, words := "Give every node new CAs? Static pods are restarted, on one control plane at a time.", "certs rotate-ca"
	if o.Finish {
		question, words = "Forget the old CAs? Certificates and tokens from before end.", words+" --finish"
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "rotate", Question: question, LogFile: r.LogFile, Next: change.Again(words),
		Check: func(context.Context) error { return r.Check() },
		Plan: func() (change.Result, error) {
			return change.Result{
				Document: map[string]any{"steps": r.Plan(), "parts": r.Parts(), "resumes": r.Resumes, "signed": r.Signed(), "holders": append([]rotation.Holder{}, r.Holders...)},
				Text:     func() error { return a.printRotationOfCAs(r) },
			}, nil
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := r.Run(ctx, p.Waiting, steps(p)); err != nil {
				return change.Result{}, err
			}
			if !o.Finish {
				return a.signed(r)
			}
			return change.Result{
				Document: rotatedCA{Parts: r.Parts(), Finished: true, Holders: []rotation.Holder{}},
				Text: change.Line(a.Out, "nothing of the old %s is left, log %s\nsave a snapshot now: those from before have the old ones",
					strings.Join(r.Parts(), ", "), r.LogFile()),
			}, nil
		},
	})
}

// rotatedCA is what 'certs rotate-ca -o json' prints.
type rotatedCA struct {
	Parts    []string `json:"parts"`
	Pin      string   `json:"pin,omitempty"` // of the new cluster CA
	Finished bool     `json:"finished"`
	// Holders may know only the old CAs.
	Holders []rotation.Holder `json:"holders"`
}

// signed is the result of the first part: every node has the new CAs.
func (a commands) signed(r *rotation.Rotation) (change.Result, error) {
	pin, err := r.Pin()
	if err != nil {
		return change.Result{}, err
	}
	return change.Result{
		Document: rotatedCA{Parts: r.Parts(), Pin: pin, Holders: append([]rotation.Holder{}, r.Holders...)},
		Text:     func() error { return a.printSigned(r, pin) },
	}, nil
}

// printSigned prints what every node has, and what to do next.
func (a commands) printSigned(r *rotation.Rotation, pin string) error {
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

func (a commands) printRotationOfCAs(r *rotation.Rotation) error {
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
