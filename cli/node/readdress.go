package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/operation/readdress"
)

type readdressOptions struct {
	readdress.Options
	change.Flags
	api bool
}

func (a commands) nodeReaddressCommand() *cobra.Command {
	var o readdressOptions
	cmd := &cobra.Command{
		Use:   "readdress ADDRESS",
		Short: "Give this node another address",
		Long: `Give this node another address. Run the command as root on the node. An interface of the host must have the new
address already, or get it soon (--before). The old address may still be there, or be gone: so the command also
repairs a control plane that was moved to another network, whose etcd and API server no longer start.

On a control plane, the command changes the certificates, the member of etcd, the static pods, the kubeconfigs, the
kubelet, the list of API servers, and the cluster's configuration. On a worker, it changes the kubelet. It changes no
interface.

If the node does not work at the new address in time, the command takes everything back. If it is interrupted, run the
same command again to finish it.

The other nodes ask the cluster where its API servers are. If the only control plane lost its old address before they
could ask, run the command with --api and the new address of the control plane on each of them.`,
		Example: `  sealift node readdress 10.0.0.7 --plan
  sealift node readdress 10.0.0.7 --yes
  sealift node readdress 10.0.0.7 --before   # the host is about to move
  sealift node readdress 10.0.0.7 --api      # on a worker: the control plane has this address now`,
		Args: cobra.MatchAll(cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
			_, err := readdress.Parse(args[0])
			return err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && o.Timeout <= 0 {
				return app.UsageError("--timeout %s: give it a time such as 2m", o.Timeout)
			}
			o.Output = a.ProgramOutput()
			if o.api {
				return a.nodeReachAPI(cmd.Context(), args[0], o)
			}
			return a.nodeReaddress(cmd.Context(), args[0], o)
		},
	}
	flags := cmd.Flags()
	addRoot(cmd, &o.Root)
	flags.DurationVar(&o.Timeout, "timeout", 0, fmt.Sprintf("time until the node works at its new address, or has the old one again (default %s, longer on a slow host)", readdress.DefaultTimeout))
	flags.BoolVar(&o.Before, "before", false, "the host gets ADDRESS later: change the address of the node by itself then")
	flags.BoolVar(&o.api, "api", false, "leave this node its address; the API is at ADDRESS now")
	o.Add(cmd, "what would be changed")
	cmd.MarkFlagsMutuallyExclusive("api", "plan")
	cmd.MarkFlagsMutuallyExclusive("api", "before")
	return cmd
}

func (a commands) nodeReachAPI(ctx context.Context, address string, o readdressOptions) error {
	if err := readdress.ReachAPI(ctx, o.Options, address); err != nil {
		return err
	}
	return change.Print(a.App, o.Flags, a.readdressed(address, "done: this node reaches the API at "+address))
}

func (a commands) nodeReaddress(ctx context.Context, address string, o readdressOptions) (err error) {
	r, err := readdress.Prepare(ctx, o.Options, address)
	if errors.Is(err, readdress.ErrSame) {
		if !o.Plan {
			if err := readdress.Forget(o.Root); err != nil {
				return err
			}
		}
		return change.Print(a.App, o.Flags, a.readdressed(address, "nothing to do: "+err.Error()))
	}
	if err != nil {
		return change.Unchanged(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "change the address", Question: fmt.Sprintf("Change the address of node %s from %s to %s?", r.Node, r.From, r.To), Unasked: true,
		Plan: func() (change.Result, error) { return a.readdressPlan(r), nil },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if o.Before {
				if err := r.Schedule(); err != nil {
					return change.Result{}, err
				}
				return a.readdressed(address, fmt.Sprintf("node %s changes its address to %s by itself when an interface has it; to forget that, run 'sealift node readdress %s'", r.Node, r.To, r.From)), nil
			}
			if err := r.Run(ctx, steps(p)); err != nil {
				return change.Result{}, err
			}
			return a.readdressed(r.To.String(), fmt.Sprintf("done: node %s has the address %s, in %s; log %s", r.Node, r.To, p.Took(time.Second), r.LogFile())), nil
		},
		LogFile: r.LogFile,
		Next: func(_ context.Context, err error) string {
			if _, ok := errors.AsType[*readdress.TakenBackError](err); ok {
				return ""
			}
			return fmt.Sprintf("run 'sealift node readdress %s' again to go on", r.To)
		},
	})
}

// readdressed is the result of a new address.
func (a commands) readdressed(address, line string) change.Result {
	return change.Result{Document: map[string]any{"address": address}, Text: change.Line(a.Out, "%s", line)}
}

func (a commands) readdressPlan(r *readdress.Readdress) change.Result {
	resumes, back := r.Resumes()
	return change.Result{Document: map[string]any{
		"node": r.Node, "controlPlane": r.ControlPlane, "otherControlPlanes": r.Others, "from": r.From, "to": r.To, "interface": r.Link,
		"files": r.Edits, "certificates": append([]string{}, r.Certificates...), "notes": r.Notes, "steps": r.Plan(), "resumes": resumes, "goesBack": back,
	}, Text: func() error { return a.printReaddress(r) }}
}

func (a commands) printReaddress(r *readdress.Readdress) error {
	fmt.Fprintf(a.Out, "node %s: from %s to %s\n", r.Node, r.From, r.To)
	if resumes, back := r.Resumes(); back {
		fmt.Fprintln(a.Out, "an earlier run was interrupted; this one goes back to the old address")
	} else if resumes {
		fmt.Fprintln(a.Out, "an earlier run was interrupted; this one goes on with it")
	}
	for _, note := range r.Notes {
		fmt.Fprintln(a.Out, note)
	}
	for _, e := range r.Edits {
		fmt.Fprintf(a.Out, "  changes %s in %s\n", e.File, app.Counted(e.Places, "place"))
	}
	for _, name := range r.Certificates {
		fmt.Fprintf(a.Out, "  issues %s again\n", name)
	}
	fmt.Fprintln(a.Out)
	return a.printSteps(r.Plan())
}
