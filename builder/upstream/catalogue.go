package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/internal/diag"
)

// Catalogue is the add-ons of a folder with what their templates say about their upstreams.
type Catalogue struct {
	addOns map[string]addOn
}

type addOn struct {
	name     string
	rules    map[string]origin.Rule // by parameter
	unruled  []string               // parameters without a rule
	versions []string               // oldest first
	values   map[string]string      // parameters of the newest version
	template *template.Template
}

// newest returns the newest version, or "" for an add-on that has only a template.
func (a addOn) newest() string {
	if len(a.versions) == 0 {
		return ""
	}
	return a.versions[len(a.versions)-1]
}

// OpenCatalogue reads the add-ons in a folder such as addons. Add-ons without a template have no rules and are left out. Mistakes are
// one error with all of them.
func OpenCatalogue(dir string) (*Catalogue, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	c := &Catalogue{addOns: map[string]addOn{}}
	var errs []error
	for _, e := range entries {
		a, err := readAddOn(dir, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.addOns[a.name] = a
	}
	if len(c.addOns) == 0 && len(errs) == 0 {
		return nil, fmt.Errorf("no add-on in %s has a template: name the directory of the add-ons, such as addons", dir)
	}
	return c, errors.Join(errs...)
}

func readAddOn(dir, name string) (a addOn, err error) {
	a = addOn{name: name}
	if a.template, err = template.Open(filepath.Join(dir, name)); err != nil {
		return a, err
	}
	meta, err := catalog.ReadDir(os.DirFS(dir), path.Join(name, template.DirName), name)
	if err != nil {
		return a, err
	}
	a.rules = meta.Upstream
	parameters := a.template.Parameters()
	for _, p := range parameters {
		if _, ruled := a.rules[p]; !ruled {
			a.unruled = append(a.unruled, p)
		}
	}
	for p := range a.rules {
		if !slices.Contains(parameters, p) {
			return a, fmt.Errorf("%s: upstream names %s, and the template has no such parameter (%s)",
				filepath.Join(dir, name, template.DirName, catalog.MetaFile), p, diag.DidYouMean(p, parameters, "known: "))
		}
	}
	if a.versions, err = template.Versions(filepath.Join(dir, name)); err != nil || len(a.versions) == 0 {
		return a, err
	}
	a.values, err = a.template.Values(a.newest())
	return a, err
}

// Names lists the add-ons.
func (c *Catalogue) Names() []string { return slices.Sorted(maps.Keys(c.addOns)) }

// Broken lists the rules that a new version of an add-on would break: those of the add-on itself about lines and skew, and those of
// the catalogue about which versions go together.
func (c *Catalogue) Broken(name, version string) (broken []string) {
	a := c.addOns[name]
	rule := a.rules[origin.VersionParameter]
	if between := skipped(rule.Lines, a.newest(), version); between != "" {
		broken = append(broken, fmt.Sprintf("%s %s skips %s: clusters are upgraded one %s version at a time", name, version, between, rule.Lines))
	}
	for _, s := range rule.Skew {
		other, known := c.addOns[s.AddOn]
		has := other.newest()
		if known && has != "" && catalog.CompareVersions(version, s.From) >= 0 && catalog.CompareVersions(has, s.AtLeast) < 0 {
			broken = append(broken, fmt.Sprintf("%s %s needs %s %s or newer, and the newest here is %s: update %s first", name, version, s.AddOn, s.AtLeast, has, s.AddOn))
		}
	}
	newest := map[string]string{}
	for _, a := range c.addOns {
		if v := a.newest(); v != "" {
			newest[a.name] = v
		}
	}
	before := catalog.CheckVersions(newest)
	newest[name] = version
	for _, f := range catalog.CheckVersions(newest) {
		known := slices.ContainsFunc(before, func(b diag.Finding) bool { return b.Hint == f.Hint })
		if f.Severity == diag.Error && !known {
			broken = append(broken, strings.TrimSuffix(f.Message+": "+f.Hint, ": "))
		}
	}
	return broken
}

// skipped returns the line that lies between two versions whose lines do not follow each other, or "".
func skipped(line origin.Line, from, to string) string {
	oldMajor, oldMinor := catalog.MajorMinor(strings.TrimPrefix(from, "v"))
	major, minor := catalog.MajorMinor(strings.TrimPrefix(to, "v"))
	switch {
	case oldMajor < 0 || major < 0:
		return ""
	case line == origin.MajorLine && major > oldMajor+1:
		return strconv.Itoa(oldMajor + 1)
	case line == origin.MinorLine && major == oldMajor && minor > oldMinor+1:
		return fmt.Sprintf("%d.%d", major, oldMinor+1)
	}
	return ""
}
