package hostpkg

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// offline are options of apt-get for a source of the folder at /media/usb and nothing else; lists is the folder of its lists.
func offline(sources, lists string) []string {
	return []string{"apt-get", "-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=/media/usb/" + sources,
		"-o", "Dir::State::Lists=" + lists, "-o", "Acquire::Languages=none", "-o", "Acquire::ForceHash=SHA256", "-o", "APT::Sandbox::User=root"}
}

// wanted lists the packages that the tests below install: those that Kubernetes and its storage commonly need on a host.
func wanted() []string {
	return []string{"lvm2", "nfs-common", "open-iscsi", "conntrack", "socat", "ipset", "ethtool"}
}

// labHost is a booted host without a network, with a folder plugged into it.
type labHost struct {
	*testing.T
	*host.Host
}

func (h labHost) run(args ...string) string {
	h.Helper()
	out, err := h.Output(h.Context(), args...)
	if err != nil {
		h.Fatalf("%v: %v", args, err)
	}
	return out
}

// A real host of each release, without a network, lists what it would fetch from Debian's archive, with the package lists on a
// disk. That must equal the resolved packages for a target with the host's packages; and with only the repository it installs
// them. For the built-in target, which assumes fewer packages, only packages that the host already has are added.
func TestLabHostInstallsResolvedPackagesOffline(t *testing.T) {
	short.Root(t, "hosts of the lab")
	for name, codename := range map[string]string{"debian-12": "bookworm", "debian-13": "trixie"} {
		t.Run(name, func(t *testing.T) {
			source := debianSource(t, openCache(t))
			target := debianTarget(name, codename)
			resolve := func(target Target) []Resolved {
				t.Helper()
				resolved, err := source.Resolve(t.Context(), target, "amd64", wanted())
				if err != nil {
					t.Fatal(err)
				}
				return resolved
			}
			builtin := resolve(target)
			usb := t.TempDir()
			if err := os.CopyFS(filepath.Join(usb, "repository"), os.DirFS(unpack(t, source, builtin))); err != nil {
				t.Fatal(err)
			}
			copyLists(t, source, target, usb)
			if err := os.Mkdir(filepath.Join(usb, "repositories"), 0o755); err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(usb, "repositories", "only.list")
			if err := os.WriteFile(list, []byte("deb [trusted=yes] file:/media/usb/repository ./\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			h := labHost{t, lab.Host(t, host.Spec{OS: name, USB: []string{usb}})}
			h.run("cp", "-r", "/media/usb/state/lists", "/tmp/lists")
			answer := h.run(slices.Concat(offline("etc/sources.list.d", "/tmp/lists"), []string{"install", "--no-install-recommends", "--print-uris", "-qq"}, wanted())...)
			asked, err := parseURIs(strings.NewReader(answer))
			if err != nil {
				t.Fatal(err)
			}
			has := strings.Fields(h.run("dpkg-query", "-W", "-f", "${Package}\n"))
			if got, want := sorted(listed(lacking(builtin, has))), sorted(listed(asked)); got != want {
				t.Errorf("for the built-in target, beyond what the host has, resolved\n%s\nthe host wants\n%s", got, want)
			}
			target.Name, target.Base = name+"-lab", has // another name, since a source knows a target by it
			if got, want := sorted(listed(lacking(resolve(target), has))), sorted(listed(asked)); got != want {
				t.Errorf("resolved\n%s\nthe host wants\n%s", got, want)
			}
			h.run("mkdir", "/tmp/own")
			said := h.run(slices.Concat([]string{"sh", "-c", `"$@" 2>&1`, "sh"}, offline("repositories", "/tmp/own"), []string{"update"})...)
			if strings.Contains(said, "W:") {
				t.Errorf("apt warns of the repository: %s", said)
			}
			h.run(slices.Concat([]string{"env", "DEBIAN_FRONTEND=noninteractive"}, offline("repositories", "/tmp/own"), []string{"install", "--no-install-recommends", "-y", "-q"}, wanted())...)
			for _, r := range asked {
				if got := h.run("dpkg-query", "-W", "-f", "${Status} ${Version}", r.Name); got != "install ok installed "+r.Version {
					t.Errorf("%s is %q, want %s", r.Name, got, r.Version)
				}
			}
		})
	}
}

// lacking returns the packages that a host does not have. It has some of the resolved packages: packages of one source are resolved
// together.
func lacking(resolved []Resolved, has []string) []Resolved {
	return slices.DeleteFunc(slices.Clone(resolved), func(r Resolved) bool { return slices.Contains(has, r.Name) })
}

// copyLists puts what apt knows of a target's archive into a folder.
func copyLists(t *testing.T, source *Source, target Target, to string) {
	t.Helper()
	solver, release, err := source.solvers.get(t.Context(), source.options, target, "amd64", solver.ready)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, sub := range []string{"state/lists", "etc/sources.list.d"} {
		if err := os.CopyFS(filepath.Join(to, sub), os.DirFS(filepath.Join(solver.directory(), sub))); err != nil {
			t.Fatal(err)
		}
	}
}
