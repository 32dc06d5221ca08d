// Package origin reads the rules by which newer values of a template's parameters are found. They are the section upstream of
// addon.yaml:
//
//	upstream:
//	  VERSION:
//	    github: containerd/containerd    # or module, image, chart, apt, yum, url
//	    tag: v*                          # the value is what * stands for; everything else is not a version
//	    order: semver                    # or kurl, debian
//	    lines: minor                     # the catalogue keeps a version of each minor version, and skips none
//	    endOfLife: containerd            # product of endoflife.date, or a date for each line: {"2.2": 2027-11-06}
//	    skew:
//	    - {from: 2.3.0, addOn: kubernetes, atLeast: 1.33.0}
//
// The package reads rules. It asks no upstream.
package origin

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

// Rule names the upstream of newer values of one parameter.
type Rule struct {
	Kind       Kind
	Name       string // what to look for: a repository, module, chart, package or page
	Repository string // of charts and packages
	Tag        string // with one "*"; "" means "*"
	Match      string // of a page: a regular expression with one group
	Order      Order
	Lines      Line
	EndOfLife  EndOfLife
	Skew       []Skew
}

// Kind is a kind of upstream.
type Kind string

// The kinds of upstreams.
const (
	GitHub   Kind = "github" // releases of owner/repository
	GoModule Kind = "module" // versions on the Go module proxy
	Registry Kind = "image"  // tags of a repository of images
	Chart    Kind = "chart"  // versions in an index of charts, or the tags of oci://
	Apt      Kind = "apt"    // versions in an index of apt
	Yum      Kind = "yum"    // versions in an index of yum
	Page     Kind = "url"    // what a pattern finds on a page
)

func kinds() []string {
	return []string{string(GitHub), string(GoModule), string(Registry), string(Chart), string(Apt), string(Yum), string(Page)}
}

// Order says how versions are compared, and which of them are pre-releases.
type Order string

// The orders of versions.
const (
	SemVer Order = "semver" // Semantic Versioning with three numbers
	KURL   Order = "kurl"   // runs of digits as numbers, everything else as text
	Debian Order = "debian" // deb-version(7)
)

// Line is a set of versions that begin with the same numbers.
type Line string

// The lines of versions.
const (
	MajorLine Line = "major" // the same first number
	MinorLine Line = "minor" // the same first and second number
)

// Lines lists the lines by name.
func Lines() []string { return []string{string(MajorLine), string(MinorLine)} }

// EndOfLife says when upstream stops maintaining a line of versions.
type EndOfLife struct {
	Product string               // of endoflife.date
	Dates   map[string]time.Time // by line, such as 2.2
}

// Skew is a rule about another add-on: from this version on, it must be at least that version.
type Skew struct{ From, AddOn, AtLeast string }

// VersionParameter is the parameter of a template that is the version itself.
const VersionParameter = "VERSION"

// Follows reports whether the value belongs to a version of the add-on, because that version is part of the page's URL.
func (u Rule) Follows() bool { return strings.Contains(u.Name, "${"+VersionParameter+"}") }

var (
	parameterName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	gitHubName    = regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)
	oneWord       = regexp.MustCompile(`^[!-~]+$`)
	product       = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
)

type reader struct{ *strictyaml.Reader }

// Parse reads the section upstream of addon.yaml: rules by the parameters that they are for. Mistakes go to from.
func Parse(from *strictyaml.Reader, n *yaml.Node) map[string]Rule {
	r := &reader{from}
	if !r.IsMapping(n, "upstream") {
		return nil
	}
	rules := map[string]Rule{}
	for at := 0; at+1 < len(n.Content); at += 2 {
		key, body := n.Content[at], n.Content[at+1]
		switch {
		case !parameterName.MatchString(key.Value):
			r.Errorf(r.Pos(key), "name a parameter of the template, such as VERSION", "upstream: %q is not the name of a parameter", key.Value)
		case r.IsMapping(body, "upstream "+key.Value):
			rules[key.Value] = r.rule(key.Value, body)
		}
	}
	return rules
}

func (r *reader) rule(parameter string, body *yaml.Node) Rule {
	var u Rule
	what := "upstream " + parameter
	fields := r.Fields(body, what, append(kinds(), "repository", "tag", "match", "order", "lines", "endOfLife", "skew")...)
	named := slices.DeleteFunc(kinds(), func(kind string) bool { return fields[kind] == nil })
	if len(named) != 1 {
		r.Errorf(r.Pos(body), "write one of "+strings.Join(kinds(), ", "), "%s must name one upstream, not %d", what, len(named))
		return u
	}
	u.Kind = Kind(named[0])
	u.Name = r.Text(fields[named[0]], named[0])
	for key, to := range map[string]*string{"repository": &u.Repository, "tag": &u.Tag, "match": &u.Match} {
		if fields[key] != nil {
			*to = r.Text(fields[key], key)
		}
	}
	u.Order, u.Lines = r.order(fields["order"], u.Kind), r.line(fields["lines"], parameter)
	if n := fields["endOfLife"]; n != nil {
		u.EndOfLife = r.endOfLife(n)
	}
	if n := fields["skew"]; n != nil {
		u.Skew = r.skews(n)
	}
	if mistake, hint := u.mistake(); mistake != "" {
		r.Errorf(r.Pos(fields[named[0]]), hint, "%s: %s", what, mistake)
	}
	return u
}

