package config

import (
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/manifest"
)

// debianKeyring holds the keys of every current Debian release; the package debian-archive-keyring installs it.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// minimalServer is what the smallest Debian that boots has beyond its required packages. More than that is not counted
// on: a package that a host has already costs a few bytes, one that it lacks costs the installation. So is
// usr-is-merged, as debootstrap has it, named before apt takes its alternative usrmerge, which would bring all of perl.
func minimalServer() []string { return []string{"apt", "systemd", "systemd-sysv", "usr-is-merged"} }

func builtinTargets() []hostpkg.Target {
	return []hostpkg.Target{debian("debian-12", "bookworm"), debian("debian-13", "trixie")}
}

func debian(name, codename string) hostpkg.Target {
	return hostpkg.Target{
		Name: name, Directives: directivesFor(name), Base: minimalServer(),
		Sources: []hostpkg.Archive{
			{URL: "http://ftp.debian.org/debian", Suites: []string{codename, codename + "-updates"}, Components: []string{"main"}, SignedBy: debianKeyring},
			{URL: "http://ftp.debian.org/debian-security", Suites: []string{codename + "-security"}, Components: []string{"main"}, SignedBy: debianKeyring},
		},
	}
}

// directivesFor lists the directives that reach a target by its name, unless the configuration says otherwise.
func directivesFor(target string) []string {
	var list []string
	for _, kind := range manifest.HostPackageKinds() {
		if kind.Manager == manifest.ManagerApt && kind.Reaches(target) {
			list = append(list, kind.Keyword)
		}
	}
	return list
}

// aptDirectives lists the directives whose packages apt resolves.
func aptDirectives() []string {
	var list []string
	for _, kind := range manifest.HostPackageKinds() {
		if kind.Manager == manifest.ManagerApt {
			list = append(list, kind.Keyword)
		}
	}
	return list
}
