package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Stage is a moment at which values are checked, or filled with defaults.
type Stage int

// The stages: the administrators' values, the same with those of hooks, and again before Helm, when everything that the chart
// needs must be set.
const (
	ConfigValues Stage = iota
	Values
	HelmValues
)

func (s *Set) at(stage Stage) *compiled {
	return []*compiled{s.config, s.values, s.helm}[stage]
}

// Check finds mistakes in values, whose path in errors is key. before are the values that they replace, or nil: some rules are
// about changes. Without a schema all values are valid.
func (s *Set) Check(stage Stage, key string, values, before any) error {
	c := s.at(stage)
	if c == nil {
		return nil
	}
	plain, err := plainOf(values)
	if err != nil {
		return err
	}
	var plainBefore any
	if before != nil && c.rules != nil {
		if plainBefore, err = plainOf(before); err != nil {
			return err
		}
	}
	return c.check(key, plain, plainBefore)
}

// plainOf returns values with the types of encoding/json, which are all that the validator knows.
func plainOf(values any) (plain any, err error) {
	data, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	return plain, err
}

func (c *compiled) check(key string, plain, before any) (err error) {
	defer func() { // a pattern or a bound that the validator does not understand
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: the schema cannot be used: %v", key, r)
		}
	}()
	result := validate.NewSchemaValidator(c.spec, nil, key, strfmt.Default).Validate(plain)
	var errs []error
	for _, e := range result.Errors {
		e = quiet(e)
		if !slices.ContainsFunc(errs, func(known error) bool { return known.Error() == e.Error() }) {
			errs = append(errs, e)
		}
	}
	if len(errs) == 0 { // rules assume the types of the schema
		errs = c.rules.check(key, plain, before)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// quiet leaves out of an error the value that the validator quotes where a format does not fit: values may be secret.
func quiet(err error) error {
	v := (*openapierrors.Validation)(nil)
	if !errors.As(err, &v) {
		return err
	}
	text, ok := v.Value.(string)
	if quoted := fmt.Sprintf(": %q", text); ok && !slices.Contains(typeNames(), text) && strings.HasSuffix(err.Error(), quoted) {
		return errors.New(strings.TrimSuffix(err.Error(), quoted))
	}
	return err
}

// typeNames are the validator's names in a type error.
func typeNames() []string {
	return []string{"null", "boolean", "integer", "number", "string", "array", "object"}
}

// Default sets missing values that have a default in the schema, including inside existing objects and list items. An object
// without a default is not created, and null stays. values is not changed.
func (s *Set) Default(stage Stage, values map[string]any) map[string]any {
	c := s.at(stage)
	if c == nil {
		return values
	}
	out, _ := fill(c.plain, copied(values)).(map[string]any)
	return out
}

// fill changes value, which is its caller's.
func fill(schema map[string]any, value any) any {
	if all, ok := schema["allOf"].([]any); ok {
		for _, part := range all {
			if part, ok := part.(map[string]any); ok {
				value = fill(part, value)
			}
		}
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			property, ok := property.(map[string]any)
			if !ok {
				continue
			}
			below, there := v[name]
			if !there {
				if below = property["default"]; below == nil { // default: null is none
					continue
				}
				below = copied(below)
			}
			v[name] = fill(property, below)
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for i := range v {
				v[i] = fill(items, v[i])
			}
		}
	}
	return value
}

func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, below := range v {
			out[key] = copied(below)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = copied(v[i])
		}
		return out
	}
	return value
}

// below calls visit with every schema that a schema holds, and the key that leads there.
func below(schema map[string]any, visit func(key string, part map[string]any)) {
	one := func(key string, part any) {
		if part, ok := part.(map[string]any); ok {
			visit(key, part)
		}
	}
	for _, key := range []string{"properties", "patternProperties"} {
		all, _ := schema[key].(map[string]any)
		for name, part := range all {
			one(name, part)
		}
	}
	one("additionalProperties", schema["additionalProperties"])
	one("not", schema["not"])
	one("items", schema["items"])
	for _, key := range []string{"items", "allOf", "anyOf", "oneOf"} {
		all, _ := schema[key].([]any)
		for i, part := range all {
			one(fmt.Sprintf("%s[%d]", key, i), part)
		}
	}
}

// forbidUnknown forbids keys that an object does not name, where it names some or is the root, and does not say itself.
// The parts of allOf are one object. The branches of anyOf and oneOf stay open: each names only its special part.
func forbidUnknown(schema map[string]any, root bool) {
	parts := whole(schema)
	names, says := false, false
	for _, part := range parts {
		_, named := part["properties"]
		_, said := part["additionalProperties"]
		names, says = names || named, says || said
	}
	if (names || root && schema["type"] == "object") && !says {
		for _, part := range parts[1:] {
			allow(schema, part)
		}
		schema["additionalProperties"] = false
	}
	for _, part := range parts {
		for _, key := range []string{"properties", "patternProperties"} {
			all, _ := part[key].(map[string]any)
			for _, value := range all {
				forbidUnknownIn(value)
			}
		}
		forbidUnknownIn(part["items"])
		all, _ := part["items"].([]any)
		for _, item := range all {
			forbidUnknownIn(item)
		}
	}
}

func forbidUnknownIn(part any) {
	if schema, ok := part.(map[string]any); ok {
		forbidUnknown(schema, false)
	}
}

// whole returns a schema and the parts of its allOf, recursively.
func whole(schema map[string]any) []map[string]any {
	parts := []map[string]any{schema}
	all, _ := schema["allOf"].([]any)
	for _, part := range all {
		if part, ok := part.(map[string]any); ok {
			parts = append(parts, whole(part)...)
		}
	}
	return parts
}

// allow lets a schema have the keys that a part of its allOf names, with any value: the part says which.
func allow(schema, part map[string]any) {
	for _, key := range []string{"properties", "patternProperties"} {
		added, _ := part[key].(map[string]any)
		for name := range added {
			own, ok := schema[key].(map[string]any)
			if !ok {
				own = map[string]any{}
				schema[key] = own
			}
			if _, mine := own[name]; !mine {
				own[name] = map[string]any{}
			}
		}
	}
}

// requireNoDefaults takes names with a default out of required, at any depth: upstream counts a key as present if it has one. Defaults
// are not filled in everywhere, as in the values of a map.
func requireNoDefaults(schema map[string]any) {
	if required, ok := schema["required"].([]any); ok {
		properties, _ := schema["properties"].(map[string]any)
		schema["required"] = slices.DeleteFunc(required, func(name any) bool {
			text, _ := name.(string)
			property, _ := properties[text].(map[string]any)
			return property["default"] != nil
		})
	}
	below(schema, func(_ string, part map[string]any) { requireNoDefaults(part) })
}

// requireForHelm adds x-required-for-helm to required, at any depth.
func requireForHelm(schema map[string]any, path string) (err error) {
	required, _ := schema["required"].([]any)
	switch more := schema["x-required-for-helm"].(type) {
	case nil:
	case string:
		schema["required"] = union(required, []any{more})
	case []any:
		for _, name := range more {
			if _, ok := name.(string); !ok {
				return fmt.Errorf("%sx-required-for-helm: %v is not a name", path, name)
			}
		}
		schema["required"] = union(required, more)
	default:
		return fmt.Errorf("%sx-required-for-helm: must be a name or a list of names", path)
	}
	below(schema, func(key string, part map[string]any) { err = errors.Join(err, requireForHelm(part, path+key+".")) })
	return err
}
