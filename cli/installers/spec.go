// Package installers is the commands for Installers, and how a command line changes an Installer.
package installers

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/spec"
)

func (a commands) specCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spec",
		Short: "Check and show Installers",
		Long: `Check and show Installers: the YAML that lists the add-ons, versions and options of a cluster.

The commands read apiVersion sealift.dev/v1, kURL's cluster.kurl.sh/v1beta1, and its older kurl.sh/v1beta1. FILE can be - for standard input.`,
		Example: "  sealift spec validate installer.yaml\n  sealift spec show installer.yaml --variables\n  sealift spec schema >installer.schema.json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.specValidateCommand(), a.specShowCommand(), a.specUpgradeCommand(), a.specSchemaCommand(), a.specFlagsCommand())
	return cmd
}

// open opens the document of an Installer; - is stdin, unless that is nil. name stands for it in positions.
func open(stdin io.Reader, path string) (in io.ReadCloser, name string, err error) {
	if path == "-" && stdin != nil {
		return io.NopCloser(stdin), "standard input", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("read installer: %w", err)
	}
	return f, path, nil
}

// readSpec reads an Installer; - is standard input.
func (a commands) readSpec(path string) (*spec.Installer, error) {
	return read(a.In, path)
}

func read(stdin io.Reader, path string) (*spec.Installer, error) {
	in, name, err := open(stdin, path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return spec.Parse(name, in)
}

// loadSpec reads an Installer. Its mistakes are printed, one per line, and counted in the error.
func (a commands) loadSpec(path string) (*spec.Installer, error) {
	installer, err := a.readSpec(path)
	if mistakes, ok := errors.AsType[diag.Errors](err); ok {
		fmt.Fprintln(a.Err, mistakes.Error())
		return nil, fmt.Errorf("%s is not a valid Installer: %s%s", path, app.Counted(len(mistakes), "error"), upgradeHint(path, err))
	}
	return installer, err
}

// Load reads the Installer at path; - is stdin, unless that is nil. The error for one with mistakes names the command that corrects what can
// be corrected.
func Load(stdin io.Reader, path string) (*spec.Installer, error) {
	i, err := read(stdin, path)
	if _, ok := errors.AsType[diag.Errors](err); ok {
		return nil, fmt.Errorf("%w%s", err, upgradeHint(path, err))
	}
	return i, err
}

// upgradeHint is the end of an error that refuses an Installer because of err. It is empty if spec upgrade would refuse it, too.
func upgradeHint(path string, err error) string {
	if _, ok := errors.AsType[*spec.UnreadableError](err); ok {
		return ""
	}
	return "; 'sealift spec upgrade " + path + "' writes the nearest one that works"
}

// adjusted reads the Installer that a command line names first, and applies the rest of the command line to it.
func (a commands) adjusted(args []string, changes Adjustment) (*spec.Installer, error) {
	installer, err := a.loadSpec(args[0])
	if err != nil {
		return nil, err
	}
	changes.Take(args[1:])
	return changes.Apply(installer)
}

// findings lists the mistakes of an Installer. hint is the end of an error that refuses it. The error is one of reading it.
func (a commands) findings(args []string, changes Adjustment) (_ []diag.Finding, hint string, err error) {
	installer, err := a.readSpec(args[0])
	if err == nil {
		changes.Take(args[1:])
		installer, err = changes.Apply(installer)
	}
	found := diag.List{}
	var mistakes diag.Errors
	switch {
	case errors.As(err, &mistakes):
		found.Add(mistakes...)
	case err != nil:
		return nil, "", err
	default:
		found.Add(installer.Check()...)
		found.Add(catalog.Check(installer, nil)...)
	}
	return found.Findings(), upgradeHint(args[0], err), nil
}

// printFindings prints the mistakes of an Installer for programs. It fails if one of them is an error.
func (a commands) printFindings(args []string, changes Adjustment) error {
	found, hint, err := a.findings(args, changes)
	if err != nil {
		return err
	}
	if err := a.PrintJSON(append([]diag.Finding{}, found...)); err != nil {
		return err
	}
	if mistakes, ok := errors.AsType[diag.Errors](diag.Err(found)); ok {
		return fmt.Errorf("%s is not a valid Installer: %s%s", args[0], app.Counted(len(mistakes), "error"), hint)
	}
	return nil
}

func (a commands) specValidateCommand() *cobra.Command {
	var format string
	var changes Adjustment
	cmd := &cobra.Command{
		Use:   "validate FILE [NAME=VALUE...]",
		Short: "List every mistake in an Installer",
		Long: `List every mistake in an Installer as file:line:col, all at once: wrong keys and values, add-ons and versions that
do not work together, and, as warnings, options without effect. If there is no mistake, print what the Installer
installs.

--patch and NAME=VALUE are applied first, as in an install.`,
		Example: "  sealift spec validate installer.yaml\n  sealift spec validate installer.yaml --patch site.yaml\n  sealift spec validate installer.yaml -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if format == "json" {
				return a.printFindings(args, changes)
			}
			installer, err := a.adjusted(args, changes)
			if err != nil {
				return err
			}
			if err := CheckTogether(a.Err, args[0], installer); err != nil {
				return err
			}
			id, err := installer.ID()
			if err != nil {
				return err
			}
			var parts []string
			for _, addOn := range installer.AddOns {
				parts = append(parts, addOn.Name+" "+addOn.Version)
			}
			for _, section := range installer.Sections {
				parts = append(parts, "settings of "+section.Key)
			}
			_, err = fmt.Fprintf(a.Out, "%s is valid: id %s, %s\n", args[0], id, strings.Join(parts, ", "))
			return err
		},
	}
	app.AddOutputFlag(cmd, &format)
	changes.Add(cmd)
	return cmd
}

