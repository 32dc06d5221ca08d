package upstream

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/internal/diag"
)

// Status is the result of comparing one parameter with its upstream.
type Status string

// The results.
const (
	Current  Status = "current"
	Outdated Status = "outdated"
	Ignored  Status = "ignored"
	Failed   Status = "failed"  // the upstream did not answer
	Unruled  Status = "no rule" // addon.yaml does not say where to look
)

// Row compares one parameter of an add-on with its upstream. VERSION has a row for each line that the catalogue keeps.
type Row struct {
	AddOn     string   `json:"addOn"`
	Parameter string   `json:"parameter"`
	Status    Status   `json:"status"`
	Upstream  string   `json:"upstream,omitempty"`
	Line      string   `json:"line,omitempty"` // such as 1.36
	Has       string   `json:"has,omitempty"`  // empty for a line that the catalogue lacks
	Newest    string   `json:"newest,omitempty"`
	Outside   string   `json:"outside,omitempty"`   // a newer version that Query.Within leaves out
	EndOfLife string   `json:"endOfLife,omitempty"` // date after which upstream does not maintain the line of Has
	Notes     []string `json:"notes,omitempty"`
	Broken    []string `json:"broken,omitempty"` // rules that forbid Newest
	Error     string   `json:"error,omitempty"`
	Hint      string   `json:"hint,omitempty"` // about the error
	Command   string   `json:"command,omitempty"`
}

// Updates reports whether the row is a version that the catalogue could have now.
func (r Row) Updates() bool {
	return r.Status == Outdated && r.Parameter == origin.VersionParameter && len(r.Broken) == 0
}

// Query selects versions.
type Query struct {
	Within origin.Line // only newer versions of the same line; "" for all
	Ignore []Ignore
}

// Ignore leaves out an add-on, one of its parameters, or versions.
type Ignore struct {
	AddOn, Parameter string
	Version          string // a pattern of path.Match; "" means every version
}

// ParseIgnore reads NAME[.PARAMETER][@VERSION], such as containerd.RUNC@1.4.*.
func ParseIgnore(text string) (Ignore, error) {
	var i Ignore
	name, version, _ := strings.Cut(text, "@")
	i.AddOn, i.Parameter, _ = strings.Cut(name, ".")
	i.Version = version
	if _, err := path.Match(version, ""); err != nil || i.AddOn == "" || strings.HasSuffix(text, "@") {
		return i, fmt.Errorf("%q is not of the form NAME[.PARAMETER][@VERSION], such as containerd@2.4.*", text)
	}
	return i, nil
}

func (q Query) ignores(addOn, parameter, version string) bool {
	return slices.ContainsFunc(q.Ignore, func(i Ignore) bool {
		if i.AddOn != addOn || i.Parameter != "" && i.Parameter != parameter {
			return false
		}
		if i.Version == "" || version == "" {
			return i.Version == ""
		}
		matched, err := path.Match(i.Version, version)
		return matched && err == nil
	})
}

// check refuses names that the catalogue does not have, which are typing errors.
func (q Query) check(c *Catalogue) error {
	for _, i := range q.Ignore {
		a, known := c.addOns[i.AddOn]
		if !known {
			return fmt.Errorf("the catalogue has no add-on %s to ignore (%s)", i.AddOn, diag.DidYouMean(i.AddOn, c.Names(), "known: "))
		}
		if parameters := a.template.Parameters(); i.Parameter != "" && !slices.Contains(parameters, i.Parameter) {
			return fmt.Errorf("add-on %s has no parameter %s to ignore (%s)", i.AddOn, i.Parameter, diag.DidYouMean(i.Parameter, parameters, "known: "))
		}
	}
	return nil
}

// atOnce is how many upstreams are asked at the same time.
const atOnce = 8

// Outdated compares a catalogue with its upstreams, in the order of add-ons, parameters and lines. An upstream that does not answer
// has a row that says so, and the others are compared.
func (s *Source) Outdated(ctx context.Context, c *Catalogue, q Query) ([]Row, error) {
	if err := q.check(c); err != nil {
		return nil, err
	}
	var jobs []func() []Row
	for _, name := range c.Names() {
		a := c.addOns[name]
		for _, p := range a.template.Parameters() {
			if rule, ruled := a.rules[p]; !ruled || !rule.Follows() {
				jobs = append(jobs, func() []Row { return s.rows(ctx, c, a, p, q) })
			}
		}
	}
	found := make([][]Row, len(jobs))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, job := range jobs {
		group.Go(func() error {
			found[i] = job()
			return nil
		})
	}
	_ = group.Wait() // failures are in the rows
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.Concat(found...), nil
}

