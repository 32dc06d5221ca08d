package config

import (
	"fmt"
	"slices"

	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/manifest"
)

// Keyrings on the machine that builds. The packages debian-archive-keyring and ubuntu-keyring install theirs; Amazon's key
// is in distribution-gpg-keys, and on every Amazon Linux.
const (
	debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	ubuntuKeyring = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
	amazonKey     = "/usr/share/distribution-gpg-keys/amazon-linux/RPM-GPG-KEY-amazon-linux-2023"
)

// minimalServer is what the smallest Debian that boots has beyond its required packages. More than that is not counted
// on: a package that a host has already costs a few bytes, one that it lacks costs the installation.
func minimalServer() []string { return []string{"apt", "systemd", "systemd-sysv"} }

// mergedServer is that of releases which have usr-is-merged, as debootstrap has it. It is named before apt takes its
// alternative usrmerge, which would bring all of perl.
func mergedServer() []string { return append(minimalServer(), "usr-is-merged") }

// minimalYumServer is what the smallest installation of the family that boots and installs packages has.
func minimalYumServer() []string { return []string{"bash", "dnf", "rpm", "systemd"} }

// builtinTargets are in order of their names.
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

// ubuntu takes the component universe, too, as every Ubuntu does. Architectures other than Intel's have an archive of
// their own.
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

// directivesFor lists the directives that reach a target by its name, unless the configuration says otherwise.
func directivesFor(target string) []string {
	var list []string
	for _, kind := range manifest.HostPackageKinds() {
		if kind.Reaches(target) {
			list = append(list, kind.Keyword)
		}
	}
	return list
}

// directives lists those whose packages a manager resolves, or all.
func directives(manager string) []string {
	var list []string
	for _, kind := range manifest.HostPackageKinds() {
		if manager == "" || kind.Manager == manager {
			list = append(list, kind.Keyword)
		}
	}
	return list
}

// managerOf is the manager that resolves the packages of directives: apt when there are none, and none when they are of
// both.
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
