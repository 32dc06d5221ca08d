// Command sealift-testgrid runs the lab: throw-away hosts that have no route out, and a mirror of the outside world. Add-ons
// and bundles are tested with it. Customers do not get it.
package main

import (
	"context"
	"io"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/lab"
)

func main() {
	app.Main(func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
		return app.Run(ctx, "sealift-testgrid", lab.Root, args, in, out, errOut)
	})
}
