package hostpkg

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/manifest"
)

// Target is an operating system that packages are built for.
type Target struct {
	Name string // <family>-<version>, such as debian-12
	// Manager resolves its packages: manifest.ManagerApt, also when empty, or manifest.ManagerYum.
	Manager string
	// Directives are the Manifest directives whose packages belong on this target, such as apt.
	Directives []string
	// Base names the packages of a minimal host; for apt in addition to those that the archive marks required or essential.
	Base    []string
	Sources []Archive

	// Platform is the module platform of a yum target, such as platform:el9; empty without modules.
	Platform string
	// Modules are streams to enable in addition to the default ones of a yum target, such as nginx:1.24.
	Modules []string
}

// Archive is one source of a target's packages: for apt an archive in the terms of sources.list(5), for yum a repository.
type Archive struct {
	// URL is where it is. In a yum repository's URL, $basearch stands for the architecture.
	URL        string
	Suites     []string // apt only; one that ends with a slash is the folder of a flat repository, "/" the URL itself
	Components []string // apt only; a flat repository has none
	// Architectures that it has, as the distribution spells them; empty means any.
	Architectures []string
	// SignedBy is the path of a keyring on the machine that builds. For yum it may be an https URL instead, and the keys
	// are armored. They must have signed each package.
	SignedBy string
	// MirrorList means that URL lists mirrors of a yum repository. The first one is used.
	MirrorList bool
	// SignedMetadata means that the index of a yum repository must be signed, too.
	SignedMetadata bool
}

// Reaches reports whether a directive's packages belong on the target.
func (t Target) Reaches(directive string) bool { return slices.Contains(t.Directives, directive) }

// Architecture is the target distribution's name of a platform such as linux/amd64.
func (t Target) Architecture(platform string) (string, error) {
	names := map[string]string{
		"linux/amd64": "amd64", "linux/arm64": "arm64", "linux/riscv64": "riscv64", "linux/s390x": "s390x",
		"linux/ppc64le": "ppc64el", "linux/386": "i386", "linux/arm/v7": "armhf", "linux/arm": "armhf",
	}
	if t.Manager == manifest.ManagerYum {
		names = map[string]string{"linux/amd64": "x86_64", "linux/arm64": "aarch64", "linux/s390x": "s390x", "linux/ppc64le": "ppc64le"}
	}
	if arch, ok := names[platform]; ok {
		return arch, nil
	}
	return "", fmt.Errorf("%s has no packages for platform %s", t.Name, platform)
}

// forArchitecture keeps the sources that have an architecture.
func (t Target) forArchitecture(arch string) (Target, error) {
	t.Sources = slices.DeleteFunc(slices.Clone(t.Sources), func(a Archive) bool {
		return len(a.Architectures) > 0 && !slices.Contains(a.Architectures, arch)
	})
	if len(t.Sources) == 0 {
		return Target{}, fmt.Errorf("target %s has no source with packages for %s; add one in sealift.yaml", t.Name, arch)
	}
	return t, nil
}

// Check returns what is wrong with a target; the caller adds its origin.
func (t Target) Check() error {
	if t.Name == "" || strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.HasPrefix(t.Name, ".") {
		return fmt.Errorf("target %q: a name has lower-case letters, digits, dots and dashes", t.Name)
	}
	yum := t.Manager == manifest.ManagerYum
	if !yum && t.Manager != "" && t.Manager != manifest.ManagerApt {
		return fmt.Errorf("target %s: %q is not a package manager; use %s or %s", t.Name, t.Manager, manifest.ManagerApt, manifest.ManagerYum)
	}
	if !yum && (t.Platform != "" || len(t.Modules) > 0) {
		return fmt.Errorf("target %s: only yum has modules", t.Name)
	}
	if t.Platform != "" && !isPair(t.Platform) {
		return fmt.Errorf("target %s: %q is not a platform of modules such as platform:el9", t.Name, t.Platform)
	}
	for _, m := range t.Modules {
		if !isPair(m) {
			return fmt.Errorf("target %s: %q is not a stream of a module such as nginx:1.24", t.Name, m)
		}
	}
	if len(t.Sources) == 0 {
		return fmt.Errorf("target %s has no sources", t.Name)
	}
	for _, name := range t.Base {
		if err := t.checkName(name); err != nil {
			return fmt.Errorf("target %s: base: %q is %w", t.Name, name, err)
		}
	}
	for _, a := range t.Sources {
		check := a.checkApt
		if yum {
			check = a.checkYum
		}
		if err := check(); err != nil {
			return fmt.Errorf("target %s: source %q: %w", t.Name, a.URL, err)
		}
	}
	return nil
}

