package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/spec"
)

// Change is a difference between an Installer and the one that Upgrade made of it.
type Change struct {
	Field string   `json:"field"`         // such as kubernetes.version
	Was   string   `json:"was,omitempty"` // "" for something new
	Now   string   `json:"now,omitempty"` // "" for something that is left out
	Why   string   `json:"why"`           // and what replaces it
	Pos   diag.Pos `json:"-"`
}

// String is one line: "kubernetes.version: 1.19.9 becomes 1.35.4: reason".
func (c Change) String() string {
	was, now := printable(c.Was), printable(c.Now)
	switch {
	case c.Now == "":
		return fmt.Sprintf("%s: %s is left out: %s", c.Field, was, c.Why)
	case c.Was == "":
		return fmt.Sprintf("%s: %s is new: %s", c.Field, now, c.Why)
	}
	return fmt.Sprintf("%s: %s becomes %s: %s", c.Field, was, now, c.Why)
}

// printable is a value on one line, cut to a readable length.
func printable(value string) string {
	if len(value) > 200 || strings.ContainsAny(value, "\n\r\t") {
		return fmt.Sprintf("%.200q", value)
	}
	return value
}

// Versions lists the versions of an add-on that a store has.
type Versions func(name string) ([]string, error)

// Upgrade returns the Installer nearest to i that works: each add-on has the version that it had, or the nearest one that works and
// exists, and what Sealift does not have is replaced or left out. The changes name all of that. stored lists what a store has; if it is
// nil, versions that the rules allow are kept, and the others are raised to versions of the catalogue. The Installer itself is not
// changed.
func Upgrade(i *spec.Installer, stored Versions) (*spec.Installer, []Change, error) {
	u := upgrade{stored: stored, have: map[string][]string{}}
	u.installer = i.Clone()
	u.installer.Migrated = nil
	for _, a := range i.AddOns {
		if err := u.list(a.Name); err != nil {
			return nil, nil, err
		}
	}
	for _, replacement := range []string{"kubernetes", "containerd", "flannel", "openebs"} {
		if err := u.list(replacement); err != nil {
			return nil, nil, err
		}
	}
	u.distribution()
	u.plainVersion()
	u.raise("kubernetes")
	u.runtime()
	u.network()
	for _, a := range slices.Clone(u.installer.AddOns) {
		u.raise(a.Key)
	}
	u.options()
	u.networks()
	u.needs()
	u.idle()
	return u.installer, u.changes, nil
}

type upgrade struct {
	installer *spec.Installer
	stored    Versions
	have      map[string][]string // versions by name, oldest first
	changes   []Change
}

// list finds the versions that exist of an add-on.
func (u *upgrade) list(name string) error {
	versions := shipped(name)
	if u.stored != nil {
		found, err := u.stored(name)
		if err != nil {
			return fmt.Errorf("find the versions of %s: %w", name, err)
		}
		versions = slices.DeleteFunc(slices.Clone(found), Unstable)
	}
	slices.SortFunc(versions, CompareVersions)
	u.have[name] = versions
	return nil
}

func (u *upgrade) at(key string) int {
	return slices.IndexFunc(u.installer.AddOns, func(a spec.AddOn) bool { return a.Key == key })
}

func (u *upgrade) change(pos diag.Pos, field, was, now, why string) {
	u.changes = append(u.changes, Change{Field: field, Was: was, Now: now, Why: why, Pos: pos})
}

// remove takes an add-on out, with its options.
func (u *upgrade) remove(key, why string) (removed spec.AddOn) {
	at := u.at(key)
	removed = u.installer.AddOns[at]
	u.installer.AddOns = slices.Delete(u.installer.AddOns, at, at+1)
	was := cmp.Or(removed.Version, "without a version")
	if options := slices.Sorted(maps.Keys(removed.Options)); len(options) > 0 {
		was += " with " + strings.Join(options, ", ")
	}
	u.change(removed.Pos, key, was, "", why)
	return removed
}

// add adds an add-on to the Installer, at its newest version.
func (u *upgrade) add(key, why string, options spec.Options, pos diag.Pos) {
	a := spec.AddOn{Name: spec.AddOnName(key), Key: key, Version: Latest, Options: options, Pos: pos}
	if have := u.have[a.Name]; len(have) > 0 {
		a.Version = have[len(have)-1]
	}
	u.installer.AddOns = append(u.installer.AddOns, a)
	u.change(pos, key+".version", "", a.Version, why)
}

