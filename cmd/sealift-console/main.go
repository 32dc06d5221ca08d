// Command sealift-console serves the console of a control plane: web pages that say what is wrong and what to do about it. It runs the
// node's sealift for what it shows and does, so that it works while the cluster is down.
package main

import (
	"context"
	"io"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/console"
)

func main() {
	app.Main(func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
		return app.Run(ctx, "sealift-console", console.Root, args, in, out, errOut)
	})
}
