package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/keys"
)

type rotateEncryptionOptions struct {
	keys.Options
	plan, yes bool
	format    string
}

func (a commands) rotateEncryptionCommand() *cobra.Command {
	var o rotateEncryptionOptions
	cmd := &cobra.Command{
		Use:   "rotate-encryption",
		Short: "Encrypt the Secrets in etcd with a new key",
		Long: `Make a new key for Secrets, give it to the API servers of all control planes, write all Secrets again, and
remove the old key. In a cluster that does not encrypt Secrets yet, turn that on. Run the command on one control plane.

API servers read a changed file of keys within a minute, without a restart. When encryption is turned on, they are
restarted, one at a time. Every Secret can be read at every moment. If the command is interrupted, run it again, on any
control plane: it resumes where it stopped.

Snapshots from before contain the old key that they need.`,
		Example: "  sealift certs rotate-encryption --plan\n  sealift certs rotate-encryption --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
				o.Output = a.Err
			}
			return refuse(a.rotateEncryption(cmd.Context(), o))
		},
	}
	cmd.Flags().StringVar(&o.Root, "root", node.DefaultRoot, "state folder of the node")
	cmd.Flags().BoolVar(&o.plan, "plan", false, "show what would be done, and change nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) rotateEncryption(ctx context.Context, o rotateEncryptionOptions) (err error) {
	r, err := keys.Prepare(ctx, o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.plan {
		return a.printRotation(r, o.format)
	}
	question := "Encrypt all Secrets with a new key?"
	if r.Enables {
		question = "Encrypt all Secrets? API servers are restarted, one at a time."
	}
	if err := a.agree(o.yes, "rotate", question); err != nil {
		return err
	}
	defer a.tellOfInterruption(ctx)()
	events, waiting := a.eventsOfMany(o.format)
	if err := r.Run(ctx, waiting, func(e lifecycle.Event) { printEvent(events, e) }); err != nil {
		return fmt.Errorf("%w\nlog: %s\nrun 'sealift certs rotate-encryption' again to go on", err, r.LogFile())
	}
	if o.format == "json" {
		return a.PrintJSON(rotated{r.Key, append([]string{}, r.Old...)})
	}
	fmt.Fprintf(a.Out, "all Secrets are encrypted with %s, log %s\n", r.Key, r.LogFile())
	fmt.Fprintln(a.Out, "save a snapshot now: those from before have the Secrets with the keys from before")
	return nil
}

// rotated is what 'certs rotate-encryption -o json' prints.
type rotated struct {
	Key     string   `json:"key"`
	Removed []string `json:"removed"` // keys
}

func (a commands) printRotation(r *keys.Rotation, format string) error {
	if format == "json" {
		return a.PrintJSON(map[string]any{"steps": r.Plan(), "enables": r.Enables, "resumes": r.Resumes, "key": r.Key, "removes": append([]string{}, r.Old...)})
	}
	if err := a.printSteps(r.Plan()); err != nil {
		return err
	}
	if r.Enables {
		fmt.Fprintln(a.Out, "\nSecrets are not encrypted yet: API servers are restarted, one at a time")
	}
	if r.Resumes {
		fmt.Fprintln(a.Out, "\nthis resumes a rotation that was interrupted")
	}
	return nil
}
