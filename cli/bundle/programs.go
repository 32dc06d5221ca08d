package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/kurl"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/store"
)

// hostPlatform is this machine's.
const hostPlatform = runtime.GOOS + "/" + runtime.GOARCH

// programFlags are the flags that choose the programs for nodes.
type programFlags struct {
	platforms, sealift, preflight, console []string
}

func (p *programFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&p.sealift, "sealift", nil, "the sealift for the nodes, one for each platform (default: the "+nodeProgram+" beside this program)")
	flags.StringSliceVar(&p.preflight, "sealift-preflight", nil, "the sealift-preflight for the nodes, one for each platform, or "+noPreflight+" (default: the one beside the sealift for the nodes, if something in the bundle uses it)")
	flags.StringSliceVar(&p.console, "sealift-console", nil, "the sealift-console for the control planes, one for each platform; without this flag they get none")
	flags.StringSliceVar(&p.platforms, "platform", []string{hostPlatform}, "the platforms of the nodes, such as linux/amd64,linux/arm64")
	for _, name := range []string{"sealift", "sealift-preflight", "sealift-console"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// check normalizes and sorts the platforms, so that the order of the flags does not affect the bundle.
func (p *programFlags) check() error {
	var list []string
	for _, one := range p.platforms {
		parsed, err := platform.Parse(one)
		if err != nil {
			return app.UsageError("--platform: %v", err)
		}
		list = append(list, platform.Name(parsed))
	}
	if len(list) == 0 {
		return app.UsageError("--platform names no platform; leave it out for %s", hostPlatform)
	}
	slices.Sort(list)
	p.platforms = slices.Compact(list)
	for _, one := range p.platforms {
		if len(p.platforms) > 1 && !slices.Contains(platform.OfHosts(), one) {
			return app.UsageError("--platform %s: one bundle can be for nodes of %s", one, strings.Join(platform.OfHosts(), " and "))
		}
	}
	return nil
}

// noPreflight as the name of the sealift-preflight leaves it out of every bundle.
const noPreflight = "none"

// nodeProgram is the file name of the sealift for nodes, which is smaller than the running one.
const nodeProgram = "sealift-node"

// nodeSealift finds the sealift for the nodes: the named ones, or else the one beside this program.
func nodeSealift(named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	beside := filepath.Join(filepath.Dir(self), nodeProgram)
	if _, err := os.Stat(beside); err != nil {
		return nil, fmt.Errorf("the sealift for the nodes: %w; 'make build' makes it beside sealift, or name it with --sealift", err)
	}
	return []string{beside}, nil
}

// byPlatform assigns files with a program to platforms by the machine in their ELF headers. For one platform, a file that is not an ELF
// program, such as a script, is taken as it is.
func byPlatform(flag string, names, platforms []string) (map[string]string, error) {
	of := make(map[string]string)
	for _, name := range names {
		found, err := programPlatform(name)
		if errors.Is(err, platform.ErrNoProgram) && len(platforms) == 1 {
			found, err = platforms[0], nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s %s: %w", flag, name, err)
		case !slices.Contains(platforms, found):
			return nil, app.UsageError("%s %s is for %s, and the nodes are %s; name theirs, or change --platform", flag, name, found, strings.Join(platforms, ", "))
		case of[found] != "":
			return nil, app.UsageError("%s: %s and %s are both for %s", flag, of[found], name, found)
		}
		of[found] = name
	}
	return of, nil
}

// programPlatform returns the platform of a program's file.
func programPlatform(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return platform.OfProgram(f)
}

// deflated is the folder of a cache that keeps the compressed forms of the programs.
func deflated(cached string) string { return filepath.Join(cached, "deflated") }

// programs are the programs that nodes get in addition to packages.
type programs []assemble.Program

func (p programs) close() error {
	var errs []error
	for _, one := range p {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// nodePrograms prepares the programs for the nodes, the named ones or those beside this program. Their compressed forms are kept in
// the folder spool; with "" they are not compressed.
func (a commands) nodePrograms(ctx context.Context, spool string, o programFlags) (list programs, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, list.close())
			list = nil
		}
	}()
	named, err := nodeSealift(o.sealift)
	if err != nil {
		return nil, err
	}
	sealift, err := byPlatform("--sealift", named, o.platforms)
	if err != nil {
		return nil, err
	}
	preflights := make(map[string]string)
	if without := slices.Equal(o.preflight, []string{noPreflight}); !without {
		if preflights, err = byPlatform("--sealift-preflight", o.preflight, o.platforms); err != nil {
			return nil, err
		}
		for _, one := range o.platforms {
			if preflights[one] == "" && sealift[one] != "" {
				preflights[one] = a.preflightBeside(sealift[one])
			}
		}
	}
	consoles, err := byPlatform("--sealift-console", o.console, o.platforms)
	if err != nil {
		return nil, err
	}
	for _, one := range o.platforms {
		if sealift[one] == "" {
			return list, app.UsageError("no sealift for %s among %s; name it with --sealift FILE,FILE: '"+buildFor+"' makes it", one, strings.Join(named, ", "), strings.Split(one, "/")[1])
		}
		made := assemble.Program{Platform: one}
		at := func(name string) string { return name }
		if len(o.platforms) > 1 {
			at = func(name string) string { return bundle.ProgramPath(name, one) }
		}
		if made.Sealift, err = assemble.ProgramMember(ctx, at(bundle.BinaryName), sealift[one], spool); err != nil {
			return list, err
		}
		list = append(list, made)
		last := &list[len(list)-1]
		if preflights[one] != "" {
			last.Preflight = assemble.NewLateMember(at(bundle.PreflightName), preflights[one], spool)
		}
		if consoles[one] != "" {
			if last.Console, err = assemble.ProgramMember(ctx, at(bundle.ConsoleName), consoles[one], spool); err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

// buildFor is the command that makes the sealift for nodes of another architecture.
const buildFor = "GOARCH=%s CGO_ENABLED=0 go build -trimpath -tags=grpcnotrace '-ldflags=-s -w' ./cmd/" + nodeProgram

// preflightBeside is the sealift-preflight beside a sealift, or "". A bundle without it works, but the checks and the collectors of its
// add-ons do not run.
func (a commands) preflightBeside(sealift string) string {
	name := filepath.Join(filepath.Dir(sealift), preflight.ProgramName)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(a.Err, "warning: there is no %s: the bundle will make sealift's own checks of a host, not those of its add-ons\n", name)
		return ""
	}
	return name
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
