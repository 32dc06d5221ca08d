// Package node is the commands that run on a node: they check, install, join, report on and reset a host.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

type installOptions struct {
	bundleOptions
	older  bool
	checks install.PreflightOptions
}

func (a commands) installCommand() *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install --bundle FILE | --from URL" + a.withStore(" | -f INSTALLER --store URL") + " [NAME=VALUE...]",
		Short: "Install a Kubernetes node from a bundle",
		Long: `Make this host a Kubernetes node with the add-ons of a bundle. A local bundle is read in place and needs no network.
With --from, the install downloads only the files that the host lacks.
` + a.withStore(`With -f and --store, the install needs no bundle: it reads the Installer's packages in the store. Packages that kURL
built are converted first; the user's cache directory keeps the result. With --key, each package must be signed with
one of the keys.
`) + `
The install first checks the host and reports problems before it changes anything. It shows the Installer's
commands, and the add-on checks that run programs, before it runs them. --plan shows them and runs only Sealift's
own checks.

Every finished step is recorded. If the install is interrupted, run the same command again to resume it. After a
complete install, the same command does nothing.

A newer bundle may add add-ons, and may change options of add-ons that run in the cluster. If it would change the
version of something that runs, the install refuses it before it changes anything, with exit code 3.

The bundle's Installer says what to install. --patch FILE overrides the Installer, and NAME=VALUE overrides both.
NAME=VALUE is one of kURL's flags ('sealift spec flags' lists them) or an option such as
flannel.podCIDR=10.1.0.0/16.`,
		Example: `  sealift install --bundle /media/usb/cluster.tar.gz --plan
  sealift install --bundle /media/usb/cluster.tar.gz --yes
  sealift install --bundle /media/usb/update.tar.gz --base /media/usb/cluster.tar.gz
  sealift install --bundle /media/usb/cluster.tar.gz --patch site.yaml load-balancer-address=10.0.0.9:6443
  sealift install --bundle /media/usb/cluster.tar.gz --yes --enforce-warnings
  sealift install --from https://sealift.example.com/abc1234
  sealift install --from https://sealift.example.com/abc1234 --ca-cert company-ca.pem` + a.withStore(`
  sealift install -f installer.yaml --store /media/usb/packages --plan
  sealift install -f installer.yaml --store 's3://packages/stable?region=eu-central-1' --key vendor.pub`),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := o.take(append(words, a.TrustedWords()...)); err != nil {
				return err
			}
			return a.install(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	addPreflightFlags(cmd, &o.checks)
	o.add(cmd, plannedInstall)
	o.source.addStore(cmd, a)
	flags.BoolVar(&o.older, "allow-downgrade", false, "accept a bundle with older add-ons than this host has, unless they run")
	return cmd
}

// plannedInstall is the output of --plan for an install or a join.
const plannedInstall = "the steps, the state of the host and the commands that would run"

func (a commands) install(ctx context.Context, o installOptions) (err error) {
	if err := o.source.check("install"); err != nil {
		return err
	}
	options, err := o.options(ctx, a)
	if err != nil {
		return err
	}
	options.AllowDowngrade, options.ChooseAddress = o.older, a.addressQuestion(o.Yes || o.Plan)
	in, err := prepare(ctx, options, o.Plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	fmt.Fprintln(a.Err, o.source.trust(in, o.keys))
	return a.carryOut(ctx, in, o)
}

// prepare reads the bundle and this host. A plan is also made for a host that an install refuses: its report says why.
func prepare(ctx context.Context, options install.Options, plan bool) (*install.Install, error) {
	if plan {
		return install.Inspect(ctx, options)
	}
	return install.Prepare(ctx, options)
}

// carryOut prints or runs the prepared plan.
func (a commands) carryOut(ctx context.Context, in *install.Install, o installOptions) error {
	pending := len(in.Pending())
	if !o.Plan {
		for _, line := range in.Kept() {
			fmt.Fprintln(a.Err, line)
		}
		if pending == 0 {
			return change.Print(a.App, o.Flags, change.Result{Document: installed{}, Text: change.Line(a.Out, "nothing to do: all %d steps are finished", len(in.Plan()))})
		}
		if err := a.showExecutions(in, o); err != nil {
			return err
		}
	}
	var record preflight.Record
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "install", Question: fmt.Sprintf("Run %d steps on this host?", pending), Unasked: true,
		Plan: func() (change.Result, error) { return a.installPlan(ctx, in, o) },
		Check: func(ctx context.Context) (err error) {
			record, err = a.checkHost(ctx, in, o.checks)
			return err
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := in.KeepPreflight(record); err != nil {
				return change.Result{}, err
			}
			return a.runInstall(ctx, in, p)
		},
		LogFile: in.LogFile,
		Next: func(ctx context.Context, err error) string {
			return "the steps before are kept; " + nextStep(ctx, err, in.Resume())
		},
	})
}