// distribution replaces other distributions of Kubernetes by that of kubeadm.
func (u *upgrade) distribution() {
	for _, key := range []string{"k3s", "rke2"} {
		if u.at(key) < 0 {
			continue
		}
		why := "Sealift installs Kubernetes with kubeadm; kubernetes replaces it"
		removed := u.remove(key, why)
		if u.at("kubernetes") < 0 {
			u.add("kubernetes", "in place of "+key, nil, removed.Pos)
		}
	}
	if u.at("kubernetes") < 0 && len(u.installer.AddOns) > 0 && u.installer.APIVersion == spec.KurlAPIVersion {
		u.add("kubernetes", "an Installer of kURL has Kubernetes", nil, u.installer.AddOns[0].Pos)
	}
}

// plainVersion removes the v from Kubernetes's version. Its packages have none.
func (u *upgrade) plainVersion() {
	at := u.at("kubernetes")
	if at < 0 {
		return
	}
	a := &u.installer.AddOns[at]
	if plain := strings.TrimPrefix(a.Version, "v"); plain != a.Version && plain != "" && isDigit(rune(plain[0])) {
		u.change(a.Pos, "kubernetes.version", a.Version, plain, "packages of Kubernetes have no v")
		a.Version = plain
	}
}

// runtime adds a container runtime if the Installer names none. kURL takes Docker then.
func (u *upgrade) runtime() {
	at := u.at("docker")
	var pos diag.Pos
	if at >= 0 {
		pos = u.remove("docker", "Kubernetes does not run on Docker from 1.24 on; containerd replaces it, and containerd.tomlConfig its settings").Pos
	}
	if !u.provides(ContainerRuntime) && u.at("kubernetes") >= 0 {
		u.add("containerd", "Kubernetes needs a container runtime", nil, cmp.Or(pos, u.installer.AddOns[u.at("kubernetes")].Pos))
	}
}

// provides reports whether an add-on of the Installer has a capability, or may have it.
func (u *upgrade) provides(capability string) bool {
	return slices.ContainsFunc(u.installer.AddOns, func(a spec.AddOn) bool {
		return !spec.Listed(a.Key) || slices.Contains(kurlProvides(a.Name), capability)
	})
}

// network leaves one pod network that works.
func (u *upgrade) network() {
	var kept string
	for _, a := range slices.Clone(u.installer.AddOns) {
		switch {
		case !slices.Contains(kurlProvides(a.Name), PodNetwork):
		case kept != "":
			u.remove(a.Key, "a cluster has one pod network; "+kept+" stays")
		case a.Key != "flannel" && u.pick(a) == "":
			why := "no version of it works with Kubernetes of today"
			if u.stored != nil && len(u.have[a.Name]) == 0 {
				why = "the store has no package of it"
			}
			removed := u.remove(a.Key, why+"; flannel replaces it")
			if kept = "flannel"; u.at("flannel") < 0 {
				u.add("flannel", "in place of "+a.Key, networkOf(removed.Options), removed.Pos)
			}
		default:
			kept = a.Key
		}
	}
	if at := u.at("kubernetes"); at >= 0 && !u.provides(PodNetwork) {
		u.add("flannel", "a cluster needs a pod network", nil, u.installer.AddOns[at].Pos)
	}
}

// networkOf returns flannel's options equivalent to those of another pod network.
func networkOf(options spec.Options) spec.Options {
	own := spec.Options{}
	for theirs, ours := range map[string]string{"podCIDR": "podCIDR", "podCidrRange": "podCIDRRange"} {
		if value, set := options[theirs]; set {
			own[ours] = value
		}
	}
	return own
}

// raise sets an add-on to a version that works and exists.
func (u *upgrade) raise(key string) {
	at := u.at(key)
	if at < 0 {
		return
	}
	a := u.installer.AddOns[at]
	version := u.pick(a)
	switch {
	case version == a.Version:
	case version != "":
		why := u.why(a)
		u.installer.AddOns[at].Version = version
		u.change(a.Pos, key+".version", a.Version, version, why)
		u.drop(&u.installer.AddOns[at], "s3Override", "it is the package of "+a.Version)
	case key == "longhorn":
		u.remove(key, u.why(a)+"; openebs replaces it (Sealift moves no data)")
		if u.at("openebs") < 0 {
			u.add("openebs", "in place of longhorn", spec.Options{"isLocalPVEnabled": true, "localPVStorageClassName": "default"}, a.Pos)
		}
	default:
		u.remove(key, u.why(a))
	}
}