// mistake returns what is wrong in a rule, or "".
func (u Rule) mistake() (what, hint string) {
	isURL := func(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }
	inRepository := u.Kind == Chart || u.Kind == Apt || u.Kind == Yum
	pattern, err := regexp.Compile(u.Match)
	switch {
	case !oneWord.MatchString(u.Name):
		return strconv.Quote(u.Name) + " is not one word", ""
	case u.Kind == GitHub && !gitHubName.MatchString(u.Name):
		return strconv.Quote(u.Name) + " is not a repository of GitHub", "write owner/repository"
	case u.Kind == Page && !isURL(u.Name):
		return strconv.Quote(u.Name) + " is not a URL", "write https://host/path"
	case inRepository && !isURL(u.Repository) && (u.Kind != Chart || !strings.HasPrefix(u.Repository, "oci://")):
		return "repository " + strconv.Quote(u.Repository) + " is not a URL", "write repository: https://host/path"
	case u.Kind == Apt && len(strings.Fields(u.Repository)) != 3 && !strings.HasSuffix(u.Repository, " ./"):
		return "repository does not name a suite and a component", "write repository: https://host/path bookworm main, or https://host/path ./ for a flat one"
	case u.Kind != Apt && strings.Contains(u.Repository, " "), !inRepository && u.Repository != "":
		return "repository " + strconv.Quote(u.Repository) + " does not belong here", "chart, apt and yum have one"
	case (u.Kind == Page) != (u.Match != ""):
		return "match belongs to url, and url needs it", `write match: Version = "([^"]+)"`
	case err != nil, u.Match != "" && pattern.NumSubexp() != 1:
		return "match is not a regular expression with one group", "the group is the version"
	case u.Tag != "" && strings.Count(u.Tag, "*") != 1:
		return "tag must have one *", "write tag: v*"
	}
	return "", ""
}

func (r *reader) order(n *yaml.Node, kind Kind) Order {
	if n == nil {
		switch kind {
		case Apt:
			return Debian
		case Yum:
			return KURL
		}
		return SemVer
	}
	known := []string{string(SemVer), string(KURL), string(Debian)}
	order := r.Text(n, "order")
	if !slices.Contains(known, order) {
		r.Errorf(r.Pos(n), diag.DidYouMean(order, known, "known: "), "unknown order %q of versions", order)
	}
	return Order(order)
}

func (r *reader) line(n *yaml.Node, parameter string) Line {
	if n == nil {
		return ""
	}
	line := r.Text(n, "lines")
	switch {
	case !slices.Contains(Lines(), line):
		r.Errorf(r.Pos(n), diag.DidYouMean(line, Lines(), "known: "), "unknown line %q of versions", line)
	case parameter != VersionParameter:
		r.Errorf(r.Pos(n), "", "only VERSION has lines: a catalogue has one value of %s for each version", parameter)
	}
	return Line(line)
}

func (r *reader) endOfLife(n *yaml.Node) EndOfLife {
	if n.Kind == yaml.ScalarNode {
		name := r.Text(n, "endOfLife")
		if !product.MatchString(name) {
			r.Errorf(r.Pos(n), "", "endOfLife %q is not a product of endoflife.date", name)
		}
		return EndOfLife{Product: name}
	}
	e := EndOfLife{Dates: map[string]time.Time{}}
	if !r.IsMapping(n, "endOfLife") {
		return e
	}
	for at := 0; at+1 < len(n.Content); at += 2 {
		text := r.Text(n.Content[at+1], "a date of endOfLife")
		date, err := time.Parse(time.DateOnly, text)
		if err != nil {
			r.Errorf(r.Pos(n.Content[at+1]), "write 2027-11-06", "endOfLife: %q is not a date", text)
		}
		e.Dates[n.Content[at].Value] = date
	}
	return e
}

func (r *reader) skews(n *yaml.Node) (list []Skew) {
	if n.Kind != yaml.SequenceNode {
		r.Errorf(r.Pos(n), "write skew: [{from: 1.36.0, addOn: containerd, atLeast: 2.0.0}]", "skew must be a list")
		return nil
	}
	for _, item := range n.Content {
		if !r.IsMapping(item, "an element of skew") {
			continue
		}
		var s Skew
		texts := map[string]*string{"from": &s.From, "addOn": &s.AddOn, "atLeast": &s.AtLeast}
		fields := r.Fields(item, "skew", slices.Sorted(maps.Keys(texts))...)
		for key, to := range texts {
			if fields[key] == nil {
				r.Errorf(r.Pos(item), "", "skew has no %s", key)
				continue
			}
			*to = r.Text(fields[key], key)
		}
		list = append(list, s)
	}
	return list
}
