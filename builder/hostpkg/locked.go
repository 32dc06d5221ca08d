package hostpkg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"pault.ag/go/debian/control"

	"github.com/sealift/sealift/manifest"
)

// vouched is the kind of fact that the cache keeps of a package file that a signed index of a target's archives had.
const vouched = "apt-vouched"

// vouchedKey names a file of a target. The archives are part of it: those of another sealift.yaml prove nothing here.
func vouchedKey(t Target, r Resolved) string {
	key := t.Name
	for _, a := range t.Sources {
		key += " " + a.base() + " " + a.SignedBy
	}
	if r.isRPM() {
		key += " " + r.URL // where its repository locates it
	}
	return key + " " + r.SHA256
}

// rememberVouched records what apt found in signed indexes, and which packages the index of a yum repository puts elsewhere.
func (s *Source) rememberVouched(target Target, arch string, packages []Resolved) error {
	for _, r := range packages {
		if target.Manager == manifest.ManagerYum && target.has(r.URL, arch) {
			continue
		}
		var known bool
		if key := vouchedKey(target, r); !s.options.Cache.Recall(vouched, key, &known) {
			if err := s.options.Cache.Remember(vouched, key, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckLocked refuses packages of a lock that the target's distribution does not vouch for: a lock is a file of a pull request.
// Their URLs must be below the target's sources, or below the xml:base of a yum repository. A signed index of the archives must
// have each .deb, now, when it was resolved with the same cache, or when the caller looked. It may be past its Valid-Until by
// now. The signature of an rpm is checked when it is fetched. Failures are *Error.
func (s *Source) CheckLocked(ctx context.Context, target Target, arch string, packages []Resolved) error {
	if err := s.checkLocked(ctx, target, arch, packages); err != nil {
		return &Error{Target: target.Name, Err: err}
	}
	return nil
}

func (s *Source) checkLocked(ctx context.Context, target Target, arch string, packages []Resolved) error {
	for _, r := range packages {
		if err := target.checkLocked(r, arch); err != nil {
			return fmt.Errorf("locked package %s %s: %w; lock the add-on again with sealift lock --update", r.Name, r.Version, err)
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(packages), func(r Resolved) bool {
		var known bool
		return target.Manager == manifest.ManagerYum && target.has(r.URL, arch) || slices.Contains(s.options.Vouched, r.SHA256) || s.options.Cache.Recall(vouched, vouchedKey(target, r), &known) && known
	})
	if len(unknown) == 0 {
		return nil
	}
	solver, release, err := s.solvers.get(ctx, s.options, target, arch, solver.readyForLocked)
	if err != nil {
		return err
	}
	defer release()
	if err := solver.lists(ctx, unknown); err != nil {
		return err
	}
	return s.rememberVouched(target, arch, unknown)
}

// checkLocked compares a package of a lock with what the target's solver would return.
func (t Target) checkLocked(r Resolved, arch string) error {
	yum := t.Manager == manifest.ManagerYum
	switch {
	case r.isRPM() != yum:
		return fmt.Errorf("%s is not a package for %s", r.URL, t.Name)
	case yum && r.Key == "":
		return errors.New("it does not name the key that signed it")
	case !yum && r.Key != "":
		return errors.New("it names a key, which only an rpm has")
	case strings.ContainsAny(r.fileName(), "/\\ \t\r\n"):
		return fmt.Errorf("%q is not the name of a package file", r.fileName())
	case !yum && !t.has(r.URL, arch), yum && cleaned(r.URL) == "":
		return fmt.Errorf("%s is not in any source of %s", r.URL, t.Name)
	}
	return t.checkName(r.Name)
}

// has reports whether a URL is below a source. A list of mirrors may name any host: the packages' signatures are the proof.
func (t Target) has(address, arch string) bool {
	if address = cleaned(address); address == "" {
		return false
	}
	return slices.ContainsFunc(t.Sources, func(a Archive) bool {
		if a.MirrorList {
			return isHTTP(address)
		}
		return strings.HasPrefix(address, strings.ReplaceAll(a.base(), basearch, arch))
	})
}

// cleaned returns a URL without the elements "." and ".." of its path, or "" for one that no index has. An index may write
// Filename: ./pool/….
func cleaned(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !isHTTP(address) {
		return ""
	}
	return u.JoinPath().String()
}

// lists refuses packages that no signed index of the archives has.
func (s *aptSolver) lists(ctx context.Context, packages []Resolved) error {
	var names []string
	for _, r := range packages {
		names = append(names, r.Name)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	have := make(map[string]bool)
	err := s.apt.show(ctx, names, func(p *control.Paragraph) {
		v := p.Values
		have[v["Package"]+" "+v["Version"]+" "+v["Architecture"]+" "+v["SHA256"]] = true
	})
	if err != nil {
		return fmt.Errorf("look for locked packages in the archive's indexes: %w", err)
	}
	for _, r := range packages {
		if !have[r.Name+" "+r.Version+" "+r.Arch+" "+r.SHA256] {
			return fmt.Errorf("locked package %s %s (sha256 %s): no signed index of the archive lists it; "+
				"lock the add-on again with sealift lock --update, or name a mirror in sealift.yaml that keeps superseded packages", r.Name, r.Version, r.SHA256)
		}
	}
	return nil
}
