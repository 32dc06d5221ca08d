package testgrid

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/testgrid/gridspec"
)

// addValueFlags adds the flags for the placeholders in the tests of kURL's add-ons.
func addValueFlags(cmd *cobra.Command, v *gridspec.Values) {
	cmd.Flags().StringVar(&v.Version, "test-version", "", "what __testver__ stands for (default latest)")
	cmd.Flags().StringVar(&v.Dist, "test-dist", "", "URL that __testdist__ stands for; options with it are left out by default")
}

func (a commands) lintCommand() *cobra.Command {
	var values gridspec.Values
	var format string
	cmd := &cobra.Command{
		Use:   "lint SPEC...",
		Short: "List every mistake in files of tests",
		Long: `List every mistake in files of tests as file:line:col, all at once: wrong keys and values, Installers that cannot be
read, and nodes that a test does not have. Files of kURL's test grid are read as they are; so are its lists of systems.`,
		Example: "  sealift testgrid lint tests.yaml\n  sealift testgrid lint addons/*/template/testgrid/*.yaml -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, paths []string) error {
			lines, mistakes, err := a.lint(paths, values)
			if err != nil {
				return err
			}
			if format == "json" {
				err = a.PrintJSON(lines)
			} else {
				for _, l := range lines {
					fmt.Fprintln(a.Out, l)
				}
			}
			if err == nil && mistakes > 0 {
				err = fmt.Errorf("the tests are not valid: %s", app.Counted(mistakes, "error"))
			}
			return err
		},
	}
	addValueFlags(cmd, &values)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// linted is the output of lint for one file.
type linted struct {
	File     string         `json:"file"`
	Tests    int            `json:"tests"`
	Systems  int            `json:"systems"`
	Findings []diag.Finding `json:"findings"`
}

func (l linted) String() string {
	text := l.File + ": " + app.Counted(l.Tests, "test")
	if l.Systems > 0 {
		text = l.File + ": " + app.Counted(l.Systems, "system")
	}
	if err := diag.Err(l.Findings); err != nil {
		text = err.Error()
	}
	for _, f := range l.Findings {
		if f.Severity == diag.Warning {
			text += "\n" + f.Error()
		}
	}
	return text
}

// lint reads files and counts their mistakes. The error is about a file that cannot be read.
func (a commands) lint(paths []string, v gridspec.Values) (lines []linted, mistakes int, err error) {
	for _, path := range paths {
		f, err := gridspec.Load(path, v)
		var wrong diag.Errors
		l := linted{File: path, Findings: []diag.Finding{}}
		switch {
		case errors.As(err, &wrong):
			l.Findings = wrong
			mistakes += len(wrong)
		case err != nil:
			return nil, 0, err
		default:
			l.Tests, l.Systems, l.Findings = len(f.Tests), len(f.Systems), append(l.Findings, f.Warnings...)
		}
		lines = append(lines, l)
	}
	return lines, mistakes, nil
}

func (a commands) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of a file of tests",
		Long:    "Print the JSON schema (2020-12) of a file of tests, for completion and checks in editors.",
		Example: "  sealift testgrid schema >tests.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := gridspec.Schema()
			if err == nil {
				_, err = a.Out.Write(text)
			}
			return err
		},
	}
}
