package packages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
)

// databases are the package managers' records of installed packages.
func databases() []string {
	return []string{"/var/lib/dpkg/status", "/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages"}
}

// Stamp changes when packages do. It is empty if there is no cheap way to know.
func Stamp() string {
	var stamp strings.Builder
	for _, name := range databases() {
		for _, part := range []string{name, name + "-wal"} {
			if info, err := os.Stat(part); err == nil {
				fmt.Fprintf(&stamp, "%s %d %d\n", part, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return stamp.String()
}

// database is a package manager's view of the system.
type database interface {
	// installed lists packages with their versions, by names that may have an architecture in them.
	installed(ctx context.Context) (map[string]string, error)
	// remove removes packages with their settings, and returns those that stay with the reason.
	remove(ctx context.Context, output io.Writer, names []string) (kept map[string]string, err error)
	// bare is a name of installed without its architecture.
	bare(name string) string
}

// hostDatabase is dpkg's or rpm's; nil on a host that has neither. Of a host that has both programs, it is dpkg's if dpkg is a package in it:
// for debootstrap and alien, hosts of Red Hat's family have dpkg as a package of rpm's.
func hostDatabase(ctx context.Context) database {
	_, noDpkg := exec.LookPath("dpkg-query")
	_, noRPM := exec.LookPath("rpm")
	switch {
	case noDpkg == nil && (noRPM != nil || exec.CommandContext(ctx, "dpkg-query", "--show", "dpkg").Run() == nil):
		return dpkgDatabase{}
	case noRPM == nil:
		return rpmDatabase{}
	}
	return nil
}

// Installed lists the host's packages with their versions, from dpkg or rpm. A host that has neither has none.
func Installed(ctx context.Context) (map[string]string, error) {
	if d := hostDatabase(ctx); d != nil {
		return d.installed(ctx)
	}
	return map[string]string{}, nil
}

// Lacking returns the names that no package of the host has, whatever its architecture.
func Lacking(ctx context.Context, names []string) ([]string, error) {
	there, err := Installed(ctx)
	if err != nil {
		return nil, err
	}
	d, have := hostDatabase(ctx), make(map[string]bool, len(there))
	for name := range there {
		have[d.bare(name)] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return have[name] }), nil
}

// Remove removes packages with their settings, and the settings of those that are otherwise gone: the power may have been lost
// in between. Missing packages are ignored. One that another package needs stays, and is returned with the reason.
func Remove(ctx context.Context, output io.Writer, names []string) (kept map[string]string, err error) {
	d := hostDatabase(ctx)
	if len(names) == 0 || d == nil {
		return nil, nil
	}
	return d.remove(ctx, output, names)
}

func listed(ctx context.Context, parse func(line string, found map[string]string), name string, args ...string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = command.Environ()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of the host: %s: %w", name, err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		parse(strings.TrimRight(line, "\n"), found)
	}
	return found, nil
}

// dpkgDatabase reads the database of dpkg below root; "" is the host itself.
type dpkgDatabase struct{ root string }

func (d dpkgDatabase) options() []string {
	if d.root == "" {
		return nil
	}
	return []string{"--root=" + d.root}
}

func (d dpkgDatabase) installed(ctx context.Context) (map[string]string, error) {
	return listed(ctx, parseDpkg, "dpkg-query", append(d.options(), "--show", "--showformat=${db:Status-Abbrev}\t${binary:Package}\t${Version}\n")...)
}

func (d dpkgDatabase) bare(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name
}

// parseDpkg reads an installed package, even if only in part: want, state and error come first, see dpkg-query(1), and n and c
// for state mean absent, and only settings.
func parseDpkg(line string, found map[string]string) {
	f := strings.Split(line, "\t")
	if len(f) == 3 && len(f[0]) >= 2 && f[0][1] != 'n' && f[0][1] != 'c' {
		found[f[1]] = f[2]
	}
}

// remove lets dpkg decide, which continues with the others when one is needed. A package whose unpacking was killed is removed,
// too: dpkg would rather have it unpacked again first. It ignores missing ones on its own.
func (d dpkgDatabase) remove(ctx context.Context, output io.Writer, names []string) (map[string]string, error) {
	var said bytes.Buffer
	err := APT{Output: io.MultiWriter(output, &said)}.dpkg(ctx, append(append(d.options(), "--force-remove-reinstreq", "--purge", "--"), names...)...)
	if err == nil {
		return nil, nil
	}
	there, listErr := d.installed(ctx)
	if listErr != nil {
		return nil, listErr
	}
	kept := make(map[string]string)
	for _, name := range names {
		if there[name] != "" {
			kept[name] = dpkgReason(said.String(), name)
		}
	}
	if len(kept) == 0 {
		return nil, err
	}
	return kept, nil
}

// dpkgReason finds dpkg's message about a package that it did not remove.
func dpkgReason(said, name string) string {
	short := dpkgDatabase{}.bare(name)
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if user, needed, ok := strings.Cut(line, " depends on "); ok && strings.TrimSuffix(needed, ".") == short {
			return user + " depends on it"
		}
	}
	return "dpkg did not remove it; see the log"
}

// rpmDatabase is rpm's view of the system below root; "" is the host's own.
type rpmDatabase struct{ root string }

func (d rpmDatabase) options() []string {
	if d.root == "" {
		return nil
	}
	return []string{"--root", d.root}
}

func (d rpmDatabase) installed(ctx context.Context) (map[string]string, error) {
	return listed(ctx, parseRPM, "rpm", append(d.options(), "--query", "--all", "--queryformat", "%{NAME}.%{ARCH}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n")...)
}

func (d rpmDatabase) bare(name string) string {
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		return name[:dot]
	}
	return name
}

