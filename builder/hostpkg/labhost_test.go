package hostpkg

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// offline are options of apt-get for a source of the folder at /media/usb and nothing else; lists is the folder of its lists.
func offline(sources, lists string) []string {
	return []string{"apt-get", "-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=/media/usb/" + sources,
		"-o", "Dir::State::Lists=" + lists, "-o", "Acquire::Languages=none", "-o", "Acquire::ForceHash=SHA256", "-o", "APT::Sandbox::User=root"}
}

// A real host of each release, which has no network, is asked what it would fetch from Debian's archive, by the lists of
// the archive on a disk. The answer is what was resolved for it; and with only the repository it installs that.
func TestALabHostWantsWhatWasResolvedAndInstallsItWithoutANetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("lab hosts want root")
	}
	names := []string{"lvm2", "nfs-common", "open-iscsi", "conntrack", "socat", "ipset", "ethtool"}
	for name, codename := range map[string]string{"debian-12": "bookworm", "debian-13": "trixie"} {
		t.Run(name, func(t *testing.T) {
			source := debianSource(t, openCache(t))
			target := debianTarget(name, codename)
			target.Base = append(target.Base, "dbus", "iproute2") // a lab host has them
			resolved, err := source.Resolve(t.Context(), target, "amd64", names)
			if err != nil {
				t.Fatal(err)
			}
			usb := t.TempDir()
			if err := os.CopyFS(filepath.Join(usb, "repository"), os.DirFS(unpack(t, source, resolved))); err != nil {
				t.Fatal(err)
			}
			solver, release, err := source.solvers.get(t.Context(), source.options, target, "amd64")
			if err != nil {
				t.Fatal(err)
			}
			for _, sub := range []string{"state/lists", "etc/sources.list.d"} {
				if err := os.CopyFS(filepath.Join(usb, sub), os.DirFS(filepath.Join(solver.directory(), sub))); err != nil {
					t.Fatal(err)
				}
			}
			release()
			repositories := filepath.Join(usb, "repositories")
			if err := os.Mkdir(repositories, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(repositories, "only.list"), []byte("deb [trusted=yes] file:/media/usb/repository ./\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			h := host.ForTest(t, host.Spec{OS: name, USB: []string{usb}})
			run := func(args ...string) string {
				t.Helper()
				out, err := h.Output(t.Context(), args...)
				if err != nil {
					t.Fatalf("%v: %v", args, err)
				}
				return out
			}
			run("cp", "-r", "/media/usb/state/lists", "/tmp/lists")
			answer := run(slices.Concat(offline("etc/sources.list.d", "/tmp/lists"), []string{"install", "--no-install-recommends", "--print-uris", "-qq"}, names)...)
			wanted, err := parseURIs(strings.NewReader(answer))
			if err != nil {
				t.Fatal(err)
			}
			// debootstrap gives every host of release 13 these two, which nothing that it must have needs.
			lacks := slices.DeleteFunc(slices.Clone(resolved), func(r Resolved) bool {
				return name == "debian-13" && (r.Name == "adduser" || r.Name == "libkmod2")
			})
			if got, want := sorted(listed(lacks)), sorted(listed(wanted)); got != want {
				t.Errorf("resolved\n%s\nthe host wants\n%s", got, want)
			}
			run("mkdir", "/tmp/own")
			run(append(offline("repositories", "/tmp/own"), "update")...)
			run(slices.Concat([]string{"env", "DEBIAN_FRONTEND=noninteractive"}, offline("repositories", "/tmp/own"), []string{"install", "--no-install-recommends", "-y", "-q"}, names)...)
			for _, r := range wanted {
				if got := run("dpkg-query", "-W", "-f", "${Status} ${Version}", r.Name); got != "install ok installed "+r.Version {
					t.Errorf("%s is %q, want %s", r.Name, got, r.Version)
				}
			}
		})
	}
}