// rows compares one parameter.
func (s *Source) rows(ctx context.Context, c *Catalogue, a addOn, parameter string, q Query) []Row {
	row := Row{AddOn: a.name, Parameter: parameter, Has: a.values[parameter], Status: Unruled}
	rule, ruled := a.rules[parameter]
	if q.ignores(a.name, parameter, "") {
		row.Status = Ignored
	}
	if !ruled || row.Status == Ignored {
		return []Row{row}
	}
	row.Upstream = title(rule)
	releases, err := s.Releases(ctx, rule, a.values)
	if err != nil {
		row.Status, row.Error = Failed, err.Error()
		row.Hint = err.(interface{ Hint() string }).Hint()
		return []Row{row}
	}
	ends, endErr := s.endsOfLife(ctx, rule.EndOfLife)
	list := comparison{addOn: a, rule: rule, releases: releases, query: q, parameter: parameter}.rows(row)
	for i := range list {
		r := &list[i]
		ends.note(r, s.options.Now())
		if endErr != nil {
			r.Error, r.Hint = endErr.Error(), endErr.Hint()
		}
		if r.Status == Outdated && parameter == origin.VersionParameter {
			r.Broken = c.Broken(a.name, r.Newest)
		}
	}
	return list
}

// comparison compares the values of one parameter with what an upstream has.
type comparison struct {
	addOn     addOn
	parameter string
	rule      origin.Rule
	releases  []Release
	query     Query
}

func (c comparison) rows(row Row) (list []Row) {
	if c.rule.Lines == "" || c.parameter != origin.VersionParameter {
		c.compare(&row)
		return []Row{row}
	}
	have := map[string]string{}
	for _, v := range c.addOn.versions { // oldest first
		have[lineOf(c.rule.Lines, v)] = v
	}
	for _, line := range c.lines(have) {
		r := row
		r.Line, r.Has = line, have[line]
		c.compare(&r)
		if r.Has != "" || r.Newest != "" || r.Outside != "" {
			list = append(list, r)
		}
	}
	return list
}

// lines lists the lines of the catalogue, and those of upstream that are newer than its oldest one.
func (c comparison) lines(have map[string]string) (lines []string) {
	oldest := ""
	if len(c.addOn.versions) > 0 {
		oldest = c.addOn.versions[0]
	}
	for line := range have {
		lines = append(lines, line)
	}
	for _, r := range c.releases {
		line := lineOf(c.rule.Lines, r.Version)
		if !r.PreRelease && r.Withdrawn == "" && (oldest == "" || compare(c.rule.Order, r.Version, oldest) > 0) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.SortFunc(lines, catalog.CompareVersions)
	return lines
}

// compare completes a row.
func (c comparison) compare(row *Row) {
	row.Status = Current
	floor := row.Has
	if row.Line != "" && floor == "" { // a new line is compared with the newest version for Within
		floor = c.addOn.newest()
	}
	ignored := ""
	for _, r := range c.releases {
		switch {
		case r.Version == row.Has && r.Withdrawn != "":
			row.Notes = append(row.Notes, fmt.Sprintf("upstream withdrew %s: %s", r.Version, r.Withdrawn))
		case r.PreRelease, r.Withdrawn != "",
			row.Line != "" && lineOf(c.rule.Lines, r.Version) != row.Line,
			row.Has != "" && compare(c.rule.Order, r.Version, row.Has) <= 0:
		case c.query.ignores(c.addOn.name, c.parameter, r.Version):
			ignored = c.newer(ignored, r.Version)
		case c.query.Within != "" && floor != "" && lineOf(c.query.Within, r.Version) != lineOf(c.query.Within, floor):
			row.Outside = c.newer(row.Outside, r.Version)
		default:
			row.Newest = c.newer(row.Newest, r.Version)
		}
	}
	known := func(r Release) bool { return r.Version == row.Has }
	if row.Has != "" && !pseudo(row.Has) && !slices.ContainsFunc(c.releases, known) { // no list has pseudo-versions
		row.Notes = append(row.Notes, "upstream does not list "+row.Has)
	}
	switch {
	case row.Newest != "":
		row.Status = Outdated
	case ignored != "":
		row.Status = Ignored
	}
}

func (c comparison) newer(a, b string) string {
	if a == "" || compare(c.rule.Order, a, b) < 0 {
		return b
	}
	return a
}
