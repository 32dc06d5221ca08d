package license

import (
	"maps"
	"slices"
	"strings"
)

// Identifiers lists the SPDX identifiers that Expression writes, in order. Beside them, it writes those that begin with LicenseRef-.
func Identifiers() []string {
	ids := slices.Collect(maps.Values(known()))
	slices.Sort(ids)
	return append(slices.Compact(ids), NoAssertion)
}

// IsIdentifier reports whether Expression can write an identifier.
func IsIdentifier(id string) bool {
	return strings.HasPrefix(id, refPrefix) || slices.Contains(Identifiers(), id)
}

// Forbidden returns the forbidden identifiers in an expression that no choice avoids: who may choose between licenses chooses another one.
func Forbidden(expression string, forbidden []string) []string {
	c := &choice{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(expression)), forbidden: forbidden}
	return c.either()
}

// choice evaluates an expression that Expression wrote.
type choice struct {
	words     []string
	forbidden []string
}

// next takes the next word if it is the given one.
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
	if slices.Contains(c.forbidden, id) {
		return []string{id}
	}
	return nil
}
