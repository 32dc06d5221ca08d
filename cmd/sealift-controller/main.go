// Command sealift-controller runs in a cluster all the time: 'operator' runs hooks, 'fleet' rolls add-ons out over clusters. Called by the name shell-operator, it has
// the commands of operator at the top, as that program has.
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
	if filepath.Base(os.Args[0]) == control.ShellOperatorName {
		command = control.RunShellOperator
	}
	app.Main(command)
}
