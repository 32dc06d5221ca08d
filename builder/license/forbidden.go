package license

import (
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/diag"
)

// Nearest returns the identifier that somebody may have meant by a name, or "".
func Nearest(name string) string {
	if id := identifier(name); id != "" {
		return id
	}
	return diag.Nearest(name, slices.Sorted(maps.Values(known())))
}

// IsIdentifier reports whether Expression can write an identifier, or a license with an exception, such as GPL-2.0-only WITH
// Classpath-exception-2.0.
func IsIdentifier(id string) bool {
	return strings.HasPrefix(id, refPrefix) || id == NoAssertion || id != "" && identifier(id) == id
}

// Forbidden returns the forbidden identifiers in an expression that no choice avoids: who may choose between licenses chooses another one. A
// forbidden license is found with an exception, too.
func Forbidden(expression string, forbidden []string) []string {
	c := &choice{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(expression)), forbidden: forbidden}
	return c.either()
}

// choice evaluates an expression that Expression wrote.
type choice struct {
	words     []string
	forbidden []string
}

// next consumes the next word if it is the given one.
func (c *choice) next(word string) bool {
	if len(c.words) == 0 || c.words[0] != word {
		return false
	}
	c.words = c.words[1:]
	return true
}

func (c *choice) either() []string {
	found := c.both()
	for c.next("OR") {
		if other := c.both(); len(other) == 0 {
			found = nil
		}
	}
	return found
}

func (c *choice) both() []string {
	found := c.one()
	for c.next("AND") {
		for _, id := range c.one() {
			if !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	return found
}

func (c *choice) one() []string {
	if c.next("(") {
		found := c.either()
		c.next(")")
		return found
	}
	if len(c.words) == 0 {
		return nil
	}
	id := c.words[0]
	c.words = c.words[1:]
	whole := id
	if len(c.words) > 1 && c.next(strings.TrimSpace(with)) {
		whole += with + c.words[0]
		c.words = c.words[1:]
	}
	for _, name := range []string{id, whole} {
		if slices.Contains(c.forbidden, name) {
			return []string{name}
		}
	}
	return nil
}

// IDs lists the licenses in an expression that Expression wrote, each with its exception and once, in order.
func IDs(expression string) []string {
	words := strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(expression))
	var ids []string
	for at := 0; at < len(words); at++ {
		switch word := words[at]; {
		case word == "AND" || word == "OR":
		case word == strings.TrimSpace(with) && at+1 < len(words) && len(ids) > 0:
			at++
			ids[len(ids)-1] += with + words[at]
		default:
			ids = append(ids, word)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
