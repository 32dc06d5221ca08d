package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/preflight"
)

// program returns the sealift-preflight to run. It runs as root, so it must be the bundle's by digest: a copy that an install has
// kept or that is beside sealift, or an extracted one, which Close removes. For a bundle without one it is the result of
// FindProgram.
func (i *Install) program(ctx context.Context) (string, error) {
	beside := filepath.Dir(i.options.Binary)
	carried, ok := i.archive.Program(bundle.PreflightName, host.Platform)
	if !ok {
		return FindProgram(i.options.Root, beside)
	}
	if i.taken != "" {
		return filepath.Join(i.taken, carried.Path), nil
	}
	for _, name := range programNames(i.options.Root, beside) {
		if safe, err := files.Own(name); err == nil && isCopy(safe, carried) {
			return safe, nil
		}
	}
	dir, err := files.MkdirTemp(i.temporary(), ".sealift-preflight-")
	if err != nil {
		return "", fmt.Errorf("make room for %s: %w", preflight.ProgramName, err)
	}
	if err := i.extractPrograms(ctx, dir, carried.Path); err != nil {
		return "", errors.Join(fmt.Errorf("extract %s from the bundle: %w", preflight.ProgramName, err), files.RemoveAll(dir))
	}
	i.taken = dir
	return filepath.Join(dir, carried.Path), nil
}

// unasked reports that there is no program to ask, without reading the bundle's.
func (i *Install) unasked() []preflight.Result {
	if _, carried := i.archive.Program(bundle.PreflightName, host.Platform); carried {
		return nil
	}
	name, err := FindProgram(i.options.Root, filepath.Dir(i.options.Binary))
	if name != "" {
		return nil
	}
	return []preflight.Result{noProgram(err)}
}

// noProgram is the result for checks without a program. refused is why an existing one is not run.
func noProgram(refused error) preflight.Result {
	r := preflight.Result{Check: "add-ons", Status: preflight.Warn, Message: "not asked for what they need: there is no " + preflight.ProgramName,
		Hint: "make the bundle with it beside sealift, or with --sealift-preflight"}
	if refused != nil {
		r.Message = "not asked for what they need: " + refused.Error()
		r.Hint = "make the bundle with it, or move sealift and it into a folder that root alone may write"
	}
	return r
}

// extractPrograms extracts the programs at these paths of the bundle.
func (c *contents) extractPrograms(ctx context.Context, dir string, paths ...string) error {
	if len(paths) == 0 {
		return nil
	}
	root, err := files.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(c.archive.Extract(ctx, root, func(e bundle.Entry) bool { return slices.Contains(paths, e.Path) }), root.Close())
}

// dropProgram removes the extracted program.
func (i *Install) dropProgram() error {
	if i.taken == "" {
		return nil
	}
	return files.RemoveAll(i.taken)
}

// keepProgram leaves sealift-preflight on the node, for support bundles and for hosts that join.
func (i *Install) keepProgram(ctx context.Context) error {
	if err := i.keepForeign(ctx); err != nil {
		return err
	}
	carried, ok := i.archive.Program(bundle.PreflightName, host.Platform)
	kept := filepath.Join(i.options.Root, carried.Path)
	if !ok || isCopy(kept, carried) {
		return nil
	}
	if i.taken == "" {
		return i.extractPrograms(ctx, i.options.Root, carried.Path)
	}
	return i.keepTaken(filepath.Join(i.taken, carried.Path), kept)
}

// keepTaken moves the extracted program to where the node keeps it, or copies it if that is on another file system.
func (i *Install) keepTaken(from, kept string) error {
	if err := files.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	err := files.Rename(from, kept)
	if errors.Is(err, unix.EXDEV) {
		return files.Copy(kept, 0o755, from)
	}
	if err := errors.Join(err, i.dropProgram()); err != nil {
		return err
	}
	i.taken = ""
	return files.SyncDir(filepath.Dir(kept))
}

// keepForeign leaves the programs for hosts of other platforms on a control plane, and removes those of an earlier bundle.
func (i *Install) keepForeign(ctx context.Context) error {
	var lacking []string
	for _, platform := range i.foreignPlatforms() {
		for _, name := range []string{bundle.BinaryName, bundle.PreflightName} {
			at := bundle.ProgramPath(name, platform)
			kept := filepath.Join(i.options.Root, at)
			e, ok := i.archive.Entry(at)
			switch {
			case !ok || !i.ControlPlane():
				if err := files.Remove(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			case !isCopy(kept, e):
				lacking = append(lacking, at)
			}
		}
	}
	return i.extractPrograms(ctx, i.options.Root, lacking...)
}

func (j *job) foreignPlatforms() []string {
	return slices.DeleteFunc(platform.OfHosts(), func(p string) bool { return p == host.Platform })
}

// Sealift returns the digest of the sealift for nodes of another platform, or "" if the bundle has none.
func (i *Install) Sealift(platform string) string {
	e, _ := i.archive.Entry(bundle.ProgramPath(bundle.BinaryName, platform))
	return e.SHA256
}

// console is the bundle's sealift-console for this host, if it is a control plane.
func (i *Install) console() (bundle.Entry, bool) {
	carried, ok := i.archive.Program(bundle.ConsoleName, host.Platform)
	return carried, ok && i.ControlPlane()
}

// keepConsole leaves sealift-console on a control plane, where 'sealift-console on' starts it.
func (i *Install) keepConsole(ctx context.Context) error {
	carried, ok := i.console()
	if !ok || isCopy(filepath.Join(i.options.Root, carried.Path), carried) {
		return nil
	}
	return i.extractPrograms(ctx, i.options.Root, carried.Path)
}

// programNames are the paths of a sealift-preflight outside a bundle.
func programNames(root, beside string) []string {
	return []string{filepath.Join(beside, preflight.ProgramName), filepath.Join(root, bundle.ProgramPath(bundle.PreflightName, host.Platform)),
		filepath.Join(root, bundle.PreflightName)}
}

// FindProgram returns the sealift-preflight beside sealift, or else the one that an install has kept, or "". The error is why an
// existing one must not be run.
func FindProgram(root, beside string) (string, error) {
	var refused []error
	for _, name := range programNames(root, beside) {
		if !isProgram(name) {
			continue
		}
		safe, err := files.Own(name)
		if err == nil {
			return safe, nil
		}
		refused = append(refused, fmt.Errorf("%s %w: %w", name, errUnsafeProgram, err))
	}
	return "", errors.Join(refused...)
}

var errUnsafeProgram = errors.New("is not run")

// temporary is a folder from which programs can run: beside sealift when install.sh has put it into the install root, otherwise
// the one of temporary files. Hardened hosts run no programs from /tmp.
func (j *job) temporary() string {
	if dir := filepath.Dir(j.options.Binary); strings.HasPrefix(dir, j.options.Root+string(filepath.Separator)) {
		return dir
	}
	return runnable(os.TempDir(), "/var/tmp", "/run")
}

// runnable returns the first folder from which programs can be run, or the first if there is none.
func runnable(folders ...string) string {
	for _, folder := range folders {
		var mount unix.Statfs_t
		if unix.Statfs(folder, &mount) == nil && mount.Flags&unix.ST_NOEXEC == 0 {
			return folder
		}
	}
	return folders[0]
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// isCopy reports whether a program on disk is the bundle's.
func isCopy(name string, carried bundle.Entry) bool {
	if info, err := os.Stat(name); err != nil || info.Size() != carried.Size || !isProgram(name) {
		return false
	}
	file, err := bundle.DiskFile(carried.Path, 0o755, name)
	return err == nil && file.SHA256 == carried.SHA256
}
