package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/diag"
)

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

// HostPackageKinds lists the package directives and their target systems. kURL §1.4 gives the reach of each; two differ on
// purpose: apt also reaches Debian, which kURL does not install on, and every Ubuntu (kURL forgets 26.04).
func HostPackageKinds() []HostPackageKind {
	return []HostPackageKind{
		{Keyword: "apt", Manager: ManagerApt, Targets: []string{"debian-*", "ubuntu-*"}},
		{Keyword: "apt24", Manager: ManagerApt, Targets: []string{"ubuntu-24.04"}},
		{Keyword: "apt26", Manager: ManagerApt, Targets: []string{"ubuntu-26.04"}},
		{Keyword: "yum", Manager: ManagerYum, Targets: []string{"rhel-*", "amazon-*"}},
		{Keyword: "yum8", Manager: ManagerYum, Targets: []string{"rhel-8"}},
		{Keyword: "yum9", Manager: ManagerYum, Targets: []string{"rhel-9"}},
		{Keyword: "yum2023", Manager: ManagerYum, Targets: []string{"amazon-2023"}},
		{Keyword: "yumol", Manager: ManagerYum, Targets: []string{"ol-*"}},
	}
}

// BuiltInTargets lists the targets that a build knows without a definition in sealift.yaml.
func BuiltInTargets() []string {
	return []string{"amazon-2023", "debian-12", "debian-13", "rhel-10", "rhel-8", "rhel-9", "ubuntu-22.04", "ubuntu-24.04", "ubuntu-26.04"}
}

// Reaches reports whether packages of this kind belong on target, written <family>-<version>: debian-12, rhel-9.
func (k HostPackageKind) Reaches(target string) bool {
	for _, pattern := range k.Targets {
		if ok, err := path.Match(pattern, target); err == nil && ok {
			return true
		}
	}
	return false
}

func hostPackageKind(keyword string) HostPackageKind {
	kinds := HostPackageKinds()
	return kinds[slices.IndexFunc(kinds, func(k HostPackageKind) bool { return k.Keyword == keyword })]
}

// HostPackage is `apt <name>`, `yum8 <name>` and their like: a package of the operating system to carry, with its dependencies.
type HostPackage struct {
	Origin

	Kind HostPackageKind
	Name string
}

// Keyword is the keyword of the package's kind.
func (p HostPackage) Keyword() string { return p.Kind.Keyword }

// Describe returns the package's name and the targets that it is for.
func (p HostPackage) Describe() Description {
	return Description{Name: p.Name, From: "for " + strings.Join(p.Kind.Targets, ", "), Targets: p.Kind.Targets}
}

func (p HostPackage) check(c *checker) {
	valid, pos := rpmName, p.word(0)
	if p.Kind.Manager == ManagerApt {
		valid = debName
	}
	if !valid.MatchString(p.Name) {
		hint := "give the package's bare name"
		if bare, _, ok := strings.Cut(p.Name, "="); ok && valid.MatchString(bare) {
			hint = fmt.Sprintf("write %q; versions are chosen when the Manifest is resolved", bare)
		}
		c.Errorf(pos, hint, "bad package name %q", p.Name)
		return
	}
	c.duplicate(diag.Warning, p.Kind.Keyword+" package", p.Name, pos, "remove this line")
}

func hostPackageSyntax() syntax {
	s := syntax{parse: parseHostPackage, kurl: atMost(1)}
	for _, kind := range HostPackageKinds() {
		s.keywords = append(s.keywords, kind.Keyword)
	}
	return s
}

func parseHostPackage(keyword string, args []string, at Origin, problems *diag.List) Directive {
	kind := hostPackageKind(keyword)
	form := "write: " + kind.Keyword + " <package>"
	switch {
	case len(args) == 0:
		problems.Errorf(at.Pos, form, "%s needs a package name", kind.Keyword)
		return nil
	case len(args) > 1 && strings.HasPrefix(args[1], "#"):
		unexpected(at.word(1), args[1], "", form, problems)
		return nil
	case len(args) > 1:
		problems.Errorf(at.word(1), "give each package a line of its own; kURL takes the first and drops the others",
			"several packages on one line: %s", strings.Join(args, " "))
		return nil
	}
	return HostPackage{Origin: at, Kind: kind, Name: args[0]}
}