// showExecutions prints what runs on the host besides the steps, before any of it runs. If that comes from a server, a person at
// a terminal is asked.
func (a commands) showExecutions(in *install.Install, o installOptions) error {
	all := in.Executions(o.checks)
	if len(all) == 0 {
		return nil
	}
	a.printExecutions(all)
	if o.source.remote() && !o.Yes && !a.Confirm("Run them?") {
		return errors.New("not confirmed; nothing was run")
	}
	return nil
}

// installed is what 'install -o json' and 'join -o json' print.
type installed struct {
	Steps   int           `json:"steps"` // that ran
	Seconds float64       `json:"seconds"`
	Log     string        `json:"log,omitempty"`
	Joins   []joinCommand `json:"joinCommands,omitempty"`
}

func (a commands) runInstall(ctx context.Context, in *install.Install, p *change.Progress) (change.Result, error) {
	phases := newPhaseTimes()
	ran, err := in.Run(ctx, func(e lifecycle.Event) {
		phases.add(e)
		printEvent(p, e)
	})
	if err != nil {
		return change.Result{}, err
	}
	took := p.Took(100 * time.Millisecond)
	done := installed{Steps: ran, Seconds: took.Seconds(), Log: in.LogFile()}
	var failed error
	if in.ControlPlane() && !in.Joins() {
		done.Joins, failed = joinCommands(ctx, in.Root)
	}
	return change.Result{Document: done, Failed: failed, Text: func() error {
		phases.print(a.Out)
		fmt.Fprintf(a.Out, "done: %d steps in %s, log %s\n", ran, took, done.Log)
		if !in.ControlPlane() {
			return nil
		}
		fmt.Fprintln(a.Out, "use the cluster with: kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes")
		if advice := hostpath.SudoAdvice(); advice != "" {
			fmt.Fprintln(a.Out, advice)
		}
		if !in.Joins() && failed == nil {
			a.printJoinCommands(done.Joins)
		}
		return nil
	}}, nil
}

// steps prints the steps of an operation as its progress.
func steps(p *change.Progress) func(lifecycle.Event) {
	return func(e lifecycle.Event) { printEvent(p, e) }
}

func printEvent(out io.Writer, e lifecycle.Event) {
	switch {
	case e.Skipped:
	case e.Outcome == lifecycle.Started:
		fmt.Fprintf(out, "[%2d/%d] %s: %s\n", e.Number, e.Total, e.Step.ID, e.Step.Title)
	case e.Outcome == lifecycle.Waiting:
		fmt.Fprintf(out, "[%2d/%d] %s: %s, after %s\n", e.Number, e.Total, e.Step.ID, cmp.Or(e.Note, "goes on"), e.Duration.Round(time.Second))
	case e.Outcome == lifecycle.Finished:
		fmt.Fprintf(out, "[%2d/%d] %s: done in %s\n", e.Number, e.Total, e.Step.ID, e.Duration.Round(10*time.Millisecond))
	case e.Outcome == lifecycle.Failed:
		fmt.Fprintf(out, "[%2d/%d] %s: failed after %s\n", e.Number, e.Total, e.Step.ID, e.Duration.Round(10*time.Millisecond))
	case e.Outcome == lifecycle.Stopped:
		fmt.Fprintf(out, "[%2d/%d] %s: stopped after %s\n", e.Number, e.Total, e.Step.ID, e.Duration.Round(10*time.Millisecond))
	}
}

