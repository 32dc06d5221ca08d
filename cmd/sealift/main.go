// Command sealift carries Kubernetes and its add-ons across an air gap: it builds packages from Manifests, assembles
// them into bundles, and installs them on hosts that have no route out.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	cobra.EnableCommandSorting = false // help has commands in the order in which they are used
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // once is to end in order, twice is to end: a kill at any moment does no harm
	command := run
	if filepath.Base(os.Args[0]) == channelsName {
		command = runChannels
	}
	code := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
