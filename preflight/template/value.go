package template

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// pipeline evaluates commands, each with the value of the one before as its last argument, and sets the variables.
func (r *run) pipeline(dot any, pipe *parse.PipeNode) (value any, err error) {
	var before []any
	for _, cmd := range pipe.Cmds {
		if value, err = r.command(dot, cmd, before); err != nil {
			return nil, r.at(cmd, err)
		}
		before = []any{value}
	}
	for _, v := range pipe.Decl {
		if pipe.IsAssign {
			r.assign(v.Ident[0], value)
		} else {
			r.set(v.Ident[0], value)
		}
	}
	return value, nil
}

// command evaluates one command. before is the value that is piped into it, if any.
func (r *run) command(dot any, cmd *parse.CommandNode, before []any) (any, error) {
	first, args := cmd.Args[0], cmd.Args[1:]
	if function, ok := first.(*parse.IdentifierNode); ok {
		return r.function(dot, function.Ident, args, before)
	}
	if len(args)+len(before) > 0 {
		if nothing, err := r.ofNothing(dot, first); nothing || err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s takes no argument: it is not a function", first)
	}
	if _, ok := first.(*parse.NilNode); ok {
		return nil, errors.New("nil is not a command")
	}
	return r.operand(dot, first)
}

// ofNothing means that a node is a field of a missing value, and thus missing itself.
func (r *run) ofNothing(dot any, node parse.Node) (bool, error) {
	switch n := node.(type) {
	case *parse.FieldNode:
		return dot == nil, nil
	case *parse.VariableNode:
		return len(n.Ident) > 1 && r.variable(n.Ident[0]) == nil, nil
	case *parse.ChainNode:
		value, err := r.operand(dot, n.Node)
		return value == nil, err
	}
	return false, nil
}

// operand evaluates an operand.
func (r *run) operand(dot any, node parse.Node) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return number(n)
	case *parse.NilNode:
		return nil, nil
	case *parse.FieldNode:
		return fields(dot, n.Ident)
	case *parse.VariableNode:
		return fields(r.variable(n.Ident[0]), n.Ident[1:])
	case *parse.PipeNode:
		return r.pipeline(dot, n)
	case *parse.IdentifierNode:
		return r.function(dot, n.Ident, nil, nil)
	case *parse.ChainNode:
		value, err := r.operand(dot, n.Node)
		if err != nil {
			return nil, err
		}
		return fields(value, n.Field)
	}
	return nil, fmt.Errorf("cannot evaluate %s", node)
}

// number is the value of an untyped number: its spelling decides, as in Go.
func number(n *parse.NumberNode) (any, error) {
	isHex := len(n.Text) > 2 && n.Text[0] == '0' && strings.ContainsAny(n.Text[1:2], "xX") && !strings.ContainsAny(n.Text, "pP")
	switch {
	case n.IsComplex:
		return n.Complex128, nil
	case n.IsFloat && !isHex && n.Text[0] != '\'' && strings.ContainsAny(n.Text, ".eEpP"):
		return n.Float64, nil
	case n.IsInt && int64(int(n.Int64)) == n.Int64:
		return int(n.Int64), nil
	}
	return nil, fmt.Errorf("%s overflows int", n.Text)
}

// fields follows names into maps. A name that a map lacks has no value, and a missing value has no fields.
func fields(value any, names []string) (any, error) {
	for at, name := range names {
		v := reflect.ValueOf(value)
		switch {
		case !v.IsValid() && at == 0:
			return nil, nil
		case !v.IsValid():
			return nil, fmt.Errorf("nil pointer evaluating .%s: there is no %s", name, names[at-1])
		case v.Kind() != reflect.Map || v.Type().Key() != reflect.TypeFor[string]():
			return nil, fmt.Errorf("cannot evaluate field %s in type %T", name, value)
		}
		value = element(v, reflect.ValueOf(name))
	}
	return value, nil
}

// element returns a map's value for a key, or the zero value of its elements.
func element(m, key reflect.Value) any {
	if found := m.MapIndex(key); found.IsValid() {
		return found.Interface()
	}
	return reflect.Zero(m.Type().Elem()).Interface()
}

