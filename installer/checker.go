package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/atomicfile"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/preflight"
)

// program finds sealift-preflight: beside sealift, kept by an install, or in the bundle. What is taken out of the bundle goes
// with Close: before the install is confirmed nothing stays, and nothing is fetched twice.
func (i *Install) program(ctx context.Context) (string, error) {
	beside, kept := filepath.Dir(i.options.Binary), filepath.Join(i.options.Root, bundle.PreflightName)
	carried, ok := i.archive.Entry(bundle.PreflightName)
	switch {
	case !ok || isProgram(filepath.Join(beside, preflight.ProgramName)):
		return FindProgram(i.options.Root, beside), nil
	case i.taken != "":
		return filepath.Join(i.taken, bundle.PreflightName), nil
	case isCopy(kept, carried):
		return kept, nil
	}
	dir, err := os.MkdirTemp(i.temporary(), ".sealift-preflight-")
	if err != nil {
		return "", fmt.Errorf("make room for %s: %w", preflight.ProgramName, err)
	}
	if err := i.extractProgram(ctx, dir); err != nil {
		return "", errors.Join(fmt.Errorf("take %s out of the bundle: %w", preflight.ProgramName, err), os.RemoveAll(dir))
	}
	i.taken = dir
	return filepath.Join(dir, bundle.PreflightName), nil
}

func (i *Install) extractProgram(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(i.archive.Extract(ctx, root, func(e bundle.Entry) bool { return e.Path == bundle.PreflightName }), root.Close())
}

// dropProgram removes what program has taken out of the bundle.
func (i *Install) dropProgram() error {
	if i.taken == "" {
		return nil
	}
	return os.RemoveAll(i.taken)
}

// keepProgram leaves sealift-preflight on the node, for support bundles and for hosts that join.
func (i *Install) keepProgram(ctx context.Context) error {
	kept := filepath.Join(i.options.Root, bundle.PreflightName)
	if carried, ok := i.archive.Entry(bundle.PreflightName); !ok || isCopy(kept, carried) {
		return nil
	}
	if i.taken == "" {
		return i.extractProgram(ctx, i.options.Root)
	}
	taken, err := os.Open(filepath.Join(i.taken, bundle.PreflightName))
	if err != nil {
		return err
	}
	defer taken.Close()
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	return atomicfile.Fill(kept, 0o755, func(w *os.File) error {
		_, err := io.Copy(w, taken)
		return err
	})
}

// FindProgram gives the sealift-preflight that lies in a folder, or else the one that an install has kept, or "".
func FindProgram(root, beside string) string {
	for _, name := range []string{filepath.Join(beside, preflight.ProgramName), filepath.Join(root, bundle.PreflightName)} {
		if isProgram(name) {
			return name
		}
	}
	return ""
}

// temporary is where a program can be run from: beside sealift when install.sh has put it into the install root, otherwise
// where temporary files are.
func (i *Install) temporary() string {
	if dir := filepath.Dir(i.options.Binary); strings.HasPrefix(dir, i.options.Root+string(filepath.Separator)) {
		return dir
	}
	return os.TempDir()
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// isCopy says whether a program on the disk is that of the bundle.
func isCopy(name string, carried bundle.Entry) bool {
	if info, err := os.Stat(name); err != nil || info.Size() != carried.Size || !isProgram(name) {
		return false
	}
	file, err := bundle.DiskFile(carried.Path, 0o755, name)
	return err == nil && file.SHA256 == carried.SHA256
}
