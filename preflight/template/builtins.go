package template

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"
)

// shortCircuits are the functions that do not evaluate all of their arguments, and the truth that ends each of them.
var shortCircuits = map[string]any{"and": false, "or": true}

// builtins are the functions of text/template, except call, which calls functions that are values, and slice, which Sprig has.
func builtins() map[string]any {
	return map[string]any{
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"len": length, "index": index,
		"not": func(value any) bool { return !isTrue(value) },
		"eq":  equal,
		"ne": func(a, b any) (bool, error) {
			is, err := equal(a, b)
			return !is, err
		},
		"lt": func(a, b any) (bool, error) { return ordered(a, b, func(order int) bool { return order < 0 }) },
		"le": func(a, b any) (bool, error) { return ordered(a, b, func(order int) bool { return order <= 0 }) },
		"gt": func(a, b any) (bool, error) { return ordered(a, b, func(order int) bool { return order > 0 }) },
		"ge": func(a, b any) (bool, error) { return ordered(a, b, func(order int) bool { return order >= 0 }) },
	}
}

func length(value any) (int, error) {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len(), nil
	}
	return 0, fmt.Errorf("len of type %T", value)
}

// index returns value[keys[0]][keys[1]] and so on.
func index(value any, keys ...any) (any, error) {
	if value == nil {
		return nil, errors.New("index of untyped nil")
	}
	for _, key := range keys {
		v, k := reflect.ValueOf(value), reflect.ValueOf(key)
		switch v.Kind() {
		case reflect.Array, reflect.Slice, reflect.String:
			if !k.IsValid() || !k.CanInt() {
				return nil, fmt.Errorf("cannot index %T with %T", value, key)
			}
			if k.Int() < 0 || k.Int() >= int64(v.Len()) {
				return nil, fmt.Errorf("index out of range: %d", k.Int())
			}
			value = v.Index(int(k.Int())).Interface()
		case reflect.Map:
			if !k.IsValid() || !k.Type().AssignableTo(v.Type().Key()) {
				return nil, fmt.Errorf("cannot index %T with %T", value, key)
			}
			value = element(v, k)
		default:
			return nil, fmt.Errorf("cannot index %T", value)
		}
	}
	return value, nil
}

// equal reports whether a equals one of the others. A number never equals a text: they cannot be compared.
func equal(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("missing argument for comparison")
	}
	for _, b := range others {
		if a == nil || b == nil {
			if isNil(a) && isNil(b) {
				return true, nil
			}
			continue
		}
		if order, err := compare(a, b); err == nil && order == 0 {
			return true, nil
		} else if err == nil {
			continue
		}
		v, w := reflect.ValueOf(a), reflect.ValueOf(b)
		if v.Kind() == reflect.Bool && w.Kind() == reflect.Bool {
			if v.Bool() == w.Bool() {
				return true, nil
			}
			continue
		}
		if v.Kind() == w.Kind() && (isNil(a) || isNil(b)) {
			if isNil(a) && isNil(b) {
				return true, nil
			}
			continue
		}
		return false, fmt.Errorf("incompatible types for comparison: %T and %T", a, b)
	}
	return false, nil
}

func isNil(value any) bool {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Func, reflect.Chan:
		return v.IsNil()
	}
	return false
}

func ordered(a, b any, holds func(order int) bool) (bool, error) {
	order, err := compare(a, b)
	return err == nil && holds(order), err
}

// compare orders two numbers or two texts. An integer and a float cannot be compared, as in Go.
func compare(a, b any) (int, error) {
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case !v.IsValid() || !w.IsValid():
		return 0, errors.New("invalid type for comparison")
	case v.CanInt() && w.CanInt():
		return cmp.Compare(v.Int(), w.Int()), nil
	case v.CanUint() && w.CanUint():
		return cmp.Compare(v.Uint(), w.Uint()), nil
	case v.CanInt() && w.CanUint():
		if v.Int() < 0 {
			return -1, nil
		}
		return cmp.Compare(uint64(v.Int()), w.Uint()), nil
	case v.CanUint() && w.CanInt():
		order, err := compare(b, a)
		return -order, err
	case v.CanFloat() && w.CanFloat():
		return cmp.Compare(v.Float(), w.Float()), nil
	case v.Kind() == reflect.String && w.Kind() == reflect.String:
		return strings.Compare(v.String(), w.String()), nil
	}
	return 0, fmt.Errorf("incompatible types for comparison: %T and %T", a, b)
}
