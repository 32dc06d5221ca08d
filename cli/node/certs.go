package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/renewal"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) certsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "List the certificates of this node and when they end",
		Long: `List every certificate, pair of keys and kubeconfig of this node: its subject and issuer, its end, the days that are left,
who renews it and when, and who uses it. A control plane also lists the kubeconfigs that 'sealift kubeconfig' has given to people, and the
issuers of kubernetes.oidc with the ends of their CAs and the groups that may do something, while the API answers. 'sealift status' warns three months before the end. A rotation of CAs that is under
way is told at the end; 'sealift certs rotate-ca --plan -o json' has it for programs.`,
		Example: "  sealift certs\n  sealift certs -o json | jq -r '.[] | select(.daysLeft != null and .daysLeft < 90).file'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := pki.List(time.Now())
			if err != nil {
				return err
			}
			all = append(all, a.issuedKubeconfigs(cmd.Context(), time.Now())...)
			all = append(all, a.loginIssuers(cmd.Context(), time.Now())...)
			return a.Print(format, all, func() error {
				return errors.Join(a.printCertificates(all), a.printRotating())
			})
		},
	}
	app.AddOutputFlag(cmd, &format)
	cmd.AddCommand(a.certsRenewCommand(), a.rotateEncryptionCommand(), a.rotateCACommand())
	return cmd
}

type certsRenewOptions struct {
	pki.Options
	change.Flags
}

func (a commands) certsRenewCommand() *cobra.Command {
	var o certsRenewOptions
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Renew the certificates of this node now",
		Long: `On a control plane, renew every certificate and kubeconfig that kubeadm made, for a year, and restart what uses them: the
kubelet, and then static pods one at a time. Keys, names and addresses stay. The API of this control plane is away while etcd and
the API server restart. Run the command on each control plane. It waits while another one renews its certificates or an upgrade
works; with certificates that have ended, or without an API that answers, nobody takes turns: run it on one after the other then.

On a worker that was off for so long that the certificate of its kubelet has ended, the command needs a token of the cluster:
'sealift token create --renew NODE' on a control plane prints the whole command.

The command also works when all certificates have ended. If it is interrupted, run it again: it resumes where it stopped. The
nodes run it by themselves four months before certificates end.`,
		Example: "  sealift certs renew --plan\n  sealift certs renew\n  echo \"$TOKEN\" | sealift certs renew --token -",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.renewCertificates(cmd.Context(), o) },
	}
	addRoot(cmd, &o.Root)
	cmd.Flags().StringVar(&o.Token, "token", "", "token of the cluster, for a worker whose certificate has ended; - reads it from stdin")
	o.Add(cmd, "what would be done")
	return cmd
}

func (a commands) renewCertificates(ctx context.Context, o certsRenewOptions) error {
	if o.Token == "-" { // not in the command line, which others can read
		var read joinOptions
		if err := read.readSecrets(a.In); err != nil {
			return err
		}
		o.Token = read.token
	}
	o.Output = a.ProgramOutput()
	var keeper *renewal.Keeper
	var log string // of the renewal, once it has its turn
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "renew certificates", Question: "Renew the certificates of this node? What uses them restarts.", Unasked: true,
		LogFile: func() string { return log },
		Plan: func() (shown change.Result, err error) {
			err = o.renewal(ctx, func(r *pki.Renewal) error {
				steps, files := r.Plan(), r.Files()
				shown = change.Result{Document: map[string]any{"steps": steps, "renews": files}, Text: func() error { return a.printRenewal(steps, files) }}
				return nil
			})
			return shown, err
		},
		Check: func(context.Context) (err error) {
			keeper, err = renewal.New(o.Root, slog.New(slog.DiscardHandler))
			return err
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			var files []string
			err := keeper.InTurn(ctx, p.Waiting, func(ctx context.Context) error {
				return o.renewal(ctx, func(r *pki.Renewal) error {
					log, files = r.LogFile(), r.Files()
					return r.Run(ctx, steps(p))
				})
			})
			if err != nil {
				return change.Result{}, err
			}
			return change.Result{Document: map[string]any{"renewed": files}, Text: change.Line(a.Out, "%s renewed, log %s", app.Counted(len(files), "certificate"), log)}, nil
		},
		Next: func(context.Context, error) string {
			if log == "" { // it has not begun
				return ""
			}
			return "run 'sealift certs renew' again to go on"
		},
	})
}

// renewal prepares a renewal for do.
func (o certsRenewOptions) renewal(ctx context.Context, do func(*pki.Renewal) error) (err error) {
	r, err := pki.Prepare(ctx, o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return do(r)
}

func (a commands) printRenewal(steps lifecycle.Plan, files []string) error {
	if err := a.printSteps(steps); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "\nrenews %s\n", strings.Join(files, "\nrenews "))
	return err
}

func (a commands) printCertificates(all []pki.Entry) error {
	if len(all) == 0 {
		fmt.Fprintln(a.Err, "this host has no certificates of a cluster; run the command on a node")
	}
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("FILE\tKIND\tSUBJECT\tISSUER\tEND\tDAYS\tRENEWED\tUSED BY\tPROBLEM")
	for _, e := range all {
		end, days := "-", "-"
		if e.End != nil {
			end, days = e.End.UTC().Format(time.DateOnly), strconv.Itoa(*e.Days)
		}
		problem := firstLine(e.Problem)
		if problem == "" && e.Begin != nil {
			problem = e.Why()
		}
		t.Printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.File, e.Kind, e.Subject, e.Issuer, end, days, renewed(e), strings.Join(e.UsedBy, ","), problem)
	}
	return t.Flush()
}

// printRotating reports an unfinished rotation of CAs.
func (a commands) printRotating() error {
	s, ok, err := authority.Read("")
	if err != nil || !ok {
		return err
	}
	fmt.Fprintf(a.Out, "\nrotation of %s since %s, stage %s; next: %s\n", strings.Join(s.Rotated(), ", "), s.ID, s.Stage, s.Next())
	return nil
}

// renewed says when Sealift renews a certificate, or who else does.
func renewed(e pki.Entry) string {
	if e.Renewal != nil {
		return e.Renewal.UTC().Format(time.DateOnly)
	}
	if e.RenewedBy != "" {
		return "by the " + e.RenewedBy
	}
	return "-"
}
