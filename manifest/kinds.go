package manifest

import "path"

// The package managers that host packages are resolved with.
const (
	ManagerApt = "apt"
	ManagerYum = "yum"
)

// HostPackageKind is a directive that names an operating system's package, and the hosts that it is meant for.
type HostPackageKind struct {
	Keyword string   // such as apt24
	Manager string   // ManagerApt or ManagerYum
	Targets []string // path.Match patterns over target names such as ubuntu-24.04
}

// HostPackageKinds lists the package directives and whom they reach. kURL §1.4 gives the reach of each; two differ on
// purpose: apt also reaches Debian, which kURL does not install on, and every Ubuntu (kURL forgets 26.04).
func HostPackageKinds() []HostPackageKind {
	return []HostPackageKind{
		{Keyword: KeywordApt, Manager: ManagerApt, Targets: []string{"debian-*", "ubuntu-*"}},
		{Keyword: KeywordApt24, Manager: ManagerApt, Targets: []string{"ubuntu-24.04"}},
		{Keyword: KeywordApt26, Manager: ManagerApt, Targets: []string{"ubuntu-26.04"}},
		{Keyword: KeywordYum, Manager: ManagerYum, Targets: []string{"rhel-*", "amazon-*"}},
		{Keyword: KeywordYum8, Manager: ManagerYum, Targets: []string{"rhel-8"}},
		{Keyword: KeywordYum9, Manager: ManagerYum, Targets: []string{"rhel-9"}},
		{Keyword: KeywordYum2023, Manager: ManagerYum, Targets: []string{"amazon-2023"}},
		{Keyword: KeywordYumOL, Manager: ManagerYum, Targets: []string{"ol-*"}},
	}
}

// Reaches tells whether packages of this kind belong on target, written <family>-<version>: debian-12, rhel-9.
func (k HostPackageKind) Reaches(target string) bool {
	for _, pattern := range k.Targets {
		if ok, err := path.Match(pattern, target); err == nil && ok {
			return true
		}
	}
	return false
}

func hostPackageKind(keyword string) (HostPackageKind, bool) {
	for _, kind := range HostPackageKinds() {
		if kind.Keyword == keyword {
			return kind, true
		}
	}
	return HostPackageKind{}, false
}
