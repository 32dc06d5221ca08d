package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/internal/diag"
)

// Update is the next version of an add-on.
type Update struct {
	AddOn   string
	Version string
	template.Options
}

// CurrentError reports that upstream has nothing newer.
type CurrentError struct{ AddOn, Version string }

func (e *CurrentError) Error() string {
	return fmt.Sprintf("%s %s is the newest version that upstream has", e.AddOn, e.Version)
}

// RefusedError reports that a new version breaks rules.
type RefusedError struct {
	AddOn, Version string
	Broken         []string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %s was not written: %s", e.AddOn, e.Version, strings.Join(e.Broken, "; "))
}

// Next chooses the next version of an add-on, and the values of its other parameters. An empty version means the newest one that
// breaks no rule. A parameter in given has that value. Others have what belongs to the version, or else the newest value, or else the
// value of the version before. The error is a *CurrentError if there is nothing newer, and a *RefusedError if a rule forbids it.
func (s *Source) Next(ctx context.Context, c *Catalogue, name, version string, given map[string]string, q Query) (Update, error) {
	a, known := c.addOns[name]
	if !known {
		return Update{}, fmt.Errorf("the catalogue has no add-on %s with a template (%s)", name, diag.DidYouMean(name, c.Names(), "known: "))
	}
	if err := q.check(c); err != nil {
		return Update{}, err
	}
	if _, ruled := a.rules[origin.VersionParameter]; !ruled {
		return Update{}, fmt.Errorf("add-on %s: its addon.yaml does not say where its versions come from; add upstream: {VERSION: …}, or write the version with sealift addon new-version", name)
	}
	var err error
	if version == "" {
		version, err = s.newest(ctx, c, a, q)
	} else {
		err = s.offered(ctx, c, a, version)
	}
	if err != nil {
		return Update{}, err
	}
	u := Update{AddOn: name, Version: version, Options: template.Options{From: a.before(version), Set: maps.Clone(given)}}
	if u.Set == nil {
		u.Set = map[string]string{}
	}
	values := map[string]string{}
	if u.From != "" {
		if values, err = a.template.Values(u.From); err != nil {
			return Update{}, err
		}
	}
	values[origin.VersionParameter] = version
	return u, s.complete(ctx, a, u, values, q)
}

// before returns the version from which a new one takes what nobody names: the newest older one, or else the newest.
func (a addOn) before(version string) (from string) {
	from = a.newest()
	for _, v := range a.versions {
		if catalog.CompareVersions(v, version) < 0 {
			from = v
		}
	}
	return from
}

// newest returns the newest version that breaks no rule.
func (s *Source) newest(ctx context.Context, c *Catalogue, a addOn, q Query) (string, error) {
	var refused error
	newest := ""
	for _, r := range s.rows(ctx, c, a, origin.VersionParameter, q) { // oldest line first
		switch {
		case r.Status == Failed:
			return "", errors.New(strings.TrimSuffix(r.Error+"; "+r.Hint, "; "))
		case r.Updates():
			newest = r.Newest
		case r.Status == Outdated && refused == nil:
			refused = &RefusedError{a.name, r.Newest, r.Broken}
		}
	}
	switch {
	case newest != "":
		return newest, nil
	case refused != nil:
		return "", refused
	}
	return "", &CurrentError{a.name, a.newest()}
}

// offered returns why a version cannot be written: upstream does not have it, or a rule forbids it.
func (s *Source) offered(ctx context.Context, c *Catalogue, a addOn, version string) error {
	releases, err := s.Releases(ctx, a.rules[origin.VersionParameter], a.values)
	if err != nil {
		return err
	}
	var versions []string
	for _, r := range releases {
		if r.Version != version {
			versions = append(versions, r.Version)
			continue
		}
		broken := c.Broken(a.name, version)
		if r.Withdrawn != "" {
			broken = append(broken, fmt.Sprintf("upstream withdrew %s: %s", version, r.Withdrawn))
		}
		if len(broken) > 0 {
			return &RefusedError{a.name, version, broken}
		}
		return nil
	}
	slices.SortFunc(versions, func(x, y string) int { return compare(a.rules[origin.VersionParameter].Order, y, x) })
	const shown = 5
	return fmt.Errorf("upstream has no %s %s; its newest are %s", a.name, version, strings.Join(versions[:min(shown, len(versions))], ", "))
}

// complete adds the values of parameters that a version has and nobody gave.
func (s *Source) complete(ctx context.Context, a addOn, u Update, values map[string]string, q Query) error {
	set := map[string]bool{origin.VersionParameter: true}
	for name := range u.Set {
		set[strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = true
	}
	for _, p := range a.template.Parameters() {
		rule, ruled := a.rules[p]
		if set[p] || !ruled || q.ignores(a.name, p, "") {
			continue
		}
		releases, err := s.Releases(ctx, rule, values)
		if err != nil {
			return fmt.Errorf("find the value of %s: %w; or give it with --set", p, err)
		}
		row := Row{Has: values[p]}
		if rule.Follows() {
			if len(releases) == 0 {
				return fmt.Errorf("find the value of %s: %s names none; give it with --set", p, title(rule))
			}
			row.Newest = releases[0].Version
		} else {
			comparison{addOn: a, parameter: p, rule: rule, releases: releases, query: q}.compare(&row)
		}
		if row.Newest != "" {
			u.Set[p] = row.Newest
		}
	}
	return nil
}
