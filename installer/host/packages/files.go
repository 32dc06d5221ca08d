package packages

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// Files installs the .deb or .rpm files of a package built by kURL's own CI, which is not a Sealift repository (kURL §1.5).
// Nothing is forced: the host's package manager resolves and checks the installation. The files were verified against the index
// of their archive; kURL ships no keys to check signatures with.
type Files struct {
	Dir    string // has the files; for .rpm files with repodata
	Work   string // where lists and caches are kept, apart from the host's
	Output io.Writer
}

// Install installs the named packages and those of their dependencies that the folder has. If a folder of .deb files has none of
// the names, Install installs all of them, as kURL does.
func (f Files) Install(ctx context.Context, names []string) error {
	debs, err := filepath.Glob(filepath.Join(f.Dir, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) == 0 {
		return DNF{Dir: filepath.Join(f.Work, "dnf"), Repositories: []string{f.Dir}, Unsigned: true, Output: f.Output}.Install(ctx, names)
	}
	index, carried, err := debIndex(ctx, debs)
	if err != nil {
		return err
	}
	if err := files.Write(filepath.Join(f.Dir, AptIndex), index); err != nil {
		return err
	}
	wanted := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(carried, name) })
	if len(wanted) == 0 {
		wanted = carried
	}
	return APT{Dir: filepath.Join(f.Work, "apt"), Repositories: []string{f.Dir}, Output: f.Output}.Install(ctx, wanted)
}

// debIndex writes the index that makes a folder of .deb files a repository, and names its packages.
func debIndex(ctx context.Context, files []string) (index []byte, names []string, err error) {
	var b strings.Builder
	for _, file := range files {
		fields, err := exec.CommandContext(ctx, "dpkg-deb", "--field", file).Output()
		if err != nil {
			return nil, nil, fmt.Errorf("%s is not a Debian package: %w", file, err)
		}
		size, digest, err := measure(file)
		if err != nil {
			return nil, nil, err
		}
		for line := range strings.Lines(string(fields)) {
			if name, ok := strings.CutPrefix(line, "Package:"); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		fmt.Fprintf(&b, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(fields)), filepath.Base(file), size, digest)
	}
	return []byte(b.String()), names, nil
}

func measure(file string) (size int64, digest []byte, err error) {
	r, err := regularfile.Open(file)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sum := sha256.New()
	size, err = io.Copy(sum, r)
	return size, sum.Sum(nil), err
}
