package hostpkg

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/manifest"
)

// namedFor are the packages that the catalogue's own add-ons name for a target.
func namedFor(t *testing.T, target string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../addons/*/*/Manifest")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		m, err := manifest.Parse(file, strings.NewReader(string(mustRead(t, file))))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.HostPackages() {
			if p.Kind.Reaches(target) && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// The catalogue's packages resolve where they have the names that Red Hat's family gives them: release 8 has a package iptables,
// later ones and Amazon Linux have iptables-nft, which provides it.
func TestCatalogueRPMsResolve(t *testing.T) {
	const common = "conntrack-tools=1.4.7-3 container-selinux=4:2.235-1 ethtool=2:6.2-1 iproute=6.2.0-6 "
	for iptables, row := range map[string]struct {
		build   rpmPackage
		targets []string
		want    string
	}{
		"iptables":     {pkg("iptables", "1.8.5-11"), []string{"rhel-8"}, common + "iptables=1.8.5-11 kmod=28-9 socat=1.7.4-6"},
		"iptables-nft": {pkg("iptables-nft", "1.8.10-4", "Provides: iptables"), []string{"rhel-9", "rhel-10", "amazon-2023"}, common + "iptables-nft=1.8.10-4 kmod=28-9 socat=1.7.4-6"},
	} {
		t.Run(iptables, func(t *testing.T) {
			a := newYumArchive(t)
			a.build(pkg("init", "252-1"))
			a.build(pkg("conntrack-tools", "1.4.7-3"))
			a.build(pkg("container-selinux", "4:2.235-1"))
			a.build(pkg("ethtool", "2:6.2-1"))
			a.build(pkg("iproute", "6.2.0-6"), pkg("iproute-tc", "6.2.0-6", "Requires: iproute"))
			a.build(pkg("kmod", "28-9"))
			a.build(pkg("socat", "1.7.4-6"))
			a.build(row.build)
			a.publish("")
			c := openCache(t)
			for _, target := range row.targets {
				resolved, err := a.source(c).Resolve(t.Context(), a.target("init"), "x86_64", namedFor(t, target))
				if err != nil {
					t.Fatalf("%s: %v", target, err)
				}
				if got := listed(resolved); got != row.want {
					t.Errorf("%s: got  %s\nwant %s", target, got, row.want)
				}
			}
		})
	}
}

// Ubuntu calls them as Debian does.
func TestCatalogueUbuntuPackagesResolve(t *testing.T) {
	a := newArchive(t)
	for _, name := range []string{"conntrack", "ethtool", "iproute2", "iptables", "isal", "kmod", "socat"} {
		a.add(name, "1.0")
	}
	a.publish()
	for _, target := range []string{"ubuntu-22.04", "ubuntu-24.04", "ubuntu-26.04", "debian-12"} {
		resolved, err := a.resolve(namedFor(t, target)...)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if got := listed(resolved); got != "conntrack=1.0 ethtool=1.0 iproute2=1.0 iptables=1.0 isal=1.0 kmod=1.0 socat=1.0" {
			t.Errorf("%s: got %s", target, got)
		}
	}
}