// phaseTimes notes how long each phase took, from its first start of a step to its last end of one.
type phaseTimes struct {
	order []lifecycle.Phase
	began map[lifecycle.Phase]time.Time
	total map[lifecycle.Phase]time.Duration
}

func newPhaseTimes() *phaseTimes {
	return &phaseTimes{began: map[lifecycle.Phase]time.Time{}, total: map[lifecycle.Phase]time.Duration{}}
}

func (t *phaseTimes) add(e lifecycle.Event) {
	if e.Skipped {
		return
	}
	if _, seen := t.began[e.Step.Phase]; !seen {
		t.order, t.began[e.Step.Phase] = append(t.order, e.Step.Phase), time.Now()
	}
	t.total[e.Step.Phase] = time.Since(t.began[e.Step.Phase])
}

func (t *phaseTimes) print(out io.Writer) {
	for _, phase := range t.order {
		fmt.Fprintf(out, "phase %-9s %s\n", phase, t.total[phase].Round(100*time.Millisecond))
	}
}

// plannedStep is a step of the plan with its state.
type plannedStep struct {
	lifecycle.Step
	Done bool `json:"done"`
}

// installPlan returns the plan, and the refusal of a host that does not fit.
func (a commands) installPlan(ctx context.Context, in *install.Install, o installOptions) (change.Result, error) {
	executions := in.Executions(o.checks)
	o.checks.Runs = install.RunNothing
	report, err := in.Preflight(ctx, o.checks)
	if err != nil {
		return change.Result{}, err
	}
	pending := map[string]bool{}
	for _, s := range in.Pending() {
		pending[s.ID] = true
	}
	steps := []plannedStep{}
	for _, s := range in.Plan() {
		steps = append(steps, plannedStep{s, !pending[s.ID]})
	}
	return change.Result{
		Document: map[string]any{"preflight": report.Results, "steps": steps, "executions": append([]spec.Execution{}, executions...), "kept": append([]string{}, in.Kept()...),
			"hardening": append([]cluster.Setting{}, in.Hardening()...)},
		Text: func() error {
			if err := report.WriteTable(a.Out); err != nil {
				return err
			}
			if err := a.printInstallPlan(steps, in.Kept(), executions); err != nil {
				return err
			}
			return a.printHardening(in.Hardening())
		},
	}, report.Err()
}

func (a commands) printHardening(on []cluster.Setting) error {
	if len(on) == 0 {
		return nil
	}
	lines := []string{"\nthe Installer's hardening or cisCompliance sets:"}
	for _, s := range on {
		lines = append(lines, "  "+s.String())
	}
	_, err := fmt.Fprintln(a.Out, strings.Join(lines, "\n"))
	return err
}

func (a commands) printInstallPlan(steps []plannedStep, kept []string, executions []spec.Execution) error {
	fmt.Fprintln(a.Out)
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	t.Println("PHASE\tSTEP\tSTATE\tWHAT")
	for _, s := range steps {
		state := "to do"
		if s.Done {
			state = "done"
		}
		t.Printf("%s\t%s\t%s\t%s\n", s.Phase, s.ID, state, s.Title)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range kept {
		fmt.Fprintf(a.Out, "\n%s\n", line)
	}
	if len(executions) > 0 {
		fmt.Fprintln(a.Out, "\nbesides the steps, these would run as root on this host; none of them has run:")
	}
	for _, e := range executions {
		fmt.Fprintf(a.Out, "  %s\n", e)
	}
	return nil
}
