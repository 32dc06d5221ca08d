// Package comparison says what one bundle has that an earlier one has not, and the reverse: add-ons, images, packages and modules, licenses,
// options, objects and vulnerabilities.
//
// It reads both bundles whole, and changes nothing. The same bundles give the same result.
package comparison

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/licensing"
	"github.com/sealift/sealift/builder/vulnerability"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/manifest"
)

// Difference is the difference of two bundles. A list is empty if nothing changed.
type Difference struct {
	Was string `json:"was"` // digest of the index of the earlier bundle
	Now string `json:"now"`
	// AddOns have versions, Images the tags and digests of each repository, Software the versions of packages and modules.
	AddOns   []manifest.Change `json:"addOns"`
	Images   []manifest.Change `json:"images"`
	Software []manifest.Change `json:"software"`
	// Licenses are those of each component.
	Licenses []manifest.Change `json:"licenses"`
	// Settings are those of the Installers. Options are what add-ons accept.
	Settings []manifest.Change `json:"settings"`
	Options  []manifest.Change `json:"options"`
	Objects  []manifest.Change `json:"objects"` // of Kubernetes, in the YAML of add-ons
	// Vulnerabilities is nil without a database.
	Vulnerabilities *Vulnerabilities `json:"vulnerabilities,omitempty"`
	// Unknown says what could not be compared.
	Unknown []string `json:"unknown,omitempty"`
}

// Vulnerabilities are known ones, by a database. Excepted ones do not count.
type Vulnerabilities struct {
	Added []vulnerability.Finding `json:"added"`
	Gone  []vulnerability.Finding `json:"gone"`
}

// Empty reports whether the bundles have the same content.
func (d *Difference) Empty() bool {
	return len(d.AddOns)+len(d.Images)+len(d.Software)+len(d.Licenses)+len(d.Settings)+len(d.Options)+len(d.Objects) == 0 &&
		(d.Vulnerabilities == nil || len(d.Vulnerabilities.Added)+len(d.Vulnerabilities.Gone) == 0)
}

// Options says how to compare.
type Options struct {
	// Database finds vulnerabilities, unless it is nil.
	Database   *vulnerability.Database
	Exceptions *vulnerability.Exceptions
	// Public returns the settings of an Installer without secrets.
	Public func(settings map[string]any) map[string]any
}

// side is one of two bundles.
type side struct {
	archive  *bundle.Archive
	listed   *inventory.Inventory
	licenses *licensing.Report
	facts
}

// Between compares two bundles or packages.
func Between(ctx context.Context, old, current *bundle.Archive, o Options) (*Difference, error) {
	was, err := look(ctx, old, o)
	if err != nil {
		return nil, fmt.Errorf("the earlier bundle: %w", err)
	}
	now, err := look(ctx, current, o)
	if err != nil {
		return nil, fmt.Errorf("the later bundle: %w", err)
	}
	d := &Difference{
		Was: "sha256:" + old.Digest, Now: "sha256:" + current.Digest,
		AddOns:   manifest.Changes("", was.addOns(), now.addOns()),
		Images:   manifest.Changes("", was.images(), now.images()),
		Software: manifest.Changes("", was.software(), now.software()),
		Licenses: manifest.Changes("", was.licensed(), now.licensed()),
		Settings: manifest.Changes("", was.settings, now.settings),
		Options:  manifest.Changes("", was.options, now.options),
		Objects:  manifest.Changes("", was.objects, now.objects),
	}
	unknown := slices.Concat(was.unknown, now.unknown, was.licenses.Unread, now.licenses.Unread)
	slices.Sort(unknown)
	d.Unknown = slices.Compact(unknown)
	if o.Database != nil {
		before, err := o.Database.Match(ctx, was.listed, o.Exceptions)
		if err != nil {
			return nil, err
		}
		after, err := o.Database.Match(ctx, now.listed, o.Exceptions)
		if err != nil {
			return nil, err
		}
		d.Vulnerabilities = new(Vulnerabilities)
		d.Vulnerabilities.Added, _ = after.Since(before)
		d.Vulnerabilities.Gone, _ = before.Since(after)
	}
	return d, nil
}

func look(ctx context.Context, a *bundle.Archive, o Options) (s side, err error) {
	s.archive = a
	if s.listed, err = inventory.Read(ctx, a, inventory.Options{}); err != nil {
		return s, err
	}
	if s.licenses, err = licensing.Of(a, s.listed); err != nil {
		return s, err
	}
	s.facts, err = factsOf(ctx, a, o.Public)
	return s, err
}

// lists maps names to lists of descriptions.
type lists map[string][]string

func (l lists) add(name, description string) { l[name] = append(l[name], description) }

// joined has each description of a name once, in order.
func (l lists) joined() map[string]string {
	all := make(map[string]string, len(l))
	for name, descriptions := range l {
		slices.Sort(descriptions)
		all[name] = strings.Join(slices.Compact(descriptions), ", ")
	}
	return all
}

func (s side) addOns() map[string]string {
	found := make(lists)
	for _, p := range s.archive.Index.Packages {
		found.add(p.Name, p.Version)
	}
	return found.joined()
}

func (s side) images() map[string]string {
	found := make(lists)
	for _, i := range s.listed.Images {
		repository := ocilayout.Repository(i.Ref)
		found.add(repository, strings.TrimPrefix(strings.TrimPrefix(i.Ref, repository), ":")+" "+i.Digest)
	}
	return found.joined()
}

// software has the versions of packages and modules, and the digests of assets.
func (s side) software() map[string]string {
	found := make(lists)
	for _, o := range s.listed.Occurrences() {
		name := "module " + o.Name
		if o.Kind != component.Go {
			name = strings.TrimSpace("package "+o.Name+" of "+o.System) + " " + o.Arch
		}
		version := o.Version
		if version == "" {
			version = "of unknown version"
		}
		found.add(strings.TrimSpace(name), version)
	}
	for _, p := range s.archive.Index.Packages {
		for _, a := range p.Assets {
			found.add("asset "+a.Name+" of "+p.Name, "sha256:"+a.SHA256)
		}
	}
	return found.joined()
}

// licensed has the licenses of components. Files count by their places, modules and packages by their names.
func (s side) licensed() map[string]string {
	found := make(lists)
	for _, c := range s.licenses.Components {
		name := c.Name
		switch c.Kind {
		case licensing.Image:
			name = ocilayout.Repository(name)
		case licensing.File:
			name = strings.TrimSpace(ocilayout.Repository(c.Places[0].Image) + " " + path.Clean(name))
		case licensing.Package:
			name += " of " + c.System
		}
		found.add(string(c.Kind)+" "+name, c.License)
	}
	return found.joined()
}

// flat adds the values below one to all, by their paths.
func flat(all map[string]string, at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			flat(all, strings.TrimPrefix(at+"."+key, "."), value[key])
		}
	case []any:
		for n, one := range value {
			flat(all, fmt.Sprintf("%s[%d]", at, n), one)
		}
	default:
		all[at] = fmt.Sprint(value)
	}
}
