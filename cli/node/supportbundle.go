package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/inspect/support"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/preflight"
)

func (a commands) supportBundleCommand() *cobra.Command {
	var (
		out, root, format string
		specs             []string
	)
	cmd := &cobra.Command{
		Use:   "support-bundle [--out FILE]",
		Short: "Collect diagnostic data of this node in an archive",
		Long: `Collect diagnostic data about this node in one archive for a support engineer: the journal and the logs of installs,
the state of the host and its services, the logs of pods, and what the add-ons' troubleshoot.yaml request. With --spec,
it also collects what a SupportBundle of Troubleshoot requests, and applies the Redactors in the file; read such a file
first, as it may run programs.

The command works on a half-installed node and without an API server. It masks keys, tokens and passwords. Even so,
review the archive before you send it. The command sends nothing itself.`,
		Example: `  sealift support-bundle --out /tmp/support.tar.gz
  sealift support-bundle --spec application.yaml
  sealift support-bundle -o json | jq '.results[] | select(.status == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.supportBundle(cmd.Context(), out, root, format, specs)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the archive to write (default support-bundle-HOST-TIME.tar.gz here)")
	addRoot(cmd, &root)
	cmd.Flags().StringArrayVar(&specs, "spec", nil, "file with a SupportBundle of Troubleshoot; may be repeated")
	app.AddOutputFlag(cmd, &format)
	_ = cmd.MarkFlagFilename("out")
	_ = cmd.MarkFlagFilename("spec", "yaml", "yml")
	return cmd
}

func (a commands) supportBundle(ctx context.Context, out, root, format string, files []string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can read logs and the state of services; %s", hostpath.WithSudo())
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	var specs []support.Spec
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// A Secret may have it encoded, under Troubleshoot's key.
		if !bytes.Contains(text, []byte("SupportBundle")) && !bytes.Contains(text, []byte("support-bundle-spec")) {
			return fmt.Errorf("%s has no SupportBundle of Troubleshoot; nothing was collected", file)
		}
		specs = append(specs, support.Spec{Name: file, Text: text})
	}
	if out == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		out = fmt.Sprintf("support-bundle-%s-%s.tar.gz", host, time.Now().UTC().Format("20060102T150405Z"))
	}
	program, err := install.FindProgram(root, filepath.Dir(binary))
	if err != nil {
		fmt.Fprintln(a.Err, err)
	}
	summary, err := support.Write(ctx, out, support.Options{
		Root: root, StateDir: node.StateDir(root), LogDir: node.DefaultLogDir,
		Program: program, Specs: specs, Version: app.CurrentVersion().Version, Log: a.Log,
	})
	if err != nil {
		return err
	}
	return a.Print(format, summary, func() error { return a.printCollected(summary) })
}

// printCollected prints what the archive has, and what it lacks.
func (a commands) printCollected(summary support.Summary) error {
	for _, missing := range summary.Errors {
		fmt.Fprintf(a.Err, "not collected: %s\n", missing)
	}
	for _, r := range summary.Results {
		if r.Status != preflight.Pass {
			fmt.Fprintf(a.Out, "%s: %s\n", r.Status, r)
		}
	}
	fmt.Fprintf(a.Out, "wrote %s: %d files, %s; look through it before you send it\n", summary.File, summary.Files, app.FormatBytes(summary.Size))
	return nil
}
