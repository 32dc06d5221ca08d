package testgrid

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/cli/pods"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

type runOptions struct {
	runner.Options
	hosts   string
	program string
	gate    string
	history string
	values  gridspec.Values
	pods    pods.Options
	format  string
}

func (a commands) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run SPEC... --hosts HOSTS.yaml --store URL --out REPORT",
		Short: "Run tests on hosts, and write a report",
		Long: `Run tests on hosts, and write a report. Each test runs on each system of HOSTS.yaml that it does not refuse: on bare hosts,
from a bundle that is made of the store's packages, or, with --server and without airgap, from a server. Tests run side by side as far as the hosts allow. If an airgap test
sends a packet to another network, it fails.

REPORT is a folder that any web server can serve: index.html, junit.xml, results.tap and results.json. It is also the
journal: run the same command again after a kill, and it goes on. Tests whose input is unchanged do not run again.

With --on kubernetes, the tests run in pods of a cluster: one Job, with an index for each test on each system. The
machines are those of HOSTS.yaml. Packages, files of tests and results are in --store, or the results in --history. If a
pod or this command is killed, nothing is lost: run the same command again.

Exit codes: 0 if all tests passed or were skipped, 1 if one failed or is flaky. With --gate, tests that were broken
before do not count.`,
		Example: `  sealift testgrid run tests.yaml --hosts hosts.yaml --store dist --out report
  sealift testgrid run tests.yaml --hosts hosts.yaml --store dist --out report --test two-nodes --repeat 10
  sealift testgrid run tests.yaml --hosts hosts.yaml --store dist --out report --again failed --keep-failed
  sealift testgrid run tests.yaml --hosts hosts.yaml --store dist --out report --resume --keep-failed
  sealift testgrid run tests.yaml --hosts hosts.yaml --store s3://packages/stable --server https://install.example.com --out report
  sealift testgrid run tests.yaml --hosts hosts.yaml --store s3://packages/stable --out report --on kubernetes --image registry.example.com/sealift:1.0 --secret s3-key`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error { return a.run(cmd.Context(), paths, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.hosts, "hosts", "", "HOSTS.yaml: which machines serve which system")
	flags.StringVar(&o.Store, "store", "", "store with the packages: a folder, its file:// URL, s3://bucket/prefix, or https://host/path")
	addServerFlag(cmd, &o.Server)
	flags.StringVar(&o.Out, "out", "", "folder for the report")
	flags.StringSliceVar(&o.Tests, "test", nil, "run only the test with this ID; may be repeated")
	flags.StringSliceVar(&o.Systems, "system", nil, "run only on this system; may be repeated")
	flags.IntVar(&o.Repeat, "repeat", 1, "run each test so often; one that passes and fails is flaky")
	flags.BoolVar(&o.KeepFailed, "keep-failed", false, "keep the hosts of failed tests")
	flags.BoolVar(&o.Resume, "resume", false, "go on with the kept hosts of failed tests, behind the last step that passed")
	flags.Var(app.NewChoice(&o.Again, []string{runner.AgainFailed, runner.AgainAll}), "again", "run tests again that have ended with the same input: failed or all")
	flags.StringVar(&o.history, "history", "", "store of results, such as s3://bucket/grid or a folder: take over what other machines have finished, and compare with earlier runs")
	flags.StringVar(&o.gate, "gate", "", "results.json of an earlier report: fail only if a test is broken that was not broken there")
	flags.StringVar(&o.program, "program", "", "the sealift that makes bundles (default: the one beside this program, or on the PATH)")
	o.pods.Add(flags, "run", "tests")
	addValueFlags(cmd, &o.values)
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) run(ctx context.Context, paths []string, o runOptions) error {
	for _, flag := range [][2]string{{"--hosts", o.hosts}, {"--store", o.Store}, {"--out", o.Out}} {
		if flag[1] == "" {
			return app.UsageError("%s is missing; see 'sealift testgrid run --help'", flag[0])
		}
	}
	var before []report.Cell
	if o.gate != "" {
		var err error
		if before, err = report.ReadCells(o.gate); err != nil {
			return err
		}
	}
	if o.Resume && o.Again != "" {
		return app.UsageError("--resume goes on with failed tests, and --again begins them from the start; choose one")
	}
	if o.Repeat < 1 {
		return app.UsageError("--repeat must be 1 or more")
	}
	if err := checkServer(o.Server); err != nil {
		return err
	}
	if err := o.checkPods(); err != nil {
		return err
	}
	o.CAs = a.CAs
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return err
	}
	o.Out = out
	if o.history != "" {
		if o.History, err = a.openHistory(o.history, true); err != nil {
			return err
		}
	}
	wrong, err := a.load(paths, &o)
	if err != nil {
		return err
	}
	line, end := watch(ctx, a.Err, report.Folder{Path: o.Out})
	end = sync.OnceFunc(end)
	defer end()
	o.Progress = line
	if o.Hosts, err = machine.Load(o.hosts, machineOptions(o.Progress)); err != nil {
		end()
		return a.mistaken(o.hosts, err)
	}
	if o.pods.On != "" {
		if o.Remote, err = a.coordinator(ctx, o); err != nil {
			return err
		}
	} else if o.Sealift, err = findProgram(o.program, "sealift", "--program"); err != nil {
		return err
	}
	cells, err := runner.Run(ctx, o.Options)
	end()
	if err != nil {
		return err
	}
	err = a.concluded(cells, before, o.Out, o.format)
	if wrong > 0 {
		err = errors.Join(err, fmt.Errorf("%s did not run: the file has mistakes in it", app.Counted(wrong, "test")))
	}
	return err
}

