// Package sister starts Sealift's separate programs. They are separate so that nodes do not carry what only those programs link.
package sister

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	}
}

// Operator makes the command operator, which becomes sealift-controller.
func Operator() *cobra.Command {
	return &cobra.Command{
		Use:   "operator COMMAND...",
		Short: "Run hooks of shell-operator and modules of addon-operator in a cluster",
		Long: `Run hooks of shell-operator and modules of addon-operator in a cluster. This command runs 'sealift-controller operator'
with the same arguments. The program must lie beside sealift or on the PATH; 'make build' makes both.`,
		Example:            "  sealift operator start --hooks-dir hooks\n  sealift operator queue list",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return become(controllerName, append([]string{"operator"}, args...))
		},
	}
}

// Fleet makes the command fleet, which becomes sealift-controller.
func Fleet() *cobra.Command {
	return &cobra.Command{
		Use:   "fleet COMMAND...",
		Short: "Roll add-ons out over many clusters",
		Long: `Roll add-ons out over many clusters. This command runs 'sealift-controller fleet' with the same arguments. The program
must lie beside sealift or on the PATH; 'make build' makes both.`,
		Example:            "  sealift fleet hub --listen 192.0.2.1:9443\n  sealift fleet status",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return become(controllerName, append([]string{"fleet"}, args...))
		},
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

// Find returns the program that lies beside this one, or else the one on the PATH.
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
