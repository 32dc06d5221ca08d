package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/inspect/metrics"
	"github.com/sealift/sealift/installer/inspect/status"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) statusCommand() *cobra.Command {
	var (
		root, format string
		asRecord     bool
		asMetrics    bool
		rules        string
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of this node, its add-ons and its cluster",
		Long: `Show the state of this node: how far its install came, with the last failure and its log; the add-ons with their
versions and health; services that do not run; certificates that end within three months; the API server; and the nodes
of the cluster. The command also works before there is a cluster, and while the API server does not respond.

A worker sees no other nodes and no health of add-ons. Run 'sealift status' on a control plane for those.

The exit code is 0 if everything is healthy, and 1 otherwise.

With --record, the command prints a record instead: JSON that says what the cluster runs, without secrets. Carry it to
where bundles are made: 'sealift bundle --upgrade-from RECORD.json' leaves out what the cluster has. Run this on a control
plane.

With --metrics, the command prints the state as metrics of Prometheus. The agent of each node writes the same into a folder for
node_exporter. With --alert-rules, it prints the alerts on these metrics and looks at no node: 'file' is a rules file of
Prometheus, 'prometheusrule' an object of the Prometheus operator.`,
		Example: "  sealift status\n  sealift status --record >RECORD.json\n  sealift status -o json | jq -r '.addOns[] | select(.health == \"not ready\").why'\n  sealift status -o json | jq .api.ready\n  sealift status --alert-rules file >sealift-rules.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("alert-rules"):
				return a.alertRules(rules)
			case asRecord:
				return a.record(cmd.Context(), root)
			case asMetrics:
				return a.metrics(cmd.Context(), root)
			}
			return a.status(cmd.Context(), root, format)
		},
	}
	addRoot(cmd, &root)
	cmd.Flags().BoolVar(&asRecord, "record", false, "print what the cluster runs, as JSON for 'sealift bundle --upgrade-from'")
	cmd.Flags().BoolVar(&asMetrics, "metrics", false, "print the state as metrics of Prometheus")
	cmd.Flags().StringVar(&rules, "alert-rules", "", "print the alerts on the metrics: file or prometheusrule")
	cmd.MarkFlagsMutuallyExclusive("record", "metrics", "alert-rules")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// metrics prints the state of this node as the agent writes it.
