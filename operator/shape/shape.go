// Package shape checks what hooks write, already decoded from JSON or YAML, against the form that it must have.
//
// A Shape is the small part of a JSON schema that such documents need. Every key that a shape does not name is a mistake,
// because a mistyped key would otherwise silently change nothing. Check finds all mistakes of a document and names each by its
// path, such as kubernetes[0].labelSelector. The package decodes nothing and fills in no defaults.
package shape

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/plaintext"
)

// Shape is the form of one value. Make one with Object, Map, List, Text, Word, Integer, Number, Bool or Any.
type Shape struct {
	kind             string
	fields           map[string]Shape
	required         []string
	element          *Shape // of a list, and of a map's values
	words            []string
	fewest, most     int // fields of an object or items of a list; most 0 means no limit
	unknown, nothing bool
}

// Fields are the keys of an object with the shapes of their values.
type Fields map[string]Shape

// Object is a mapping with these keys only.
func Object(fields Fields, required ...string) Shape {
	return Shape{kind: "object", fields: fields, required: required}
}

// Map is a mapping with any keys, whose values have one shape.
func Map(values Shape) Shape { return Shape{kind: "object", element: &values} }

// List is a list whose items have one shape.
func List(items Shape) Shape { return Shape{kind: "array", element: &items} }

// Word is a string out of these.
func Word(words ...string) Shape { return Shape{kind: "string", words: words} }

// Text is any string.
func Text() Shape { return Shape{kind: "string"} }

// Integer is a whole number; 1.0 is one.
func Integer() Shape { return Shape{kind: "integer"} }

// Number is any number.
func Number() Shape { return Shape{kind: "number"} }

// Bool is true or false.
func Bool() Shape { return Shape{kind: "boolean"} }

// Any is everything.
func Any() Shape { return Shape{kind: "any"} }

// Between limits the number of an object's keys or a list's items. most 0 means no limit.
func (s Shape) Between(fewest, most int) Shape {
	s.fewest, s.most = fewest, most
	return s
}

// Open lets an object have keys that it does not name.
func (s Shape) Open() Shape {
	s.unknown = true
	return s
}

// OrNull lets the value be null.
func (s Shape) OrNull() Shape {
	s.nothing = true
	return s
}

// Mistake is one position where a document does not match its shape.
type Mistake struct {
	Path string // such as kubernetes[0].kind; "" is the whole document
	Text string
}

func (m Mistake) Error() string {
	if m.Path == "" {
		return m.Text
	}
	return m.Path + ": " + m.Text
}

// Check compares a value, as encoding/json decodes it with or without UseNumber, with its shape. path is the path of the value in
// its document, or "".
func (s Shape) Check(value any, path string) []error {
	if value == nil && s.nothing || s.kind == "any" {
		return nil
	}
	if got := kindOf(value); got != s.kind && (s.kind != "number" || got != "integer") {
		return []error{Mistake{path, fmt.Sprintf("must be %s, not %s", article(s.kind), article(got))}}
	}
	switch v := value.(type) {
	case map[string]any:
		return append(s.checkCount(len(v), "key", path), s.checkKeys(v, path)...)
	case []any:
		errs := s.checkCount(len(v), "item", path)
		for i, item := range v {
			errs = append(errs, s.element.Check(item, fmt.Sprintf("%s[%d]", path, i))...)
		}
		return errs
	case string:
		if len(s.words) > 0 && !slices.Contains(s.words, v) {
			return []error{Mistake{path, fmt.Sprintf("%q is not one of %s", v, strings.Join(s.words, ", "))}}
		}
	}
	return nil
}

func (s Shape) checkKeys(v map[string]any, path string) (errs []error) {
	known := slices.Sorted(maps.Keys(s.fields))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		field, ok := s.fields[key]
		switch {
		case s.element != nil:
			field = *s.element
		case !ok && s.unknown:
			continue
		case !ok:
			errs = append(errs, Mistake{join(path, key), "is a forbidden property; " + diag.DidYouMean(key, known, "known: ")})
			continue
		}
		errs = append(errs, field.Check(v[key], join(path, key))...)
	}
	for _, key := range s.required {
		if _, ok := v[key]; !ok {
			errs = append(errs, Mistake{join(path, key), "is required"})
		}
	}
	return errs
}

func (s Shape) checkCount(n int, what, path string) []error {
	switch {
	case n < s.fewest:
		return []error{Mistake{path, "needs at least " + plaintext.Count(s.fewest, what)}}
	case s.most > 0 && n > s.most:
		return []error{Mistake{path, "may have at most " + plaintext.Count(s.most, what)}}
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// kindOf names the kind of a decoded value as JSON schemas do.
func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return "integer"
		}
		return "number"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "integer"
		}
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return fmt.Sprintf("%T", value)
}

func article(kind string) string {
	switch kind {
	case "object", "array", "integer":
		return "an " + kind
	case "null":
		return "null"
	}
	return "a " + kind
}