// function calls a function. and and or evaluate no more than they need.
func (r *run) function(dot any, name string, args []parse.Node, before []any) (any, error) {
	function, ok := r.options.Functions[name]
	if !ok {
		if decides, short := shortCircuits[name]; short {
			return r.shortCircuit(dot, decides.(bool), name, args, before)
		}
		function = r.builtins[name]
	}
	f := reflect.ValueOf(function)
	given, fixed := len(args)+len(before), f.Type().NumIn()
	if f.Type().IsVariadic() {
		fixed--
	}
	if given < fixed || given > fixed && !f.Type().IsVariadic() {
		return nil, fmt.Errorf("wrong number of args for %s: want %d got %d", name, fixed, given)
	}
	in := make([]reflect.Value, 0, given)
	parameter := func() reflect.Type {
		if len(in) < fixed {
			return f.Type().In(len(in))
		}
		return f.Type().In(fixed).Elem()
	}
	for _, arg := range args {
		value, err := r.argument(dot, parameter(), arg)
		if err != nil {
			return nil, err
		}
		in = append(in, value)
	}
	for _, b := range before {
		value, err := convert(b, parameter())
		if err != nil {
			return nil, err
		}
		in = append(in, value)
	}
	result, err := guarded(f, in)
	if err != nil {
		return nil, fmt.Errorf("error calling %s: %w", name, err)
	}
	return result, nil
}

// shortCircuit evaluates arguments until one of them decides, and returns that one or the last.
func (r *run) shortCircuit(dot any, decides bool, name string, args []parse.Node, before []any) (value any, err error) {
	if len(args)+len(before) == 0 {
		return nil, fmt.Errorf("wrong number of args for %s: want at least 1 got 0", name)
	}
	for _, arg := range args {
		if value, err = r.operand(dot, arg); err != nil || isTrue(value) == decides {
			return value, err
		}
	}
	for _, value = range before {
	}
	return value, nil
}

// guarded calls a function. A panic in it is an error.
func guarded(f reflect.Value, in []reflect.Value) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	out := f.Call(in)
	if len(out) == 2 && !out[1].IsNil() {
		return nil, out[1].Interface().(error)
	}
	return out[0].Interface(), nil
}

// argument evaluates an argument for a parameter. A constant gets the type of the parameter.
func (r *run) argument(dot any, parameter reflect.Type, node parse.Node) (reflect.Value, error) {
	isConstant, fits := true, false
	value := reflect.New(parameter).Elem()
	switch n := node.(type) {
	case *parse.BoolNode:
		if fits = parameter.Kind() == reflect.Bool; fits {
			value.SetBool(n.True)
		}
	case *parse.StringNode:
		if fits = parameter.Kind() == reflect.String; fits {
			value.SetString(n.Text)
		}
	case *parse.NumberNode:
		switch {
		case value.CanInt() && n.IsInt:
			fits = true
			value.SetInt(n.Int64)
		case value.CanUint() && n.IsUint:
			fits = true
			value.SetUint(n.Uint64)
		case value.CanFloat() && n.IsFloat:
			fits = true
			value.SetFloat(n.Float64)
		}
	default:
		isConstant = false
	}
	if fits {
		return value, nil
	}
	if isConstant && parameter.Kind() != reflect.Interface {
		return value, fmt.Errorf("expected %s; found %s", parameter, node)
	}
	operand, err := r.operand(dot, node)
	if err != nil {
		return value, err
	}
	return convert(operand, parameter)
}

// convert makes a value an argument.
func convert(value any, parameter reflect.Type) (reflect.Value, error) {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		switch parameter.Kind() {
		case reflect.Interface, reflect.Map, reflect.Slice, reflect.Pointer, reflect.Func, reflect.Chan:
			return reflect.Zero(parameter), nil
		}
		return v, fmt.Errorf("invalid value; expected %s", parameter)
	}
	if !v.Type().AssignableTo(parameter) {
		return v, fmt.Errorf("wrong type for value; expected %s; got %s", parameter, v.Type())
	}
	return v, nil
}