func (a commands) metrics(ctx context.Context, root string) error {
	s, err := status.Read(ctx, root)
	if err != nil {
		return err
	}
	text, err := metrics.Pass{Status: s, Time: time.Now(), Version: app.CurrentVersion().Version}.Text()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

// alertRules prints the alerts in a form.
func (a commands) alertRules(form string) error {
	write, known := map[string]func() ([]byte, error){"file": metrics.RulesFile, "prometheusrule": metrics.PrometheusRule}[form]
	if !known {
		return app.UsageError("--alert-rules is %q; write file or prometheusrule", form)
	}
	text, err := write()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

// record prints the record of the cluster.
func (a commands) record(ctx context.Context, root string) error {
	r, err := status.Record(ctx, root, app.CurrentVersion().Version)
	if err != nil {
		return err
	}
	text, err := r.Encode()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

func (a commands) status(ctx context.Context, root, format string) error {
	s, err := status.Read(ctx, root)
	if err != nil {
		return err
	}
	err = a.Print(format, s, func() error { return a.printStatus(s) })
	if err == nil && !s.Healthy() {
		trouble := fmt.Sprintf("node %s; cluster: %s", stateText(s.State), s.Cluster)
		if len(s.Stopped) > 0 {
			trouble += "; stopped: " + strings.Join(s.Stopped, ", ")
		}
		for _, one := range s.Settings {
			if one.File == "" {
				trouble += "; " + one.Name + " is " + one.Is
			}
		}
		if len(s.Certificates) > 0 {
			trouble += "; certificates need attention"
		}
		err = errors.New("not all is well: " + trouble)
	}
	return err
}

// stateText says a state of status.Status in words.
func stateText(state string) string {
	if state == "none" {
		return "not installed"
	}
	return state
}

func (a commands) printStatus(s status.Status) error {
	fmt.Fprintf(a.Out, "node     %s", stateText(s.State))
	if s.Steps > 0 {
		fmt.Fprintf(a.Out, ", %d of %d steps finished", s.Finished, s.Steps)
	}
	fmt.Fprintln(a.Out)
	if s.Bundle != "" {
		fmt.Fprintf(a.Out, "bundle   %s\nlog      %s\n", s.Bundle, s.Log)
	}
	for _, step := range s.Open {
		fmt.Fprintf(a.Out, "open     step %s was begun and has not ended\n", step)
	}
	if f := s.Failure; f != nil {
		fmt.Fprintf(a.Out, "failure  step %s, %s, log %s\n         %s\n", f.Step, f.Time.Format(time.RFC3339), f.Log,
			strings.ReplaceAll(strings.TrimSpace(f.Error), "\n", "\n         "))
	}
	if s.Resume != "" {
		fmt.Fprintf(a.Out, "go on    %s\n", s.Resume)
	}
	a.printSystem(s)
	for _, c := range s.Certificates {
		fmt.Fprintf(a.Out, "expiry   %s %s; 'sealift certs' lists all certificates\n", c.File, c.Why())
	}
	if u := s.Undo; u != nil {
		fmt.Fprintf(a.Out, "undo     of the last upgrade, with the other control planes; next: 'sealift upgrade undo' on %s\n", u.Leader)
	}
	if r := s.Rotation; r != nil {
		fmt.Fprintf(a.Out, "rotation of %s since %s; next: %s\n", strings.Join(r.Parts, ", "), r.Since, r.Next)
	}
	if b := s.LoadBalancer; b != nil {
		fmt.Fprintf(a.Out, "balancer %s becomes %s; next: %s\n", b.From, b.To, b.Next)
	}
	for _, u := range s.UnderWay {
		if u.Kind == record.LoadBalancer || u.Kind == record.CAs && s.Rotation != nil {
			continue // reported above
		}
		fmt.Fprintf(a.Out, "change   %s; next: %s\n", u.About, u.Next)
	}
	a.printRecovery(s)
	if at := s.NextRenewal; !at.IsZero() {
		fmt.Fprintf(a.Out, "renewal  of certificates by this node itself: %s\n", at.UTC().Format(time.DateOnly))
	}
	fmt.Fprintf(a.Out, "cluster  %s\n", s.Cluster)
	if s.Sees == "node" {
		fmt.Fprintln(a.Out, "         this worker may see itself alone; for other nodes and the health of add-ons run 'sealift status' on a control plane")
	}
	t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
	if len(s.AddOns) > 0 {
		t.Println("\nADD-ON\tVERSION\tSTATE\tHEALTH\tWHY")
	}
	for _, one := range s.AddOns {
		t.Printf("%s\t%s\t%s\t%s\t%s\n", one.Name, one.Version, one.State, one.Health, firstLine(one.Why))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Nodes) > 0 {
		t.Println("\nNODE\tREADY\tROLES\tVERSION\tADDRESS\tWHY")
	}
	for _, n := range s.Nodes {
		ready := "no"
		if n.Ready {
			ready = "yes"
		}
		t.Printf("%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, ready, strings.Join(n.Roles, ","), n.Version, n.Address, firstLine(n.Why))
	}
	return t.Flush()
}

// printRecovery prints the snapshots of a control plane, the last drill, and disks that are too small for the next upgrade.
func (a commands) printRecovery(s status.Status) {
	if k := s.Snapshots; k != nil {
		text := "none was saved on this node"
		if k.Last != nil {
			text = fmt.Sprintf("the last one is from %s, in %s", k.Last.Time.UTC().Format(time.RFC3339), k.Last.Store)
		}
		if k.Every > 0 {
			text += fmt.Sprintf("; the Installer promises one every %s", time.Duration(k.Every*float64(time.Second)))
		}
		if k.Problem != "" {
			text = k.Problem
		}
		fmt.Fprintf(a.Out, "snapshot %s\n", text)
	}
	if d := s.Drill; d != nil {
		result := "failed"
		if d.Passed {
			result = "passed"
		}
		fmt.Fprintf(a.Out, "drill    %s, of the snapshot from %s: %s\n", d.Time.UTC().Format(time.RFC3339), d.Snapshot.UTC().Format(time.RFC3339), result)
	}
	for _, one := range s.Space {
		if one.Short() {
			fmt.Fprintf(a.Out, "space    %s has %s left, and an upgrade with a bundle as large as the installed one takes %s\n",
				one.Path, app.FormatBytes(int64(one.Free)), app.FormatBytes(int64(one.Needed)))
		}
	}
}

// printSystem prints what of the host itself is not as the node needs it.
func (a commands) printSystem(s status.Status) {
	for _, unit := range s.Stopped {
		fmt.Fprintf(a.Out, "stopped  %s; journalctl -u %s tells why, systemctl start %s starts it\n", unit, unit, unit)
	}
	for _, one := range s.Settings {
		if one.File == "" {
			fmt.Fprintf(a.Out, "kernel   %s is %s, and pods need 1; 'systemctl restart kubelet' sets it\n", one.Name, one.Is)
		} else {
			fmt.Fprintf(a.Out, "kernel   %s sets %s = %s; take the line out, or 'sysctl --system' cuts pods off\n", one.File, one.Name, one.Is)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
