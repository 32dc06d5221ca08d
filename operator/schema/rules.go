package schema

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

const (
	// rulesKey is the extension of addon-operator with rules in CEL.
	rulesKey = "x-deckhouse-validations"
	// self is the value that a rule checks, oldSelf the previous one.
	self, oldSelf = "self", "oldSelf"
	// mostWork bounds a run of a rule, in CEL's units of cost.
	mostWork = 1_000_000
)

// rules are the CEL rules of a schema and of its parts. nil means none.
type rules struct {
	own        []rule
	properties map[string]*rules
	patterns   map[*regexp.Regexp]*rules
	named      map[string]any // all properties, since additional is about the others
	additional *rules
	items      *rules
	also       []*rules // of allOf
}

type rule struct {
	program cel.Program
	text    string
	message string
	changes bool // it compares with the previous value
}

// ruleReader compiles the rules of one file.
type ruleReader struct{ env *cel.Env }

// read compiles the rules of a schema and of its parts. path is its path in the file.
func (r *ruleReader) read(schema map[string]any, path string) (*rules, error) {
	out := &rules{}
	var errs []error
	part := func(value any, key string) *rules {
		below, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		found, err := r.read(below, path+key+".")
		errs = append(errs, err)
		return found
	}
	own, err := r.own(schema[rulesKey], path)
	out.own, errs = own, append(errs, err)
	out.named, _ = schema["properties"].(map[string]any)
	for name, value := range out.named {
		if below := part(value, name); below != nil {
			if out.properties == nil {
				out.properties = map[string]*rules{}
			}
			out.properties[name] = below
		}
	}
	patterns, _ := schema["patternProperties"].(map[string]any)
	for text, value := range patterns {
		below := part(value, text)
		if below == nil {
			continue
		}
		pattern, err := regexp.Compile(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%spatternProperties: %w", path, err))
			continue
		}
		if out.patterns == nil {
			out.patterns = map[*regexp.Regexp]*rules{}
		}
		out.patterns[pattern] = below
	}
	out.additional = part(schema["additionalProperties"], "additionalProperties")
	out.items = part(schema["items"], "items")
	all, _ := schema["allOf"].([]any)
	for i, value := range all {
		if below := part(value, fmt.Sprintf("allOf[%d]", i)); below != nil {
			out.also = append(out.also, below)
		}
	}
	if len(out.own)+len(out.properties)+len(out.patterns)+len(out.also) == 0 && out.additional == nil && out.items == nil {
		out = nil
	}
	return out, errors.Join(errs...)
}

// own compiles a schema's own rules, without those of its parts.
func (r *ruleReader) own(value any, path string) (all []rule, err error) {
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s%s: must be a list", path, rulesKey)
	}
	var errs []error
	for i, entry := range list {
		fields, _ := entry.(map[string]any)
		text, _ := fields["expression"].(string)
		message, _ := fields["message"].(string)
		if text == "" || message == "" {
			errs = append(errs, fmt.Errorf("%s%s[%d]: needs an expression and a message", path, rulesKey, i))
			continue
		}
		one, err := r.compile(text, message)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%s[%d].expression: %w", path, rulesKey, i, err))
			continue
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

func (r *ruleReader) compile(text, message string) (one rule, err error) {
	if r.env == nil {
		if r.env, err = cel.NewEnv(cel.Variable(self, cel.DynType), cel.Variable(oldSelf, cel.DynType)); err != nil {
			return one, err
		}
	}
	checked, issues := r.env.Compile(text)
	if err := issues.Err(); err != nil {
		return one, err
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return one, fmt.Errorf("gives a %s, not true or false", t)
	}
	one = rule{text: text, message: message}
	idents := ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind))
	one.changes = slices.ContainsFunc(idents, func(e ast.NavigableExpr) bool { return e.AsIdent() == oldSelf })
	one.program, err = r.env.Program(checked, cel.CostLimit(mostWork))
	return one, err
}

// check finds the rules that values break. before has the previous values, or is nil: rules about changes are then skipped.
func (r *rules) check(place string, value, before any) (errs []error) {
	if r == nil {
		return nil
	}
	for _, one := range r.own {
		if one.changes && before == nil {
			continue
		}
		if err := one.check(value, before); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		}
	}
	for _, part := range r.also {
		errs = append(errs, part.check(place, value, before)...)
	}
	switch v := value.(type) {
	case map[string]any:
		old, _ := before.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for _, part := range r.of(name) {
				errs = append(errs, part.check(place+"."+name, v[name], old[name])...)
			}
		}
	case []any: // an item has no name by which to find its previous value
		for i := range v {
			errs = append(errs, r.items.check(fmt.Sprintf("%s[%d]", place, i), v[i], nil)...)
		}
	}
	return errs
}

// of returns the rules for a property.
func (r *rules) of(name string) (all []*rules) {
	_, named := r.named[name]
	if part := r.properties[name]; part != nil {
		all = append(all, part)
	}
	for pattern, part := range r.patterns {
		if pattern.MatchString(name) {
			named, all = true, append(all, part)
		}
	}
	if !named && r.additional != nil {
		all = append(all, r.additional)
	}
	return all
}

// check fails if a value breaks the rule. A rule about a key that is absent holds, as in addon-operator.
func (r *rule) check(value, before any) error {
	result, _, err := r.program.Eval(map[string]any{self: value, oldSelf: before})
	if err != nil && strings.Contains(err.Error(), "no such key") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rule %q cannot be checked: %w", r.text, err)
	}
	holds, ok := result.Value().(bool)
	if !ok {
		return fmt.Errorf("rule %q gives a %s, not true or false", r.text, result.Type().TypeName())
	}
	if !holds {
		return errors.New(r.message)
	}
	return nil
}
