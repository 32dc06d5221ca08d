// Package delegate starts Sealift's separate programs. They are separate so that nodes do not carry what only those programs link.
package delegate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// The programs: one runs tests on hosts, the other runs all the time in a cluster.
const (
	testgridName   = "sealift-testgrid"
	controllerName = "sealift-controller"
)

// Testgrid makes the command testgrid, which becomes sealift-testgrid.
func Testgrid() *cobra.Command {
	return &cobra.Command{
		Use:   "testgrid COMMAND...",
		Short: "Test Installers and add-ons on hosts",
		Long: `Test Installers and add-ons on hosts. This command runs sealift-testgrid with the same arguments. The program must lie
beside sealift or on the PATH; 'make build' makes both.`,
		Example:            "  sealift testgrid lint tests.yaml\n  sealift testgrid lab boot node-1",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return become(testgridName, args) },
		ValidArgsFunction:  completions(testgridName),
	}
}

// Operator makes the command operator, which becomes sealift-controller.
func Operator() *cobra.Command {
	return controller("operator", "Run hooks of shell-operator and modules of addon-operator in a cluster",
		"  sealift operator start --hooks-dir hooks\n  sealift operator queue list")
}

// Fleet makes the command fleet, which becomes sealift-controller.
func Fleet() *cobra.Command {
	return controller("fleet", "Roll add-ons out over many clusters", "  sealift fleet hub --listen 192.0.2.1:9443\n  sealift fleet status")
}

func controller(name, short, example string) *cobra.Command {
	return &cobra.Command{
		Use:   name + " COMMAND...",
		Short: short,
		Long: short + `. This command runs 'sealift-controller ` + name + `'
with the same arguments. The program must lie beside sealift or on the PATH; 'make build' makes both.`,
		Example:            example,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return become(controllerName, append([]string{name}, args...))
		},
		ValidArgsFunction: completions(controllerName, name),
	}
}

// HelpWords turns 'help fleet status' into 'fleet status --help', which the separate program answers. Other command lines are
// not changed.
func HelpWords(args []string) []string {
	if len(args) < 2 || args[0] != "help" {
		return args
	}
	switch args[1] {
	case "testgrid", "operator", "fleet":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// completions asks a program what can follow its words on a command line.
func completions(name string, words ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		path, err := Find(name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		line := slices.Concat([]string{cobra.ShellCompRequestCmd}, words, args, []string{toComplete})
		out, err := exec.CommandContext(cmd.Context(), path, line...).Output()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		last := len(lines) - 1
		directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return lines[:last], cobra.ShellCompDirective(directive)
	}
}

// become replaces this process by a program.
func become(name string, args []string) error {
	path, err := Find(name)
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, append([]string{name}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// Find returns the program beside this one, or else the one on the PATH.
func Find(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", app.WithCode(app.ExitUsage, fmt.Errorf("there is no %s beside this program or on the PATH: %w; 'make build' makes it", name, err))
	}
	return path, nil
}
