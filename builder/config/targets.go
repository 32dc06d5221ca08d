package config

import (
	"fmt"
	"slices"

	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/manifest"
)

// Keyrings on the build machine. The packages debian-archive-keyring and ubuntu-keyring install theirs. Amazon's key is in
// distribution-gpg-keys, and on every Amazon Linux.
const (
	debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	ubuntuKeyring = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
	amazonKey     = "/usr/share/distribution-gpg-keys/amazon-linux/RPM-GPG-KEY-amazon-linux-2023"
)

// minimalServer lists the packages of the smallest bootable Debian in addition to required packages. Nothing more is assumed:
// carrying a package that the host has costs a few bytes, and lacking one breaks the install.
func minimalServer() []string { return []string{"apt", "systemd", "systemd-sysv"} }

// mergedServer is minimalServer for releases with usr-is-merged, as debootstrap installs them. It is listed so that apt
// does not choose the alternative usrmerge, which needs all of perl.
func mergedServer() []string { return append(minimalServer(), "usr-is-merged") }

// minimalYumServer lists the packages of the smallest installation that boots and can install packages.
func minimalYumServer() []string { return []string{"bash", "dnf", "rpm", "systemd"} }

// builtinTargets returns the built-in targets, sorted by name.
func builtinTargets() []hostpkg.Target {
	return []hostpkg.Target{
		amazon2023(),
		debian("debian-12", "bookworm"), debian("debian-13", "trixie"),
		rhel("10"), rhel("8"), rhel("9"),
		ubuntu("ubuntu-22.04", "jammy", minimalServer()), ubuntu("ubuntu-24.04", "noble", mergedServer()), ubuntu("ubuntu-26.04", "resolute", mergedServer()),
	}
}

func debian(name, codename string) hostpkg.Target {
	return hostpkg.Target{
		Name: name, Manager: manifest.ManagerApt, Directives: directivesFor(name), Base: mergedServer(),
		Sources: []hostpkg.Archive{
			{URL: "http://ftp.debian.org/debian", Suites: []string{codename, codename + "-updates"}, Components: []string{"main"}, SignedBy: debianKeyring},
			{URL: "http://ftp.debian.org/debian-security", Suites: []string{codename + "-security"}, Components: []string{"main"}, SignedBy: debianKeyring},
		},
	}
}

// ubuntu returns a target for Ubuntu with the component universe, as Ubuntu enables it by default. Architectures other than
// amd64 have another archive.
func ubuntu(name, codename string, base []string) hostpkg.Target {
	suites := []string{codename, codename + "-updates", codename + "-security"}
	components := []string{"main", "universe"}
	return hostpkg.Target{
		Name: name, Manager: manifest.ManagerApt, Directives: directivesFor(name), Base: base,
		Sources: []hostpkg.Archive{
			{URL: "http://archive.ubuntu.com/ubuntu", Suites: suites, Components: components, SignedBy: ubuntuKeyring, Architectures: []string{"amd64", "i386"}},
			{URL: "http://ports.ubuntu.com/ubuntu-ports", Suites: suites, Components: components, SignedBy: ubuntuKeyring, Architectures: []string{"arm64", "armhf", "ppc64el", "riscv64", "s390x"}},
		},
	}
}

// rhel is a release of Red Hat Enterprise Linux and those compatible with it. The packages are Rocky Linux's and EPEL's,
// as in kURL (kURL §1.4): they may be passed on.
func rhel(major string) hostpkg.Target {
	name := "rhel-" + major
	rocky := func(repository string) hostpkg.Archive {
		return hostpkg.Archive{
			URL:      fmt.Sprintf("https://dl.rockylinux.org/pub/rocky/%s/%s/$basearch/os/", major, repository),
			SignedBy: "https://dl.rockylinux.org/pub/rocky/RPM-GPG-KEY-Rocky-" + major,
		}
	}
	return hostpkg.Target{
		Name: name, Manager: manifest.ManagerYum, Directives: directivesFor(name), Base: minimalYumServer(), Platform: "platform:el" + major,
		Sources: []hostpkg.Archive{
			rocky("BaseOS"), rocky("AppStream"),
			{
				URL:      fmt.Sprintf("https://dl.fedoraproject.org/pub/epel/%s/Everything/$basearch/", major),
				SignedBy: "https://dl.fedoraproject.org/pub/epel/RPM-GPG-KEY-EPEL-" + major,
			},
		},
	}
}

func amazon2023() hostpkg.Target {
	const name = "amazon-2023"
	return hostpkg.Target{
		Name: name, Manager: manifest.ManagerYum, Directives: directivesFor(name), Base: minimalYumServer(), Platform: "platform:al2023",
		Sources: []hostpkg.Archive{{
			URL: "https://cdn.amazonlinux.com/al2023/core/mirrors/latest/$basearch/mirror.list", MirrorList: true, SignedBy: amazonKey,
		}},
	}
}

// directivesFor returns the default directives of a target.
func directivesFor(target string) []string {
	var list []string
	for _, kind := range manifest.HostPackageKinds() {
		if kind.Reaches(target) {
			list = append(list, kind.Keyword)
		}
	}
	return list
}

// directives returns the directives of a package manager, or all.
func directives(manager string) []string {
	var list []string
	for _, kind := range manifest.HostPackageKinds() {
		if manager == "" || kind.Manager == manager {
			list = append(list, kind.Keyword)
		}
	}
	return list
}

// managerOf returns the package manager of some directives: apt if there are none. It returns false if they belong to both.
func managerOf(keywords []string) (string, bool) {
	manager := manifest.ManagerApt
	for i, keyword := range keywords {
		one := manifest.ManagerApt
		if slices.Contains(directives(manifest.ManagerYum), keyword) {
			one = manifest.ManagerYum
		}
		if i > 0 && one != manager {
			return "", false
		}
		manager = one
	}
	return manager, true
}
