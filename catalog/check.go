package catalog

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

// Check returns the reasons why the add-ons of an Installer cannot work together, and warnings about possible failures. Versions may be patterns; then Check
// reports only what is wrong with every version that matches. metas describe the add-ons. Without them, Check knows only
// the capabilities of kURL's add-ons.
func Check(i *spec.Installer, metas []Meta) []diag.Finding {
	c := checker{installer: i, metas: metas}
	for _, r := range rules() {
		c.rule(r)
	}
	for _, capability := range slices.Sorted(maps.Keys(onlyOne())) {
		c.onlyOne(capability)
	}
	for _, n := range needs() {
		c.need(n)
	}
	for _, n := range networkOptions() {
		c.network(n)
	}
	c.hardening()
	return c.Findings()
}

type checker struct {
	diag.List
	installer *spec.Installer
	metas     []Meta
}

// entry is an add-on or section of the Installer.
type entry struct {
	version string // empty for a section
	options spec.Options
	pos     diag.Pos
}

func (c *checker) entry(key string) (entry, bool) {
	for _, a := range c.installer.AddOns {
		if a.Key == key {
			return entry{a.Version, a.Options, a.Pos}, true
		}
	}
	for _, s := range c.installer.Sections {
		if s.Key == key {
			return entry{options: s.Options, pos: s.Pos}, true
		}
	}
	return entry{}, false
}

func (c *checker) rule(r rule) {
	subject, about, applies := c.applies(r)
	switch {
	case !applies:
	case r.warns:
		c.Warnf(about.pos, r.fix, "%s: %s", subject, r.why)
	default:
		c.Errorf(about.pos, r.fix, "%s: %s", subject, r.why)
	}
}

// applies reports whether a rule refuses the Installer. subject names the refused thing, about its position.
func (c *checker) applies(r rule) (subject string, about entry, applies bool) {
	about, there := c.entry(r.key)
	if !there || !r.hold(about.version) {
		return "", about, false
	}
	subject = r.key + ".version " + about.version
	if r.option != "" {
		value, set := about.options[r.option]
		number, _ := value.(int64)
		if !set || value == false || value == "" || value == int64(0) || slices.Contains(r.allowed, fmt.Sprint(value)) || r.atLeast > 0 && number >= r.atLeast {
			return "", about, false
		}
		subject = fmt.Sprintf("%s.%s %v", r.key, r.option, value)
	}
	if r.with != "" {
		other, there := c.entry(r.with)
		if !there || !r.inWith.hold(other.version) {
			return "", about, false
		}
		subject += fmt.Sprintf(" does not go with %s.version %s", r.with, other.version)
	}
	return subject, about, true
}

func (c *checker) onlyOne(capability string) {
	var first string
	for _, a := range c.installer.AddOns {
		switch {
		case !slices.Contains(c.provides(a.Name), capability):
		case first == "":
			first = a.Key
		default:
			c.Errorf(a.Pos, "remove one of them", "%s and %s: a cluster has one %s", first, a.Key, onlyOne()[capability])
		}
	}
}

func (c *checker) need(n need) {
	about, unmet := c.unmet(n)
	if !unmet {
		return
	}
	subject := n.key + ".version " + about.version
	if n.option != "" {
		subject = fmt.Sprintf("%s.%s %v", n.key, n.option, about.options[n.option])
	}
	if n.warns {
		c.Warnf(about.pos, n.fix, "%s: %s", subject, n.why)
		return
	}
	c.Errorf(about.pos, n.fix, "%s: %s", subject, n.why)
}

// hardening refuses an option that contradicts kubernetes.hardening. An encryptSecrets of false does not: it leaves out that part.
func (c *checker) hardening() {
	about, _ := c.entry("kubernetes")
	if about.options["hardening"] == "strict" && about.options["cisCompliance"] == false {
		c.Errorf(about.pos, "remove one of them", "kubernetes.hardening strict: it includes kubernetes.cisCompliance, which is false")
	}
}

// network refuses a network that cannot be read. The host that installs checks whether the cluster can have it.
func (c *checker) network(n networkOption) {
	if value, about, unreadable := c.unreadable(n); unreadable {
		c.Errorf(about.pos, "write a network such as 10.32.0.0/20, or leave it out", "%s.%s %s: it is not a network", n.key, n.option, value)
	}
}

func (c *checker) unreadable(n networkOption) (value string, about entry, unreadable bool) {
	about, _ = c.entry(n.key)
	value, _ = about.options[n.option].(string)
	if value == "" {
		return value, about, false
	}
	for one := range strings.SplitSeq(value, ",") {
		if _, err := netip.ParsePrefix(one); err != nil {
			return value, about, true
		}
	}
	return value, about, false
}

// unmet reports whether the Installer needs a capability that it certainly lacks. about names the one that needs it.
func (c *checker) unmet(n need) (about entry, unmet bool) {
	about, there := c.entry(n.key)
	if !there || n.unless != "" && about.options[n.unless] == true || n.option != "" && about.options[n.option] != true {
		return about, false
	}
	for _, a := range c.installer.AddOns {
		unknown := c.metas == nil && (!spec.Listed(a.Key) || a.Key == n.perhaps)
		provided := c.provides(a.Name)
		if unknown || slices.Contains(provided, n.capability) || n.or != "" && slices.Contains(provided, n.or) {
			return about, false
		}
	}
	return about, true
}

func (c *checker) provides(name string) []string {
	if at := slices.IndexFunc(c.metas, func(m Meta) bool { return m.Name == name }); at >= 0 {
		return c.metas[at].Capabilities()
	}
	return kurlProvides(name)
}

// hold reports whether v is certainly in the range. A word such as nightly cannot be compared and is not.
func (s versions) hold(v string) bool {
	if s == (versions{}) {
		return true
	}
	oldest, newest := v, v
	switch line, isLine := strings.CutSuffix(v, ".x"); {
	case v == Latest:
		oldest, newest = newestOfAll, newestOfAll
	case isLine:
		oldest, newest = line, line+"."+newestOfAll
	}
	oldest, newest = strings.TrimPrefix(oldest, "v"), strings.TrimPrefix(newest, "v")
	if oldest == "" || !isDigit(rune(oldest[0])) {
		return false
	}
	return (s.from == "" || CompareVersions(oldest, s.from) >= 0) && (s.below == "" || CompareVersions(newest, s.below) < 0)
}

// Latest is the pattern for the newest version in a store.
const Latest = "latest"

// newestOfAll is a version part that is greater than any other.
const newestOfAll = "999999999"

// CheckVersions is Check for versions of add-ons in one cluster, by their names.
func CheckVersions(versions map[string]string) []diag.Finding {
	i := &spec.Installer{}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		i.AddOns = append(i.AddOns, spec.AddOn{Name: name, Key: spec.Key(name), Version: versions[name]})
	}
	return Check(i, nil)
}
