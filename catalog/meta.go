package catalog

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/spec"
)

const maxMetaSize = 64 << 10 // bytes

// OptionType is the type of an option's value, as JSON Schema names it.
type OptionType string

// The types that an option may have.
const (
	String  OptionType = "string"
	Boolean OptionType = "boolean"
	Integer OptionType = "integer"
	Number  OptionType = "number"
	Array   OptionType = "array"
	Object  OptionType = "object"
)

func optionTypes() []string {
	return []string{string(String), string(Boolean), string(Integer), string(Number), string(Array), string(Object)}
}

// Option describes one option of an add-on: a small part of JSON Schema.
type Option struct {
	Type        OptionType `json:"type"`
	Description string     `json:"description,omitempty"`
	Default     any        `json:"default,omitempty"`
	Enum        []any      `json:"enum,omitempty"` // the values allowed; empty allows every value of the type
}

// CheckOptions checks an Installer's options against the add-on's declaration. The error names every mistake. An add-on
// that declares no options accepts all. s3Override is always allowed, because the Installer handles it.
func (m Meta) CheckOptions(options map[string]any) error {
	if len(m.Options) == 0 {
		return nil
	}
	known := slices.Sorted(maps.Keys(m.Options))
	var mistakes []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		option, declared := m.Options[key]
		switch {
		case key == "s3Override":
		case !declared:
			mistakes = append(mistakes, fmt.Sprintf("no option %q (%s)", key, diag.DidYouMean(key, known, "known: ")))
		case !option.Type.holds(options[key]):
			mistakes = append(mistakes, fmt.Sprintf("option %s must be of type %s", key, option.Type))
		case !option.allows(options[key]):
			mistakes = append(mistakes, fmt.Sprintf("option %s must be one of %v", key, option.Enum))
		}
	}
	if len(mistakes) == 0 {
		return nil
	}
	return fmt.Errorf("add-on %s %s: %s", m.Name, m.Version, strings.Join(mistakes, "; "))
}

// Typed returns an add-on of an Installer whose options have the declared types, also those that came as words of a command line. It checks
// all of them as CheckOptions does.
func (m Meta) Typed(a spec.AddOn) (spec.AddOn, error) {
	if len(a.Words) > 0 {
		a.Options = maps.Clone(a.Options)
	}
	for _, key := range a.Words {
		if text, isText := a.Options[key].(string); isText {
			a.Options[key] = m.Options[key].Type.fromWord(text)
		}
	}
	a.Words = nil
	return a, m.CheckOptions(a.Options)
}

// WithDefaults returns an Installer's options, with the declared defaults for those that it does not set.
func (m Meta) WithDefaults(options map[string]any) map[string]any {
	all := maps.Clone(options)
	for key, option := range m.Options {
		if _, set := all[key]; !set && option.Default != nil {
			if all == nil {
				all = make(map[string]any)
			}
			all[key] = option.Default
		}
	}
	return all
}

// holds reports whether a value has the type. A number is not a string, because versions and numbers must be written as
// text. Every integer is a number.
func (t OptionType) holds(v any) bool {
	switch v.(type) {
	case string:
		return t == String
	case bool:
		return t == Boolean
	case int64:
		return t == Integer || t == Number
	case float64:
		return t == Number
	case []any:
		return t == Array
	case map[string]any:
		return t == Object
	}
	return false
}

// plainNumber matches what fromWord takes for a number.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// fromWord converts a word of a command line to the type. The items of a list are text, separated by commas. A word that cannot be
// converted stays text.
func (t OptionType) fromWord(word string) any {
	switch t {
	case Boolean:
		if b, err := strconv.ParseBool(word); err == nil {
			return b
		}
	case Integer, Number:
		if !plainNumber.MatchString(word) {
			return word
		}
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(word, 64); err == nil {
			return f
		}
	case Array:
		var items []any
		for item := range strings.SplitSeq(word, ",") {
			items = append(items, item)
		}
		return items
	}
	return word
}

func (o Option) allows(v any) bool {
	return len(o.Enum) == 0 || slices.ContainsFunc(o.Enum, func(allowed any) bool { return reflect.DeepEqual(allowed, v) })
}

// relation matches the names of add-ons and capabilities.
var relation = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// licenseExpression matches identifiers of SPDX, and expressions of them (SPDX 2.3, annex D).
var licenseExpression = regexp.MustCompile(`^\(*[A-Za-z0-9.+-]+\)*( (AND|OR|WITH) \(*[A-Za-z0-9.+-]+\)*)*$`)

