package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// Assembler opens the bundle of the Installer that is in a file, with packages of a store. One of the keys must have signed each
// package, if there are any.
type Assembler func(ctx context.Context, file string, i *spec.Installer, stored store.Store, keys []signature.PublicKey) (*bundle.Archive, error)

// commands makes and runs the commands of this package.
type commands struct {
	*app.App
	assemble Assembler // nil if this program can assemble no bundles
}

// addRoot adds the flag for the state folder of the node.
func addRoot(cmd *cobra.Command, root *string) {
	cmd.Flags().StringVar(root, "root", node.DefaultRoot, "state folder of the node")
}

// withStore returns a part of a help text that is about stores of packages, if this program can use one.
func (a commands) withStore(text string) string {
	if a.assemble == nil {
		return ""
	}
	return text
}

// Commands makes the commands for a node, in the order in which they are used. Without an Assembler they accept only bundles.
func Commands(a *app.App, assemble Assembler) []*cobra.Command {
	c := commands{a, assemble}
	return onHost(a,
		c.preflightCommand(), c.installCommand(), c.tokenCommand(), c.joinCommand(), c.statusCommand(), c.adoptCommand(), c.upgradeCommand(), c.journalCommand(),
		c.certsCommand(), c.kubeconfigCommand(), c.snapshotCommand(), c.restoreCommand(), c.supportBundleCommand(), c.imagesCommand(), c.nodeCommand(), c.resetCommand(),
	)
}

// refuse gives what preflight checks and the policies of the host refuse its exit code.
func refuse(err error) error {
	_, unfit := errors.AsType[*preflight.RefusedError](err)
	_, forbidden := errors.AsType[*bundlepolicy.RefusedError](err)
	if unfit || forbidden {
		return app.WithCode(app.ExitRefused, err)
	}
	return err
}

// forRoot adds to a refusal of the system what to do: what a node keeps is for root alone.
func forRoot(err error) error {
	advice := hostpath.WithSudo()
	switch {
	case !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), advice):
		return err
	case strings.Contains(err.Error(), "\n"):
		return fmt.Errorf("%w\n%s", err, advice)
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// withAdvice adds to an error that names commands of sealift how to type them on this host.
func withAdvice(err error) error {
	if err == nil {
		return nil
	}
	if advice := hostpath.NameAdvice(err.Error()); advice != "" {
		return fmt.Errorf("%w\n%s", err, advice)
	}
	return err
}

// Hook makes the command hook, by which programs of hooks call sealift.
func Hook(a *app.App) *cobra.Command { return onHost(a, commands{App: a}.hookCommand())[0] }

// sharedUmask is the mask with which packages, hooks and tools expect to create files. Files with secrets have private modes.
const sharedUmask = 0o022

// onHost gives commands and all commands below them the PATH of the host before they run, a folder for temporary files that exists, and the
// usual mask for new files; and their errors the exit code of refusals, and the path of sealift if sudo does not find it by its name. The shell that starts sealift can have a PATH without the folders of containerd, kubeadm, or ldconfig, and a
// mask with which no service but root's can read what hooks and packages write.
func onHost(a *app.App, list ...*cobra.Command) []*cobra.Command {
	for _, c := range list {
		c.PreRunE = func(*cobra.Command, []string) error {
			syscall.Umask(sharedUmask)
			lost, err := hostpath.Temporary()
			if err == nil && lost != "" {
				fmt.Fprintf(a.Err, "warning: there is no folder %s, which TMPDIR names; temporary files go to %s\n", lost, os.TempDir())
			}
			return errors.Join(err, hostpath.Extend())
		}
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				err := refuse(run(cmd, args))
				if os.Geteuid() != 0 {
					err = forRoot(err)
				}
				return withAdvice(err)
			}
		}
		onHost(a, c.Commands()...)
	}
	return list
}
