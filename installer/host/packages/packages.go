// Package packages installs, lists and removes packages with the host's own package manager.
package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/internal/tail"
)

// Manager installs packages from repositories in folders with the host's own package manager. The host's own sources
// are not asked: behind an air gap they do not answer.
type Manager struct {
	// Dir is where lists and caches of the repositories are kept, apart from the host's.
	Dir string
	// Repositories are folders, each with an index that AptIndex or YumIndex names. Only this user can write there, and
	// their files were checked against the index of the bundle when they were put there.
	Repositories []string
	// Before are the packages that the host had before the first install, with their versions: their files are the
	// administrator's, however they look.
	Before map[string]string
	// Output receives the package manager's output.
	Output io.Writer
}

// The index of a repository, relative to its folder. It identifies the repository's owner.
const (
	AptIndex = "Packages"
	YumIndex = "repodata/repomd.xml"
)

// Install installs the named packages and their dependencies. It removes nothing and forces nothing.
func (p Manager) Install(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	tool, err := p.tool()
	if err != nil {
		return err
	}
	return tool.Install(ctx, names)
}

// installer is the package manager of the host, with the repositories.
type installer interface {
	Install(ctx context.Context, names []string) error
	Obstacles(ctx context.Context, names []string) ([]Obstacle, error)
}

// tool is apt-get or dnf, whichever the repositories are for.
func (p Manager) tool() (installer, error) {
	apt := APT{Dir: filepath.Join(p.Dir, "apt"), Before: p.Before, Output: p.Output}
	dnf := DNF{Dir: filepath.Join(p.Dir, "dnf"), Before: p.Before, Output: p.Output}
	for _, r := range p.Repositories {
		switch {
		case exists(filepath.Join(r, AptIndex)):
			apt.Repositories = append(apt.Repositories, r)
		case exists(filepath.Join(r, YumIndex)):
			dnf.Repositories = append(dnf.Repositories, r)
		default:
			return nil, fmt.Errorf("%s is not a repository of packages: it has neither %s nor %s", r, AptIndex, YumIndex)
		}
	}
	switch {
	case len(apt.Repositories) > 0 && len(dnf.Repositories) > 0:
		return nil, errors.New("the packages for this host are of two kinds, .deb and .rpm; build them again for one target")
	case len(dnf.Repositories) > 0:
		return dnf, nil
	}
	return apt, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// endDelay is the time that a package manager gets to finish after it was asked to end.
const endDelay = 3 * time.Minute

// run calls a package manager once. When ctx ends, the package manager may finish its work, because stopping it would leave
// packages half installed. A signal to the terminal does not reach it.
func run(ctx context.Context, output io.Writer, environment []string, name string, args, options []string) error {
	cmd := exec.CommandContext(ctx, name, append(options, args...)...)
	cmd.Env = append(command.Environ(), environment...)
	var said tail.Buffer
	cmd.Stdout = output
	cmd.Stderr = io.MultiWriter(output, &said)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return nil }
	cmd.WaitDelay = endDelay
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) { // a service of a package may hold the output
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.String())
	}
	return nil
}
