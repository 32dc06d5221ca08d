package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/diag"
	"github.com/sealift/sealift/spec"
)

func (a *app) specCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spec",
		Short: "Check and show Installers",
		Long: `Check and show Installers, the YAML that says which add-ons at which versions with which options make a cluster.

Both apiVersion sealift.dev/v1 and kURL's cluster.kurl.sh/v1beta1 are read. FILE may be - for standard input.`,
		Example: "  sealift spec validate installer.yaml\n  sealift spec show installer.yaml --variables",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.specValidateCommand(), a.specShowCommand())
	return cmd
}

// loadSpec reads an Installer; - is standard input. Its mistakes are printed, one per line, and counted in the error.
func (a *app) loadSpec(path string) (*spec.Installer, error) {
	var installer *spec.Installer
	var err error
	if path == "-" {
		installer, err = spec.Parse("standard input", a.in)
	} else {
		installer, err = spec.Load(path)
	}
	var mistakes diag.Errors
	if errors.As(err, &mistakes) {
		fmt.Fprintln(a.errOut, mistakes.Error())
		return nil, fmt.Errorf("%s is no valid Installer: %s", path, counted(len(mistakes), "error"))
	}
	return installer, err
}

func (a *app) specValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE",
		Short:   "Name every mistake in an Installer",
		Long:    "Name every mistake in an Installer as file:line:col, all of them in one go. When there is none, say what it installs.",
		Example: "  sealift spec validate installer.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			installer, err := a.loadSpec(args[0])
			if err != nil {
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
			_, err = fmt.Fprintf(a.out, "%s is valid: id %s, %s\n", args[0], id, strings.Join(parts, ", "))
			return err
		},
	}
}

func (a *app) specShowCommand() *cobra.Command {
	var format string
	var variables bool
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print an Installer in its canonical form",
		Long: `Print an Installer in its canonical form, or as JSON with its id.

With --variables print what add-ons' hooks see of it. Every variable is printed, also empty ones; values with anything
but plain characters are quoted.`,
		Example: "  sealift spec show installer.yaml\n  sealift spec show installer.yaml --variables\n  sealift spec show installer.yaml -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			installer, err := a.loadSpec(args[0])
			if err != nil {
				return err
			}
			if variables {
				return a.printVariables(installer.Variables(), format)
			}
			return a.printSpec(installer, format)
		},
	}
	addOutputFlag(cmd, &format)
	cmd.Flags().BoolVar(&variables, "variables", false, "print the variables that hooks see")
	return cmd
}

func (a *app) printSpec(installer *spec.Installer, format string) error {
	if format == "json" {
		id, err := installer.ID()
		if err != nil {
			return err
		}
		return a.printJSON(struct {
			ID string `json:"id"`
			*spec.Installer
		}{id, installer})
	}
	text, err := installer.Canonical()
	if err != nil {
		return err
	}
	_, err = a.out.Write(text)
	return err
}

func (a *app) printVariables(variables []spec.Variable, format string) error {
	if format == "json" {
		return a.printJSON(variables)
	}
	for _, v := range variables {
		value := v.Value
		if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(` "'\$`+"`", r) }) {
			value = strconv.Quote(value)
		}
		if _, err := fmt.Fprintf(a.out, "%s=%s\n", v.Name, value); err != nil {
			return err
		}
	}
	return nil
}
