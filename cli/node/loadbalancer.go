package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/operation/endpoint"
)

type loadBalancerOptions struct {
	endpoint.Options
	change.Flags
	here bool
}

func (a commands) loadBalancerCommand() *cobra.Command {
	var o loadBalancerOptions
	cmd := &cobra.Command{
		Use:   "load-balancer [ADDRESS[:PORT]]",
		Short: "Give the API of the cluster another load balancer",
		Long: `Let all nodes of a cluster reach its API through another load balancer, which runs already: an address or a name, on
port 6443 if you name none. Run the command as root on one control plane. The old load balancer may still be there.

Every API server gets a certificate for both, without a restart, and every node tries the new one. If a node fails, nothing
uses it yet. Then one node after the other changes its kubeconfigs and restarts its kubelet. A node that does not work
through the new load balancer in time takes that back, and the command stops and says why. At the end the configuration in
the cluster changes, and kube-proxy starts again.

If the command is interrupted, run it again on any control plane: it goes on. To take the change back, run it with the
previous address.

--finish takes the old name out of the certificates. Until then, kubeconfigs that you have copied elsewhere go on working
with the old load balancer.

A worker that is off keeps the old one. When it is back, run the command again, or run it on that worker with --here.
A cluster without a load balancer needs none of this.`,
		Example: `  sealift node load-balancer 10.0.0.9 --plan
  sealift node load-balancer api.example.com:6443 --yes
  sealift node load-balancer --finish
  sealift node load-balancer 10.0.0.9 --here   # on a worker that was off meanwhile`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Output = a.ProgramOutput()
			address := strings.Join(args, "")
			switch {
			case address == "" && !o.Finish:
				return app.UsageError("name the address of the new load balancer, such as 10.0.0.9:6443")
			case o.here:
				return a.followLoadBalancer(cmd.Context(), address, o)
			}
			return a.loadBalancer(cmd.Context(), address, o)
		},
	}
	flags := cmd.Flags()
	addRoot(cmd, &o.Root)
	flags.BoolVar(&o.Finish, "finish", false, "take the old load balancer out of the certificates")
	flags.BoolVar(&o.here, "here", false, "change this node alone, which was off while the others changed")
	o.Add(cmd, "what would be done")
	for _, other := range []string{"plan", "finish"} {
		cmd.MarkFlagsMutuallyExclusive("here", other)
	}
	return cmd
}

func (a commands) followLoadBalancer(ctx context.Context, address string, o loadBalancerOptions) error {
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "change this node", Question: "Let this node reach the API through " + address + "? Its kubelet is restarted.", Next: change.Nothing,
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			err := endpoint.Follow(ctx, o.Options, address, p.Line)
			switch {
			case errors.Is(err, endpoint.ErrSame):
				return a.readdressed(address, "nothing to do: this node uses it already"), nil
			case err != nil:
				return change.Result{}, err
			}
			return a.readdressed(address, "done: this node reaches the API through "+address), nil
		},
	})
}

func (a commands) loadBalancer(ctx context.Context, address string, o loadBalancerOptions) (err error) {
	c, err := endpoint.Prepare(ctx, o.Options, address)
	if errors.Is(err, endpoint.ErrSame) {
		return change.Print(a.App, o.Flags, a.readdressed(address, "nothing to do: "+err.Error()))
	}
	if err != nil {
		return change.Unchanged(err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	question, again := fmt.Sprintf("Let all nodes reach the API through %s, no longer through %s? Kubelets are restarted, one at a time.", c.To(), c.From()), c.To()
	if o.Finish {
		question, again = fmt.Sprintf("Take %s out of the certificates? Kubeconfigs that name it end.", c.From()), "--finish"
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "change the load balancer", Question: question, LogFile: c.LogFile, Next: change.Again("node load-balancer " + again),
		Plan: func() (change.Result, error) {
			return change.Result{Document: map[string]any{
				"from": c.From(), "to": c.To(), "resumes": c.Resumes, "back": c.Back(), "off": append([]string{}, c.Off...), "files": append([]string{}, c.Files...), "steps": c.Plan(),
			}, Text: func() error { return a.printLoadBalancer(c) }}, nil
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := c.Run(ctx, p.Waiting, steps(p)); err != nil {
				return change.Result{}, err
			}
			took := p.Took(time.Second)
			return change.Result{
				Document: map[string]any{"from": c.From(), "to": c.To(), "finished": o.Finish || c.Back(), "off": append([]string{}, c.Off...)},
				Text:     func() error { return a.printBalanced(c, o.Finish, took) },
			}, nil
		},
	})
}

// printBalanced prints what was changed, and what is left to do.
func (a commands) printBalanced(c *endpoint.Change, finish bool, took time.Duration) error {
	if finish {
		fmt.Fprintf(a.Out, "done: the certificates name %s alone, in %s; log %s\n", c.To(), took, c.LogFile())
		return nil
	}
	fmt.Fprintf(a.Out, "done: the nodes reach the API through %s, in %s; log %s\n", c.To(), took, c.LogFile())
	for _, name := range c.Off {
		fmt.Fprintf(a.Out, "node %s is off, and keeps %s: when it is back, run 'sealift node load-balancer %s --here' on it\n", name, c.From(), c.To())
	}
	if !c.Back() {
		fmt.Fprintf(a.Out, "when nobody needs %s any more, run 'sealift node load-balancer --finish'\n", c.From())
	}
	return nil
}

func (a commands) printLoadBalancer(c *endpoint.Change) error {
	fmt.Fprintf(a.Out, "from %s to %s\n", c.From(), c.To())
	if c.Back() {
		fmt.Fprintln(a.Out, "this takes an earlier change back")
	}
	if c.Resumes {
		fmt.Fprintln(a.Out, "this goes on with a change that was begun before")
	}
	for _, name := range c.Off {
		fmt.Fprintf(a.Out, "node %s is off, and takes no part\n", name)
	}
	for _, name := range c.Files {
		fmt.Fprintf(a.Out, "  changes %s on this node\n", name)
	}
	fmt.Fprintln(a.Out)
	return a.printSteps(c.Plan())
}