// isPair takes two names with a colon between them.
func isPair(s string) bool {
	name, stream, found := strings.Cut(s, ":")
	return found && validRPMName(name) && validRPMName(stream)
}

// checkName checks that the package manager accepts the name of a package.
func (t Target) checkName(name string) error {
	switch {
	case t.Manager == manifest.ManagerYum && !validRPMName(name):
		return errors.New("not the name of an rpm package")
	case t.Manager != manifest.ManagerYum && !validName(name):
		return errors.New("not the name of a Debian package")
	}
	return nil
}

// base is the URL with a slash at its end, so that a rule for a mirror matches however either is written.
func (a Archive) base() string { return strings.TrimSuffix(a.URL, "/") + "/" }

// isFlat reports whether the suites of an archive are folders with their own indexes.
func (a Archive) isFlat() bool { return len(a.Suites) > 0 && strings.HasSuffix(a.Suites[0], "/") }

func (a Archive) checkApt() error {
	if !isHTTP(a.URL) {
		return errors.New("not an http or https URL")
	}
	if a.MirrorList || a.SignedMetadata {
		return errors.New("mirrorList and signedMetadata are for yum; the indexes of apt are always signed")
	}
	flat := a.isFlat()
	switch {
	case flat && len(a.Components) > 0:
		return fmt.Errorf("the suite %s is a folder of a flat repository, which has no components", a.Suites[0])
	case len(a.Suites) == 0 || len(a.Components) == 0 && !flat:
		return errors.New("suites and components are needed; those of a flat repository are suites: [/]")
	case slices.ContainsFunc(a.Suites, func(s string) bool { return strings.HasSuffix(s, "/") != flat }):
		return errors.New("some suites end with a slash, which marks a flat repository, and some do not; make two sources")
	}
	for _, word := range slices.Concat(a.Suites, a.Components) {
		if word == "" || strings.ContainsAny(word, " \t\r\n") {
			return fmt.Errorf("%q is not a suite or component", word)
		}
	}
	if !path.IsAbs(a.SignedBy) || strings.ContainsAny(a.SignedBy, " \t\r\n") {
		return errors.New("signedBy must be the absolute path of a keyring, without blanks")
	}
	return nil
}

func (a Archive) checkYum() error {
	if !isHTTP(strings.ReplaceAll(a.URL, basearch, "x")) {
		return errors.New("not an http or https URL")
	}
	if len(a.Suites) > 0 || len(a.Components) > 0 {
		return errors.New("suites and components are for apt")
	}
	isSafeURL := isHTTP(a.SignedBy) && strings.HasPrefix(a.SignedBy, "https:")
	if !path.IsAbs(a.SignedBy) && !isSafeURL {
		return errors.New("signedBy must be the absolute path of a file with armored keys, or its https URL")
	}
	return nil
}

func isHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.ContainsAny(s, " \t\r\n$")
}

// validName holds a package name against Debian Policy §5.6.1. apt-get would remove a package with a trailing dash.
func validName(name string) bool {
	return len(name) >= 2 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == "" &&
		!strings.ContainsRune("+.-", rune(name[0])) && !strings.HasSuffix(name, "-")
}

// validRPMName matches names of rpm packages. dnf would treat other characters as patterns, groups, files and comparisons.
func validRPMName(name string) bool {
	const first = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && strings.Trim(name, first+"+._-") == "" && strings.ContainsRune(first+"_", rune(name[0]))
}
