// Command sealift-controller runs in a cluster all the time: 'operator' runs hooks and modules, 'fleet' rolls add-ons out over
// clusters. Called by the name shell-operator or addon-operator, it has the commands of operator at the top, as these programs
// have.
package main

import (
	"os"
	"path/filepath"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/control"
)

func main() {
	if os.Getpid() == 1 {
		os.Exit(control.RunAsInit(os.Stderr))
	}
	command := control.Run
	switch filepath.Base(os.Args[0]) {
	case control.ShellOperatorName:
		command = control.RunShellOperator
	case control.AddonOperatorName:
		command = control.RunAddonOperator
	}
	app.Main(command)
}
