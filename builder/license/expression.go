package license

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// NoAssertion is SPDX's term for no information.
const NoAssertion = "NOASSERTION"

// refPrefix begins the identifier of a license that is not on SPDX's list.
const refPrefix = "LicenseRef-"

// known maps the names that packages use to SPDX identifiers. Names on SPDX's list map to themselves.
func known() map[string]string {
	names := map[string]string{
		"Expat": "MIT", "ASL 2.0": "Apache-2.0", "Artistic": "Artistic-1.0", "PSF-2": "PSF-2.0", "Python": "Python-2.0",
		"BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "BSD-4-clause": "BSD-4-Clause", "zlib": "Zlib",
		"MPLv1.1": "MPL-1.1", "MPLv2.0": "MPL-2.0", "ISC License": "ISC",
	}
	for _, id := range []string{"MIT", "Apache-1.1", "Apache-2.0", "Artistic-1.0", "Artistic-2.0", "BSD-2-Clause", "BSD-3-Clause",
		"BSD-4-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MPL-1.1", "MPL-2.0", "OFL-1.1", "OpenSSL", "PSF-2.0", "Unlicense", "X11", "Zlib",
		"curl", "0BSD", "Beerware", "OLDAP-2.8", "Sleepycat", "bzip2-1.0.6", "FSFAP", "FSFUL", "FSFULLR"} {
		names[id] = id
	}
	for _, family := range []struct {
		name     string
		versions []string
	}{
		{"GPL", []string{"1.0", "2.0", "3.0"}}, {"LGPL", []string{"2.0", "2.1", "3.0"}}, {"AGPL", []string{"3.0"}},
		{"GFDL", []string{"1.1", "1.2", "1.3"}},
	} {
		for _, version := range family.versions {
			only, later := family.name+"-"+version+"-only", family.name+"-"+version+"-or-later"
			names[only], names[later] = only, later
			for _, v := range []string{version, strings.TrimSuffix(version, ".0")} {
				for _, form := range []string{family.name + "-" + v, family.name + "v" + v} {
					names[form], names[form+"+"] = only, later
				}
			}
		}
	}
	return names
}

// Expression converts a package's license statements to one SPDX expression that joins them with AND (SPDX 2.3, annex D).
// Unknown names become LicenseRef identifiers, and refs maps these to the original names. No statements give NOASSERTION.
func Expression(statements []string) (expression string, refs map[string]string) {
	p := &parser{known: known(), refs: make(map[string]string)}
	var parts []string
	for _, s := range statements {
		part := p.statement(s)
		if part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return NoAssertion, nil
	}
	if len(parts) > 1 {
		for i, part := range parts {
			if strings.Contains(part, " OR ") {
				parts[i] = "(" + part + ")"
			}
		}
	}
	return strings.Join(parts, " AND "), p.refs
}

// parser parses statements. Words are licenses; and, or and parentheses join them.
type parser struct {
	known map[string]string
	refs  map[string]string // identifier to name
	words []string
}

// statement parses one statement. If it is not an expression, such as "GPL-2+ with OpenSSL exception", it is one license
// with that name.
func (p *parser) statement(s string) string {
	p.words = strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
	if len(p.words) == 0 {
		return ""
	}
	before := maps.Clone(p.refs)
	if id := p.known[s]; id != "" {
		return id
	}
	if parsed, ok := p.either(maxNesting); ok && len(p.words) == 0 {
		return parsed
	}
	p.refs = before
	return p.name(strings.Join(strings.Fields(s), " "))
}

// maxNesting is the deepest nesting of parentheses.
const maxNesting = 8

func (p *parser) either(depth int) (string, bool) {
	return p.join("or", " OR ", func() (string, bool) { return p.both(depth) })
}

func (p *parser) both(depth int) (string, bool) {
	return p.join("and", " AND ", func() (string, bool) { return p.one(depth) })
}

// join parses one operand or more with an operator between them.
func (p *parser) join(operator, symbol string, operand func() (string, bool)) (string, bool) {
	first, ok := operand()
	parts := []string{first}
	for ok && len(p.words) > 0 && strings.EqualFold(p.words[0], operator) {
		p.words = p.words[1:]
		var next string
		next, ok = operand()
		parts = append(parts, next)
	}
	return strings.Join(parts, symbol), ok
}

func (p *parser) one(depth int) (string, bool) {
	if len(p.words) == 0 || depth == 0 {
		return "", false
	}
	word := p.words[0]
	p.words = p.words[1:]
	switch {
	case word == "(":
		inner, ok := p.either(depth - 1)
		if !ok || len(p.words) == 0 || p.words[0] != ")" {
			return "", false
		}
		p.words = p.words[1:]
		return "(" + inner + ")", true
	case word == ")", strings.Contains(word, ","), slices.Contains([]string{"and", "or", "with"}, strings.ToLower(word)):
		return "", false
	}
	return p.name(word), true
}

// name returns the identifier of a license. The same name always yields the same identifier. A name with characters that SPDX
// does not allow gets a part of its digest, so that different names have different identifiers.
func (p *parser) name(name string) string {
	if id := p.known[name]; id != "" {
		return id
	}
	clean := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
	id := refPrefix + clean
	if clean != name {
		sum := sha256.Sum256([]byte(name))
		id += "-" + hex.EncodeToString(sum[:4])
	}
	p.refs[id] = name
	return id
}
