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

// Expression converts a package's license statements to one SPDX expression that joins them with AND (SPDX 2.3, annex D).
// Unknown names become LicenseRef identifiers, and refs maps these to the original names. No statements give NOASSERTION.
func Expression(statements []string) (expression string, refs map[string]string) {
	p := &parser{refs: make(map[string]string)}
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
	refs  map[string]string // identifier to name
	words []string
}

// statement parses one statement. If it is not an expression, such as "GPL-2+ or Artistic, and BSD", it is one license with that name. A
// statement that there is no license, or none that is known, says nothing.
func (p *parser) statement(s string) string {
	p.words = strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
	if len(p.words) == 0 || slices.Contains([]string{NoAssertion, "NONE", "UNKNOWN"}, strings.ToUpper(strings.TrimSpace(s))) {
		return ""
	}
	before := maps.Clone(p.refs)
	if id := identifier(strings.TrimSpace(s)); id != "" {
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
	if p.words[0] == "(" {
		p.words = p.words[1:]
		inner, ok := p.either(depth - 1)
		if !ok || len(p.words) == 0 || p.words[0] != ")" {
			return "", false
		}
		p.words = p.words[1:]
		return "(" + inner + ")", true
	}
	end := slices.IndexFunc(p.words, func(word string) bool {
		return word == "(" || word == ")" || strings.EqualFold(word, "and") || strings.EqualFold(word, "or")
	})
	if end < 0 {
		end = len(p.words)
	}
	name := strings.Join(p.words[:end], " ")
	p.words = p.words[end:]
	if name == "" || strings.Contains(name, ",") || strings.EqualFold(name, "with") {
		return "", false
	}
	return p.name(name), true
}

// name returns the identifier of a license. The same name always yields the same identifier. A name with characters that SPDX
// does not allow gets a part of its digest, so that different names have different identifiers.
func (p *parser) name(name string) string {
	if id := identifier(name); id != "" {
		return id
	}
	clean := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
	id := refPrefix + strings.TrimPrefix(clean, refPrefix)
	if clean != name || clean == refPrefix {
		sum := sha256.Sum256([]byte(name))
		id += "-" + hex.EncodeToString(sum[:4])
	}
	p.refs[id] = name
	return id
}