// CheckTogether prints suspicious settings of an Installer, and which of its add-ons conflict. The latter is an error.
func CheckTogether(out io.Writer, name string, i *spec.Installer) error {
	var findings diag.List
	findings.Add(i.Check()...)
	findings.Add(catalog.Check(i, nil)...)
	for _, finding := range findings.Findings() {
		fmt.Fprintln(out, finding.Error())
	}
	if mistakes, ok := errors.AsType[diag.Errors](findings.Err()); ok {
		return fmt.Errorf("%s cannot work: %s%s", name, app.Counted(len(mistakes), "error"), upgradeHint(name, mistakes))
	}
	return nil
}

func (a commands) specShowCommand() *cobra.Command {
	var format string
	var variables bool
	var changes Adjustment
	cmd := &cobra.Command{
		Use:   "show FILE [NAME=VALUE...]",
		Short: "Print an Installer in its canonical form",
		Long: `Print an Installer in its canonical form, or as JSON with its id.

With --variables, print the variables that add-ons' hooks see, including empty ones. Values with special characters
are quoted.

--patch and NAME=VALUE are applied first, as in an install.`,
		Example: `  sealift spec show installer.yaml
  sealift spec show installer.yaml --variables
  sealift spec show installer.yaml --patch site.yaml load-balancer-address=10.0.0.9:6443 flannel.podCIDR=10.1.0.0/16
  sealift spec show installer.yaml -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			installer, err := a.adjusted(args, changes)
			if err != nil {
				return err
			}
			if variables {
				return a.printVariables(installer.Variables(), format)
			}
			return a.printSpec(installer, format)
		},
	}
	app.AddOutputFlag(cmd, &format)
	cmd.Flags().BoolVar(&variables, "variables", false, "print the variables that hooks see")
	changes.Add(cmd)
	return cmd
}

func (a commands) specSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of an Installer",
		Long:    "Print the JSON schema (2020-12) of an Installer, for completion and checks in editors.",
		Example: "  sealift spec schema >installer.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := spec.Schema()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
}

func (a commands) specFlagsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "flags",
		Short: "List the flags of an install that set an option of the Installer",
		Long: `List the flags of an install that set an option of the Installer. Write them as NAME or NAME=VALUE, as for kURL, or
as --NAME VALUE. Every other option is set with KEY.OPTION=VALUE, such as flannel.podCIDR=10.1.0.0/16.`,
		Example: "  sealift spec flags",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format == "json" {
				return a.PrintJSON(spec.Flags())
			}
			t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
			t.Println("FLAG\tSETS\tTO")
			for _, f := range spec.Flags() {
				t.Printf("%s\t%s.%s\t%s\n", f.Name, f.Key, f.Option, cmp.Or(f.Value, "true"))
			}
			return t.Flush()
		},
	}
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) printSpec(installer *spec.Installer, format string) error {
	if format == "json" {
		id, err := installer.ID()
		if err != nil {
			return err
		}
		return a.PrintJSON(struct {
			ID string `json:"id"`
			*spec.Installer
		}{id, installer})
	}
	text, err := installer.Canonical()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

func (a commands) printVariables(variables []spec.Variable, format string) error {
	if format == "json" {
		return a.PrintJSON(variables)
	}
	for _, v := range variables {
		value := v.Value
		if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(` "'\$`+"`", r) }) {
			value = strconv.Quote(value)
		}
		if _, err := fmt.Fprintf(a.Out, "%s=%s\n", v.Name, value); err != nil {
			return err
		}
	}
	return nil
}
