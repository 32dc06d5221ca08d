package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/kurl"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/store"
)

// hostPlatform is this machine's.
const hostPlatform = runtime.GOOS + "/" + runtime.GOARCH

// programFlags are the flags that choose the programs for nodes.
type programFlags struct {
	sealift, preflight, console, platform string
}

func (p *programFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.sealift, "sealift", "", "the sealift for the nodes (default: the "+nodeProgram+" beside this program)")
	flags.StringVar(&p.preflight, "sealift-preflight", "", "the sealift-preflight for the nodes, or "+noPreflight+" (default: the one beside the sealift for the nodes, if something in the bundle uses it)")
	flags.StringVar(&p.console, "sealift-console", "", "the sealift-console for the control planes; without this flag they get none")
	flags.StringVar(&p.platform, "platform", hostPlatform, "the platform of the nodes, and of --sealift")
	for _, name := range []string{"sealift", "sealift-preflight", "sealift-console"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// programs are the programs that nodes get in addition to packages.
type programs struct {
	sealift   *bundle.Member
	preflight *bundle.Member // nil when there is none
	console   *bundle.Member // nil when there is none
}

// noPreflight as the name of the sealift-preflight leaves it out of every bundle.
const noPreflight = "none"

// nodeProgram is the file name of the sealift for nodes, which is smaller than the running one.
const nodeProgram = "sealift-node"

// nodeSealift finds the sealift for the nodes: the named one, or else the one beside this program.
func nodeSealift(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), nodeProgram)
	if _, err := os.Stat(beside); err != nil {
		return "", fmt.Errorf("the sealift for the nodes: %w; 'make build' makes it beside sealift, or name it with --sealift", err)
	}
	return beside, nil
}

// deflated is the folder of a cache that keeps the compressed forms of the programs.
func deflated(cached string) string { return filepath.Join(cached, "deflated") }

// nodePrograms prepares the programs for the nodes, the named ones or those beside this program. Their compressed forms are kept in
// the folder spool; with "" they are not compressed.
func (a commands) nodePrograms(ctx context.Context, spool string, o programFlags) (p programs, err error) {
	if o.sealift, err = nodeSealift(o.sealift); err != nil {
		return programs{}, err
	}
	if p.sealift, err = assemble.Binary(ctx, o.sealift, spool); err != nil {
		return programs{}, err
	}
	if p.preflight, err = a.nodePreflight(ctx, spool, o.preflight, filepath.Dir(o.sealift)); err != nil {
		return programs{}, errors.Join(err, p.close())
	}
	if o.console == "" {
		return p, nil
	}
	if p.console, err = assemble.Console(ctx, o.console, spool); err != nil {
		return programs{}, errors.Join(err, p.close())
	}
	return p, nil
}

func (p programs) close() error {
	err := p.sealift.Close()
	for _, other := range []*bundle.Member{p.preflight, p.console} {
		if other != nil {
			err = errors.Join(err, other.Close())
		}
	}
	return err
}

// nodePreflight prepares the sealift-preflight for the nodes: the named one, or else the one beside their sealift. A bundle
// without it works, but the checks and the collectors of its add-ons do not run.
func (a commands) nodePreflight(ctx context.Context, spool, name, beside string) (*bundle.Member, error) {
	if name == noPreflight {
		return nil, nil
	}
	if name == "" {
		name = filepath.Join(beside, preflight.ProgramName)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(a.Err, "warning: there is no %s: the bundle will make sealift's own checks of a host, not those of its add-ons\n", name)
			return nil, nil
		}
	}
	return assemble.Preflight(ctx, name, spool)
}

// packagesOf returns the packages of a store. Packages that kURL built are converted, and the cache keeps the result.
func packagesOf(s store.Store, cached string) packages.Source {
	return packages.Source{Store: kurl.NewStore(s, filepath.Join(cached, "kurl"))}
}

// addCacheFlag adds the flag for the cache folder of bundles.
func addCacheFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "cache", "", "cache directory (default: sealift in the user's cache directory)")
}

func cacheFolder(dir string) (string, error) {
	if dir == "" {
		return cache.DefaultDir()
	}
	return dir, nil
}
