// Command sealift carries Kubernetes and its add-ons across an air gap: it builds packages from Manifests, assembles
// them into bundles, and installs them on hosts that have no route out.
package main

import (
	"os"
	"path/filepath"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/channel"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sandbox"
)

func main() {
	sandbox.Main(engine.Tasks()...)
	command := run
	if filepath.Base(os.Args[0]) == channel.ChannelsName {
		command = channel.RunChannels
	}
	app.Main(command)
}