// why returns the reason why an add-on cannot keep its version.
func (u *upgrade) why(a spec.AddOn) string {
	if r, refused := u.refused(a, u.effective(a)); refused {
		return r.why
	}
	switch {
	case a.Version == "":
		return "it had none"
	case len(u.have[a.Name]) == 0:
		return "the store has no package of it; put one there with 'sealift import' or 'sealift build', and upgrade again"
	}
	return "the store does not have it"
}

// pick returns the version of an add-on that is nearest to its own, works and exists, or "" if there is none.
func (u *upgrade) pick(a spec.AddOn) string {
	_, refused := u.refused(a, u.effective(a))
	override, _ := a.Options["s3Override"].(string)
	exists := u.stored == nil || override != "" || len(u.matching(a)) > 0
	if a.Version != "" && !refused && exists {
		return a.Version
	}
	fit := slices.DeleteFunc(slices.Clone(u.have[a.Name]), func(v string) bool {
		_, refused := u.refused(a, v)
		return refused
	})
	if len(fit) == 0 {
		return ""
	}
	best := nearest(fit, strings.TrimPrefix(strings.TrimSuffix(a.Version, ".x"), "v"))
	if major, minor := MajorMinor(best); strings.HasSuffix(a.Version, ".x") && major >= 0 {
		return fmt.Sprintf("%d.%d.x", major, minor)
	}
	return best
}

// nearest returns the version nearest to wanted among versions, oldest first: the newest of its line, or else the newest of the next
// line, or else the newest of all.
func nearest(versions []string, wanted string) string {
	major, minor := MajorMinor(wanted)
	for n, v := range versions {
		ma, mi := MajorMinor(v)
		if wanted == "" || CompareVersions(v, wanted) < 0 && (ma != major || mi != minor) {
			continue
		}
		last := v
		for _, other := range versions[n:] {
			if a, b := MajorMinor(other); ma >= 0 && a == ma && b == mi {
				last = other
			}
		}
		return last
	}
	return versions[len(versions)-1]
}

// matching lists the existing versions that an add-on's version stands for.
func (u *upgrade) matching(a spec.AddOn) (all []string) {
	line, isLine := strings.CutSuffix(a.Version, "x")
	for _, v := range u.have[a.Name] {
		if v == a.Version || a.Version == Latest || isLine && strings.HasSuffix(line, ".") && strings.HasPrefix(v, line) {
			all = append(all, v)
		}
	}
	return all
}

// effective is the version that an add-on has if its version stands for several.
func (u *upgrade) effective(a spec.AddOn) string {
	if all := u.matching(a); len(all) > 0 {
		return all[len(all)-1]
	}
	return a.Version
}

// refused finds a rule that refuses an add-on at a version.
func (u *upgrade) refused(a spec.AddOn, version string) (rule, bool) {
	with := u.installer.Clone()
	for n := range with.AddOns {
		if with.AddOns[n].Key == a.Key {
			with.AddOns[n].Version = version
		}
	}
	c := checker{installer: with}
	for _, r := range rules() {
		if r.key == a.Key && r.option == "" {
			if _, _, applies := c.applies(r); applies {
				return r, true
			}
		}
	}
	return rule{}, false
}

// shipped returns versions of an add-on that certainly exist, oldest first: those of the shipped catalogue that every test run installs, those
// that ship if it installs none, or kURL's newest of August 2026, and KOTS's of October. They are used when no store is named.
func shipped(name string) (versions []string) {
	for _, use := range []releases.Use{releases.Tested, releases.Shipped} {
		for _, r := range releases.Of(name, use) {
			versions = append(versions, r.Version)
		}
		if versions != nil {
			return versions
		}
	}
	return map[string][]string{
		"antrea": {"1.4.0"}, "aws": {"0.1.0"}, "calico": {"3.9.1"}, "collectd": {"v5"}, "contour": {"1.32.1"},
		"ekco": {"0.28.14"}, "fluentd": {"1.7.4"}, "goldpinger": {"3.11.2-1.1.2"}, "kotsadm": {"1.134.0"}, "longhorn": {"1.3.1"},
		"minio": {"2025-10-15T17-29-55Z"}, "openebs": {"4.5.1"},
		"rook": {"1.19.7"}, "sonobuoy": {"0.57.3"}, "weave": {"2.8.1-20230417"},
	}[name]
}
