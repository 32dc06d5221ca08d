package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/endpoint"
)

type loadBalancerOptions struct {
	endpoint.Options
	plan, yes, here bool
	format          string
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
address of before.

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
			if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
				o.Output = a.Err
			}
			address := strings.Join(args, "")
			switch {
			case address == "" && !o.Finish:
				return app.UsageError("name the address of the new load balancer, such as 10.0.0.9:6443")
			case o.here:
				return refuse(a.followLoadBalancer(cmd.Context(), address, o))
			}
			return refuse(a.loadBalancer(cmd.Context(), address, o))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Root, "root", node.DefaultRoot, "state folder of the node")
	flags.BoolVar(&o.plan, "plan", false, "show what would be done, and change nothing")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.Finish, "finish", false, "take the old load balancer out of the certificates")
	flags.BoolVar(&o.here, "here", false, "change this node alone, which was off while the others changed")
	for _, other := range []string{"plan", "finish"} {
		cmd.MarkFlagsMutuallyExclusive("here", other)
	}
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) followLoadBalancer(ctx context.Context, address string, o loadBalancerOptions) error {
	if err := a.agree(o.yes, "change this node", "Let this node reach the API through "+address+"? Its kubelet is restarted."); err != nil {
		return err
	}
	defer a.tellOfInterruption(ctx)()
	events, _ := a.eventsOfMany(o.format)
	err := endpoint.Follow(ctx, o.Options, address, func(step string) { fmt.Fprintln(events, step) })
	switch {
	case errors.Is(err, endpoint.ErrSame):
		return a.printReaddressed(address, "nothing to do: this node uses it already", o.format)
	case err != nil:
		return forRoot(err)
	}
	return a.printReaddressed(address, "done: this node reaches the API through "+address, o.format)
}

func (a commands) loadBalancer(ctx context.Context, address string, o loadBalancerOptions) (err error) {
	c, err := endpoint.Prepare(ctx, o.Options, address)
	if errors.Is(err, endpoint.ErrSame) {
		return a.printReaddressed(address, "nothing to do: "+err.Error(), o.format)
	}
	if err != nil {
		return fmt.Errorf("%w\nnothing was changed", forRoot(err))
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if o.plan {
		return a.printLoadBalancer(c, o.format)
	}
	question := fmt.Sprintf("Let all nodes reach the API through %s, no longer through %s? Kubelets are restarted, one at a time.", c.To(), c.From())
	if o.Finish {
		question = fmt.Sprintf("Take %s out of the certificates? Kubeconfigs that name it end.", c.From())
	}
	if err := a.agree(o.yes, "change the load balancer", question); err != nil {
		return err
	}
	defer a.tellOfInterruption(ctx)()
	events, waiting := a.eventsOfMany(o.format)
	began := time.Now()
	if err := c.Run(ctx, waiting, func(e lifecycle.Event) { printEvent(events, e) }); err != nil {
		again := c.To()
		if o.Finish {
			again = "--finish"
		}
		return fmt.Errorf("%w\nlog: %s\nrun 'sealift node load-balancer %s' again to go on", err, c.LogFile(), again)
	}
	if o.format == "json" {
		return a.PrintJSON(map[string]any{"from": c.From(), "to": c.To(), "finished": o.Finish || c.Back(), "off": append([]string{}, c.Off...)})
	}
	took := time.Since(began).Round(time.Second)
	if o.Finish {
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

func (a commands) printLoadBalancer(c *endpoint.Change, format string) error {
	if format == "json" {
		return a.PrintJSON(map[string]any{"from": c.From(), "to": c.To(), "resumes": c.Resumes, "back": c.Back(), "off": append([]string{}, c.Off...),
			"files": append([]string{}, c.Files...), "steps": c.Plan()})
	}
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
