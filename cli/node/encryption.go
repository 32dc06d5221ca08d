package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/operation/keys"
)

type rotateEncryptionOptions struct {
	keys.Options
	change.Flags
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.rotateEncryption(cmd.Context(), o) },
	}
	addRoot(cmd, &o.Root)
	o.Add(cmd, "what would be done")
	return cmd
}

func (a commands) rotateEncryption(ctx context.Context, o rotateEncryptionOptions) (err error) {
	o.Output = a.ProgramOutput()
	r, err := keys.Prepare(ctx, o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	question := "Encrypt all Secrets with a new key?"
	if r.Enables {
		question = "Encrypt all Secrets? API servers are restarted, one at a time."
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "rotate", Question: question, LogFile: r.LogFile, Next: change.Again("certs rotate-encryption"),
		Plan: func() (change.Result, error) {
			return change.Result{
				Document: map[string]any{"steps": r.Plan(), "enables": r.Enables, "resumes": r.Resumes, "key": r.Key, "removes": append([]string{}, r.Old...)},
				Text:     func() error { return a.printRotation(r) },
			}, nil
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := r.Run(ctx, p.Waiting, steps(p)); err != nil {
				return change.Result{}, err
			}
			return change.Result{
				Document: rotated{r.Key, append([]string{}, r.Old...)},
				Text: change.Line(a.Out, "all Secrets are encrypted with %s, log %s\nsave a snapshot now: those from before have the Secrets with the keys from before",
					r.Key, r.LogFile()),
			}, nil
		},
	})
}

// rotated is what 'certs rotate-encryption -o json' prints.
type rotated struct {
	Key     string   `json:"key"`
	Removed []string `json:"removed"` // keys
}

func (a commands) printRotation(r *keys.Rotation) error {
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
