package packages

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/files"
)

// DNF installs packages from repositories in folders with the host's own dnf or yum.
type DNF struct {
	// Dir is where the lists and the cache of the repositories are kept, apart from the host's.
	Dir string
	// Repositories are folders with repodata and, in keys, the armored keys that signed the packages. dnf checks each
	// package against both.
	Repositories []string
	// Unsigned means that the repositories come without keys: their files were verified by other means.
	Unsigned bool
	// Root is the root of the system to change; empty means the host's own.
	Root string
	// Before are the packages that the host had before the first install, with their versions.
	Before map[string]string
	// Output receives what dnf prints.
	Output io.Writer
}

// dnfMain is the part of dnf.conf(5) that is the same everywhere. Plugins would ask subscription services, which are on
// the other side of the air gap.
const dnfMain = `[main]
reposdir=/dev/null
plugins=0
gpgcheck=1
localpkg_gpgcheck=1
install_weak_deps=0
best=0
skip_if_unavailable=0
metadata_expire=0
`

// Install installs the named packages and their dependencies, and upgrades dependencies where that is needed. It removes nothing.
func (d DNF) Install(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	tool, options, err := d.prepare()
	if err != nil {
		return err
	}
	options = append(options, "--assumeyes")
	if err := d.mend(ctx, tool, options); err != nil {
		return err
	}
	return run(ctx, d.Output, nil, tool, append([]string{"install", "--"}, names...), options)
}

// prepare writes the configuration for only the repositories, and returns the package manager with the options that name it. The settings
// of the site are left out: its exclusions and version locks are not about the bundle's packages.
func (d DNF) prepare() (tool string, options []string, err error) {
	if tool, err = exec.LookPath("dnf"); err != nil {
		if tool, err = exec.LookPath("yum"); err != nil {
			return "", nil, fmt.Errorf("install packages of the host: neither dnf nor yum is installed: %w", err)
		}
	}
	conf, err := d.configuration()
	if err != nil {
		return "", nil, err
	}
	if err := files.MkdirAll(d.Dir, 0o755); err != nil {
		return "", nil, err
	}
	file := filepath.Join(d.Dir, "dnf.conf")
	options = []string{"--config", file, "--noplugins"}
	if d.Root != "" {
		options = append(options, "--installroot", d.Root)
	}
	return tool, options, files.Write(file, []byte(conf))
}

func (d DNF) configuration() (string, error) {
	var b strings.Builder
	if d.Unsigned {
		b.WriteString(strings.ReplaceAll(dnfMain, "gpgcheck=1", "gpgcheck=0"))
	} else {
		b.WriteString(dnfMain)
	}
	fmt.Fprintf(&b, "cachedir=%s\n", filepath.Join(d.Dir, "cache"))
	for i, r := range d.Repositories {
		keys, err := filepath.Glob(filepath.Join(r, "keys", "*.asc"))
		if err != nil {
			return "", err
		}
		slices.Sort(keys)
		var urls []string
		for _, key := range keys {
			urls = append(urls, fileURL(key))
		}
		fmt.Fprintf(&b, "\n[sealift-%d]\nname=Sealift %s\nbaseurl=%s\ngpgkey=%s\n", i, filepath.Base(filepath.Dir(filepath.Dir(r))), fileURL(r), strings.Join(urls, " "))
	}
	return b.String(), nil
}

// fileURL also escapes commas: dnf splits lists of addresses at them.
func fileURL(path string) string {
	return strings.ReplaceAll((&url.URL{Scheme: "file", Path: path}).String(), ",", "%2C")
}
