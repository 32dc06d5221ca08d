package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/installer/host/files"
)

// mend repairs packages after a killed install or a power cut, because apt-get refuses to work before. It unpacks those again
// from the repositories that were being unpacked, or whose settings never reached the disk.
// dpkg syncs the files of a package, but not its settings (the conffiles of deb-conffiles(5)).
func (a APT) mend(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "dpkg-query", "--show", "--showformat=${db:Status-Abbrev}\t${binary:Package}\t${Version}\n${Conffiles}\n").Output()
	if err != nil {
		return fmt.Errorf("list the packages of the host: %w", err)
	}
	again, err := a.halfDone(string(out))
	if err != nil {
		return err
	}
	if len(again) == 0 {
		return a.dpkg(ctx, "--configure", "-a")
	}
	if err := a.dpkg(ctx, append([]string{"--unpack"}, again...)...); err != nil {
		return err
	}
	if err := a.dpkg(ctx, "--force-confmiss", "--configure", "-a"); err != nil && ctx.Err() == nil {
		fmt.Fprintln(a.Output, "apt-get goes on with those that wait for what they depend on")
	}
	return ctx.Err()
}

// halfDone lists the files of the packages that are to be unpacked again, and removes settings that have lost their content.
func (a APT) halfDone(list string) (again []string, err error) {
	var file string // of the package whose settings follow
	take := func() {
		if n := len(again); file != "" && (n == 0 || again[n-1] != file) {
			again = append(again, file)
		}
	}
	for line := range strings.Lines(list) {
		if setting, ok := strings.CutPrefix(line, " "); ok {
			name, digest, _ := strings.Cut(strings.TrimSpace(setting), " ")
			if file == "" || digest == emptyMD5 || strings.Contains(digest, "obsolete") {
				continue
			}
			empty, err := removeEmpty(name)
			if err != nil {
				return nil, err
			}
			if empty {
				take()
			}
			continue
		}
		file = ""
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 3 || len(f[0]) < 2 || a.Before[f[1]] == f[2] && f[0] == "ii " {
			continue
		}
		// want, state and error, see dpkg-query(1): state i is installed, n not installed, c configuration files only
		file = a.carried(dpkgDatabase{}.bare(f[1]), f[2])
		if !strings.ContainsAny(f[0][1:2], "inc") || len(strings.TrimSpace(f[0])) > 2 {
			take()
		}
	}
	return again, nil
}

// emptyMD5 is the digest of a setting that is meant to be empty.
const emptyMD5 = "d41d8cd98f00b204e9800998ecf8427e"

// removeEmpty removes a file without content, and reports whether it was one.
func removeEmpty(name string) (bool, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, files.Remove(name)
}

// carried is the file of a package in the repositories, "" for one that they do not have in this version. File names leave the
// version's epoch out.
func (a APT) carried(name, version string) string {
	if _, rest, ok := strings.Cut(version, ":"); ok {
		version = rest
	}
	for _, r := range a.Repositories {
		if found, err := filepath.Glob(filepath.Join(r, name+"_"+version+"_*.deb")); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// mend reinstalls packages whose files have lost their content. rpm does not sync its files to the disk, and the power may have
// failed during an install.
func (d DNF) mend(ctx context.Context, tool string, options []string) error {
	database := rpmDatabase{d.Root}
	there, err := database.installed(ctx)
	if err != nil {
		return err
	}
	var again []string
	for name, version := range there {
		if d.Before[name] == version || !d.carried(database.bare(name)) {
			continue
		}
		empty, err := d.removeEmpty(ctx, database, name)
		if err != nil {
			return err
		}
		if empty {
			again = append(again, name)
		}
	}
	if len(again) == 0 {
		return nil
	}
	return run(ctx, d.Output, nil, tool, append([]string{"reinstall", "--"}, again...), options)
}

// removeEmpty removes the files of a package that should have content but are empty. rpm leaves existing settings unchanged.
func (d DNF) removeEmpty(ctx context.Context, database rpmDatabase, name string) (found bool, err error) {
	// it ends with an error when anything differs
	out, _ := exec.CommandContext(ctx, "rpm", append(database.options(), "--verify", "--nodeps", "--noscripts", "--", name)...).Output()
	for line := range strings.Lines(string(out)) {
		flags, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		_, file, ok := strings.Cut(rest, "/")
		if !ok || !strings.HasPrefix(flags, "S") { // S for another size
			continue
		}
		empty, err := removeEmpty(files.Host{Rootfs: d.Root}.Path(file))
		if err != nil {
			return false, err
		}
		found = found || empty
	}
	return found, ctx.Err()
}

// carried reports whether the repositories have a package of a name.
func (d DNF) carried(name string) bool {
	for _, r := range d.Repositories {
		if found, err := filepath.Glob(filepath.Join(r, name+"*.rpm")); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
