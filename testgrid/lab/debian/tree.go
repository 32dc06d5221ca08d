package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// etcApt is where apt's configuration is on every Debian machine.
const etcApt = "/etc/apt"

// archiveKeyring is where the package debian-archive-keyring, which debootstrap recommends, has the keys.
const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// TreeTools lists what MakeTree runs.
func TreeTools() []Tool { return []Tool{Debootstrap, Installed("debian-archive-keyring")} }

// Machine reads which archives this machine installs from.
func Machine() (Archives, error) {
	sources, err := Sources(etcApt)
	if err != nil {
		return Archives{}, err
	}
	return MachineArchives(sources)
}

// MakeTree installs the essential packages of a release, apt and the named packages into dir, which must not exist. It uses
// the machine's own archive. It then removes everything that is specific to this machine or run. It needs root.
func MakeTree(ctx context.Context, dir, suite string, packages []string) error {
	if err := debootstrap(ctx, dir, suite, packages); err != nil {
		return err
	}
	return neutralise(dir, suite)
}

// UnpackTree is MakeTree for another architecture, whose programs do not run here: the packages are unpacked, and none of their scripts
// has run.
func UnpackTree(ctx context.Context, dir, suite, arch string, packages []string) error {
	if err := debootstrap(ctx, dir, suite, packages, "--foreign", "--arch="+arch); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, downloads, "*.deb"))
	if err != nil {
		return err
	}
	for _, name := range found {
		if err := unpack(ctx, name, dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "etc/apt"), 0o755); err != nil {
		return err
	}
	return errors.Join(neutralise(dir, suite), removeBelow(dir, downloads+"/*.deb"))
}

// downloads is the folder of a tree with the packages that debootstrap downloaded.
const downloads = "var/cache/apt/archives"

// unpack unpacks a package as debootstrap does: what is there, such as the links of a merged /usr, stays.
func unpack(ctx context.Context, name, dir string) error {
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", `dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"`, "bash", name, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(out))
	}
	return nil
}

// debootstrap runs the program of that name.
func debootstrap(ctx context.Context, dir, suite string, packages []string, more ...string) error {
	if os.Geteuid() != 0 {
		return errors.New("a Debian tree has files of many owners, which only root can make: run this as root")
	}
	archives, err := Machine()
	if err != nil {
		return err
	}
	keyring := archives.Keyring
	if keyring == "" {
		keyring = archiveKeyring
	}
	args := append([]string{"--variant=minbase", "--merged-usr", "--keyring=" + keyring, "--include=" + strings.Join(packages, ",")}, more...)
	cmd := exec.CommandContext(ctx, "debootstrap", append(args, suite, dir, archives.Main)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("install Debian %s: %w\n%s", suite, err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return makeProc(filepath.Join(dir, "proc"))
}

// makeProc makes the folder where /proc is mounted. In a container, debootstrap makes it a link to itself, and no container of the tree
// starts.
func makeProc(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Mkdir(path, 0o555)
}

// upstreamArchive is the archive that a freshly installed system would use. A lab host cannot reach it.
const upstreamArchive = "http://ftp.debian.org/debian"

// neutralise removes names of this machine and everything that differs between two runs.
func neutralise(dir, suite string) error {
	for name, content := range neutralFiles(suite) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return removeBelow(dir, leftovers()...)
}

// neutralFiles are the files of a tree that would have names of this machine.
func neutralFiles(suite string) map[string]string {
	return map[string]string{
		"etc/apt/sources.list": "deb " + upstreamArchive + " " + suite + " main\n",
		"etc/hostname":         "localhost\n",
		"etc/resolv.conf":      "",
		"etc/machine-id":       "",
	}
}

// leftovers are patterns of what the installation of a tree leaves and a system does not need.
func leftovers() []string {
	return []string{"var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*.log", "var/log/apt/*", "var/cache/ldconfig/*",
		"var/cache/debconf/*-old", "var/lib/dpkg/*-old", "etc/*-", "var/lib/dbus/machine-id", "tmp/*", "debootstrap"}
}

// StripTree removes parts that a container image does not need: documentation, translations and package management.
func StripTree(dir string) error {
	return removeBelow(dir, "usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/zoneinfo/*",
		"usr/share/bash-completion", "usr/lib/apt", "usr/lib/*/libapt-*", "var/lib/apt", "var/lib/dpkg/info/*", "usr/lib/*/gconv",
		"usr/lib/*/perl-base", "usr/bin/perl*", "boot", "usr/bin/apt*")
}

// removeBelow removes everything below dir that one of the patterns matches.
func removeBelow(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove %s: %w", path, err)
			}
		}
	}
	return nil
}