func parseRPM(line string, found map[string]string) {
	name, version, ok := strings.Cut(line, "\t")
	switch {
	case !ok || strings.HasPrefix(name, "gpg-pubkey."):
	case found[name] != "": // several versions of kernels may be installed
		found[name] += " " + version
	default:
		found[name] = version
	}
}

// rpmNeeds matches rpm's message that a package cannot be removed: CAPABILITY is needed by (installed) PACKAGE.
var rpmNeeds = regexp.MustCompile(`(?m)^\s*(\S.*?) is needed by \(installed\) (\S+)`)

// remove leaves out of the transaction what rpm says is needed, until it agrees. What is not there it would refuse.
func (d rpmDatabase) remove(ctx context.Context, output io.Writer, names []string) (map[string]string, error) {
	there, err := d.installed(ctx)
	if err != nil {
		return nil, err
	}
	going := make(map[string]bool)
	for _, name := range names {
		if there[name] != "" {
			going[name] = true
		}
	}
	kept := make(map[string]string)
	for len(going) > 0 {
		list := slices.Sorted(maps.Keys(going))
		var said bytes.Buffer
		err := run(ctx, io.MultiWriter(output, &said), nil, "rpm", append([]string{"--erase", "--test", "--"}, list...), d.options())
		if err == nil {
			return kept, run(ctx, output, nil, "rpm", append([]string{"--erase", "--"}, list...), d.options())
		}
		before := len(going)
		for _, need := range rpmNeeds.FindAllStringSubmatch(said.String(), -1) {
			for name := range d.providers(ctx, need[1]) {
				if going[name] {
					delete(going, name)
					kept[name] = need[2] + " needs " + need[1]
				}
			}
		}
		if len(going) == before {
			return kept, err
		}
	}
	return kept, nil
}

// providers are the packages that provide a capability. It may have a version, after which rpm cannot be asked.
func (d rpmDatabase) providers(ctx context.Context, capability string) map[string]string {
	capability, _, _ = strings.Cut(capability, " ")
	found, err := listed(ctx, parseRPM, "rpm", append(d.options(), "--query", "--whatprovides", "--queryformat", "%{NAME}.%{ARCH}\t%{VERSION}\n", capability)...)
	if err != nil {
		return nil
	}
	return found
}
