package build

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/manifest"
)

func (a commands) manifestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Check, format and show Manifests",
		Long: `Check, format and show Manifests, which list what add-ons need from outside.

Each PATH is a Manifest, an add-on's directory, or a tree. In a tree, every file called Manifest or *.manifest is
read, except in scripts and below folders called template.`,
		Example: "  sealift manifest lint addons\n  sealift manifest fmt --diff addons/flannel/0.26.7",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.manifestLintCommand(), a.manifestFmtCommand(), a.manifestShowCommand())
	return cmd
}

func (a commands) manifestLintCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "lint PATH...",
		Short: "List every mistake in Manifests",
		Long: `List every mistake in Manifests as file:line:col, all at once.

An error means that no package can be built. Errors give exit code 1. A warning is a probable mistake.

A Manifest has one directive on each line:

  image <id> <reference> [no_remote_load]                        a container image
  asset [<name>] <URL or path>                                   a file
  chart <name> <oci://… or https://…> <version> [--namespace=…]  a Helm chart and the images that it needs
  dockerout <target> <Dockerfile> <version>                      what a Dockerfile writes
  apt, apt24, apt26, yum, yum8, yum9, yum2023, yumol <package>   packages of an operating system, with dependencies`,
		Example: "  sealift manifest lint addons\n  sealift manifest lint addons/flannel/0.26.7/Manifest -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, paths []string) error { return a.lintManifests(paths, format) },
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) lintManifests(paths []string, format string) error {
	files, err := manifest.Find(paths...)
	if err != nil {
		return err
	}
	all := []diag.Finding{}
	for _, path := range files {
		findings, err := manifest.LintFile(path)
		if err != nil {
			return err
		}
		all = append(all, findings...)
	}
	return a.printFindings(all, format, app.Counted(len(files), "Manifest"))
}

// printFindings prints findings. It fails if one of them is an error.
func (a commands) printFindings(all []diag.Finding, format, looked string) error {
	if format == "json" {
		if err := a.PrintJSON(all); err != nil {
			return err
		}
	}
	bad := 0
	for _, finding := range all {
		if format != "json" {
			fmt.Fprintln(a.Out, finding.Error())
		}
		if finding.Severity == diag.Error {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s, %s", looked, app.Counted(bad, "error"))
	}
	if format != "json" {
		fmt.Fprintf(a.Out, "%s, no errors, %s\n", looked, app.Counted(len(all), "warning"))
	}
	return nil
}

type manifestFmtOptions struct {
	check, diff bool
}

func (a commands) manifestFmtCommand() *cobra.Command {
	var o manifestFmtOptions
	cmd := &cobra.Command{
		Use:   "fmt PATH...",
		Short: "Rewrite Manifests in their canonical form",
		Long: `Rewrite Manifests in their canonical form and print the names of those that changed.

Order, comments and blank lines are kept. Words are separated by one space, trailing spaces are removed, and the
last line ends with a newline. A Manifest with unreadable lines is not changed.`,
		Example: "  sealift manifest fmt addons\n  sealift manifest fmt --check addons",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, paths []string) error { return a.formatManifests(paths, o) },
	}
	cmd.Flags().BoolVar(&o.check, "check", false, "change nothing; exit with 1 if a file would change")
	cmd.Flags().BoolVar(&o.diff, "diff", false, "change nothing; print what would change")
	return cmd
}

func (a commands) formatManifests(paths []string, o manifestFmtOptions) error {
	files, err := manifest.Find(paths...)
	if err != nil {
		return err
	}
	var errs []error
	changed := 0
	for _, path := range files {
		different, err := a.formatManifest(path, o)
		if err != nil {
			errs = append(errs, err)
		}
		if different {
			changed++
		}
	}
	if o.check && changed > 0 {
		errs = append(errs, fmt.Errorf("%s not in canonical form; run sealift manifest fmt", app.Counted(changed, "Manifest")))
	}
	return errors.Join(errs...)
}

// formatManifest reports whether the file was not in canonical form.
func (a commands) formatManifest(path string, o manifestFmtOptions) (bool, error) {
	before, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	file, err := manifest.Parse(path, bytes.NewReader(before))
	if err != nil {
		return false, err
	}
	after := file.Format()
	if bytes.Equal(before, after) {
		return false, nil
	}
	if o.diff {
		_, text, _ := bytes.Cut(diff.Diff(path, before, path+" (formatted)", after), []byte("\n")) // without a line that names both files
		_, err := a.Out.Write(text)
		return true, err
	}
	if !o.check {
		if err := file.Save(path); err != nil {
			return true, err
		}
	}
	_, err = fmt.Fprintln(a.Out, path)
	return true, err
}

func (a commands) manifestShowCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "show PATH...",
		Short:   "Print the directives of Manifests",
		Long:    "Print the directives of Manifests, one per row, and the target systems of host packages.",
		Example: "  sealift manifest show addons/kubernetes/1.36.3\n  sealift manifest show addons -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, paths []string) error { return a.showManifests(paths, format) },
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// shownManifest and shownDirective are the JSON of manifest show.
type shownManifest struct {
	Path       string           `json:"path"`
	Directives []shownDirective `json:"directives"`
}

type shownDirective struct {
	Line      int    `json:"line"`
	Directive string `json:"directive"`
	manifest.Description
}

func (a commands) showManifests(paths []string, format string) error {
	files, err := manifest.Find(paths...)
	if err != nil {
		return err
	}
	var errs []error
	shown := []shownManifest{}
	for _, path := range files {
		file, err := manifest.Load(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m := shownManifest{Path: path, Directives: []shownDirective{}}
		for _, d := range file.Directives() {
			m.Directives = append(m.Directives, shownDirective{d.Position().Line, d.Keyword(), d.Describe()})
		}
		shown = append(shown, m)
	}
	if format == "json" {
		errs = append(errs, a.PrintJSON(shown))
	} else {
		errs = append(errs, a.printManifests(shown))
	}
	return errors.Join(errs...)
}

func (a commands) printManifests(shown []shownManifest) error {
	for i, m := range shown {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		fmt.Fprintf(a.Out, "%s\n", m.Path)
		table := plaintext.NewTable(tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0))
		for _, d := range m.Directives {
			from := d.From
			if d.NoRemoteLoad {
				from += " (not on other nodes)"
			}
			table.Printf("  %s\t%s\t%s\n", d.Directive, d.Name, from)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
