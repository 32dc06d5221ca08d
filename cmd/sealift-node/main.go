// Command sealift-node is the sealift of nodes, where it is called sealift: it installs, joins, reports on and resets a host. What
// builds, carries and serves is not in it, so that a bundle stays small.
package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/channel"
	"github.com/sealift/sealift/cli/node"
)

func main() {
	command := func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
		return app.Run(ctx, "sealift", node.Root, args, in, out, errOut)
	}
	if filepath.Base(os.Args[0]) == channel.ChannelsName {
		command = channel.RunChannels
	}
	app.Main(command)
}