// parse reads addon.yaml into m.
func (m *Meta) parse(file string, data []byte) error {
	r := metaReader{strictyaml.Reader{Name: file}}
	if len(data) > maxMetaSize {
		r.Errorf(diag.Pos{File: file}, "", "larger than %d bytes", maxMetaSize)
		return r.Err()
	}
	root := r.Mapping(data)
	if root == nil {
		return r.Err()
	}
	m.Declared = true
	fields := r.Fields(root, "addon.yaml", "description", "license", "provides", "requires", "after", "silence", "options", "upstream")
	if n := fields["description"]; n != nil {
		m.Description = r.Text(n, "description")
	}
	if n := fields["license"]; n != nil {
		if m.License = r.Text(n, "license"); !licenseExpression.MatchString(m.License) {
			r.Errorf(r.Pos(n), "write what SPDX calls it, such as Apache-2.0", "license is %q", m.License)
		}
	}
	m.Provides = r.relations(fields["provides"], "provides")
	m.Requires = r.relations(fields["requires"], "requires")
	m.After = r.relations(fields["after"], "after")
	if n := fields["silence"]; n != nil {
		m.Silence = r.silence(n)
	}
	if n := fields["options"]; n != nil && r.IsMapping(n, "options") {
		m.Options = r.options(n)
	}
	if n := fields["upstream"]; n != nil {
		m.Upstream = origin.Parse(&r.Reader, n)
	}
	return r.Err()
}

type metaReader struct {
	strictyaml.Reader
}

func (r *metaReader) relations(n *yaml.Node, what string) []string {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.Errorf(r.Pos(n), "write "+what+": [name]", "%s must be a list", what)
		return nil
	}
	var names []string
	for _, item := range n.Content {
		name := r.Text(item, what)
		switch {
		case !relation.MatchString(name):
			r.Errorf(r.Pos(item), "lower-case letters, digits and '-'", "bad name %q in %s", name, what)
		case slices.Contains(names, name):
			r.Errorf(r.Pos(item), "keep one of them", "%s names %s twice", what, name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// MaxHookTime is the total timeout of a hook, such as Rook's own upgrade, disk by disk.
const MaxHookTime = 6 * time.Hour

func (r *metaReader) silence(n *yaml.Node) time.Duration {
	text := r.Text(n, "silence")
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute || d > MaxHookTime {
		r.Errorf(r.Pos(n), "write silence: 45m", "silence must be a time from 1m to %dh, not %q", int(MaxHookTime.Hours()), text)
		return 0
	}
	return d
}

func (r *metaReader) options(n *yaml.Node) map[string]Option {
	options := map[string]Option{}
	for at := 0; at+1 < len(n.Content); at += 2 {
		key, body := n.Content[at].Value, n.Content[at+1]
		if r.IsMapping(body, "option "+key) {
			options[key] = r.option(key, body)
		}
	}
	return options
}

func (r *metaReader) option(key string, body *yaml.Node) Option {
	var o Option
	fields := r.Fields(body, "option "+key, "type", "description", "default", "enum")
	if n := fields["type"]; n == nil {
		r.Errorf(r.Pos(body), "write type: string, or another of "+strings.Join(optionTypes(), ", "), "option %s has no type", key)
		return o
	} else if o.Type = OptionType(r.Text(n, "type")); !slices.Contains(optionTypes(), string(o.Type)) {
		r.Errorf(r.Pos(n), diag.DidYouMean(string(o.Type), optionTypes(), "known: "), "unknown type %q of option %s", o.Type, key)
		return o
	}
	if n := fields["description"]; n != nil {
		o.Description = r.Text(n, "description")
	}
	if n := fields["enum"]; n != nil {
		values, isList := strictyaml.Value(n).([]any)
		if !isList || len(values) == 0 || !all(values, o.Type.holds) {
			r.Errorf(r.Pos(n), "", "enum of option %s must be a list of values of type %s", key, o.Type)
		}
		o.Enum = values
	}
	if n := fields["default"]; n != nil {
		o.Default = strictyaml.Value(n)
		if !o.Type.holds(o.Default) || !o.allows(o.Default) {
			r.Errorf(r.Pos(n), "", "default of option %s is not a value that it allows", key)
		}
	}
	return o
}

func all(values []any, holds func(any) bool) bool {
	return !slices.ContainsFunc(values, func(v any) bool { return !holds(v) })
}