// load reads the files with tests. It returns how many tests have mistakes, which it prints: the others run.
func (a commands) load(paths []string, o *runOptions) (wrong int, err error) {
	for _, path := range paths {
		f, err := gridspec.Load(path, o.values)
		if f == nil || len(f.Tests)+len(f.Systems) == 0 {
			if err != nil {
				return 0, a.mistaken(path, err)
			}
		} else if err != nil {
			fmt.Fprintln(a.Err, err)
			wrong += f.Wrong
		}
		for _, w := range f.Warnings {
			fmt.Fprintln(a.Err, w.Error())
		}
		o.Files = append(o.Files, f)
	}
	return wrong, nil
}

// addServerFlag adds the flag for tests that install over a network.
func addServerFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "server", "", "URL of a 'sealift serve' with the packages of the store: tests without airgap install from it")
}

// checkServer refuses URLs that are not a server's.
func checkServer(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return app.UsageError("--server is not a URL such as https://install.example.com")
	}
	if u.User != nil {
		return app.UsageError("--server %s must not have a name and a password; hosts fetch from it without them", u.Host)
	}
	return nil
}

// machineOptions are this program's inputs of machines.
func machineOptions(progress func(string)) machine.Options {
	connect := func(file string) (*rest.Config, error) { return kubeconfig.InPodOr(file, "", "") }
	return machine.Options{Progress: progress, Connect: connect}
}

// mistaken prints the mistakes of a file, one per line, and counts them in the error.
func (a commands) mistaken(path string, err error) error {
	var mistakes diag.Errors
	if !errors.As(err, &mistakes) {
		return err
	}
	fmt.Fprintln(a.Err, mistakes.Error())
	return fmt.Errorf("%s is not valid: %s", path, app.Counted(len(mistakes), "error"))
}

// concluded prints how the tests ended. Failed and flaky tests make the command fail, unless they were broken before.
func (a commands) concluded(cells, before []report.Cell, out, format string) error {
	counts := report.Count(cells)
	index := filepath.Join(out, "index.html")
	if format == "json" {
		if err := a.PrintJSON(map[string]any{"counts": counts, "report": index, "cells": cells}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Out, "%s; the report is %s\n", counts, index)
	}
	if broken := len(report.NewlyBroken(cells, before)); broken > 0 {
		return fmt.Errorf("%s did not pass", app.Counted(broken, "test"))
	}
	return nil
}
