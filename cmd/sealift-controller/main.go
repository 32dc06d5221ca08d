// Command sealift-controller runs in a cluster all the time: 'operator' runs hooks and modules, 'fleet' rolls add-ons out over
// clusters. Called by the name shell-operator or addon-operator, it has the commands of operator at the top, as these programs
// have.
package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/operator"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/sandbox"
)

func main() {
	sandbox.Main(slices.Concat(engine.Tasks(), values.Tasks(), source.Tasks())...)
	if os.Getpid() == 1 {
		os.Exit(operator.RunAsInit(os.Stderr))
	}
	command := operator.Run
	switch filepath.Base(os.Args[0]) {
	case operator.ShellOperatorName:
		command = operator.RunShellOperator
	case operator.AddonOperatorName:
		command = operator.RunAddonOperator
	}
	app.Main(command)
}
