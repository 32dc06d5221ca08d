// Package template executes the templates of host preflight checks. It reads the language of text/template, and gives the
// same output.
//
// It is not text/template because that package finds methods of values by name. The linker must then keep every exported method
// of every type in the program, which is a third of the node's binary. Here a value has fields only if it is a map with text
// keys: templates call functions, never methods.
package template

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Options configure a template. The zero value has the delimiters {{ and }}, and only the built-in functions.
type Options struct {
	Left string // opens an action; }} closes it
	// Functions are added to the built-in ones. Each returns one value, or a value and an error.
	Functions map[string]any
	// Print replaces each value that an action prints; nil prints the values unchanged.
	Print func(value any) any
}

// Execute parses text and executes it with data. If it fails, part of the output may be written. name is used in errors.
func Execute(w io.Writer, name, text string, o Options, data any) error {
	trees, err := parse.Parse(name, text, o.Left, "", o.Functions, builtins(), shortCircuits)
	if err != nil {
		return err
	}
	tree, ok := trees[name]
	if !ok { // nothing but definitions
		return nil
	}
	r := run{w: w, options: o, builtins: builtins(), trees: trees}
	return r.template(tree, data)
}

// maxDepth bounds calls of templates inside each other, and so ends an endless recursion.
const maxDepth = 1000

// run is one execution of a template.
type run struct {
	w         io.Writer
	options   Options
	builtins  map[string]any
	trees     map[string]*parse.Tree
	tree      *parse.Tree // the executed one
	variables []variable  // the last one of a name counts
	depth     int         // of templates that call one another
}

type variable struct {
	name  string
	value any
}

// template executes a tree, which sees no variables but $.
func (r *run) template(tree *parse.Tree, dot any) error {
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("templates call one another more than %d deep", maxDepth)
	}
	called := *r
	called.tree, called.variables = tree, []variable{{"$", dot}}
	err := called.walk(dot, tree.Root)
	r.depth--
	return err
}

// The ways out of a loop other than failures.
var (
	errBreak    = errors.New("break outside of a range")
	errContinue = errors.New("continue outside of a range")
)

// walk executes a node.
func (r *run) walk(dot any, node parse.Node) error {
	switch node := node.(type) {
	case *parse.TextNode:
		_, err := r.w.Write(node.Text)
		return err
	case *parse.ListNode:
		if node == nil { // there is no else branch
			return nil
		}
		for _, n := range node.Nodes {
			if err := r.walk(dot, n); err != nil {
				return err
			}
		}
		return nil
	case *parse.CommentNode:
		return nil
	case *parse.BreakNode:
		return errBreak
	case *parse.ContinueNode:
		return errContinue
	case *parse.ActionNode:
		return r.action(dot, node.Pipe)
	case *parse.IfNode:
		return r.branch(dot, &node.BranchNode)
	case *parse.WithNode:
		return r.branch(dot, &node.BranchNode)
	case *parse.RangeNode:
		return r.loop(dot, &node.BranchNode)
	case *parse.TemplateNode:
		return r.call(dot, node)
	}
	return fmt.Errorf("templates here have no %s", node)
}

// action prints the value of a pipeline. One that sets a variable prints nothing.
func (r *run) action(dot any, pipe *parse.PipeNode) error {
	value, err := r.pipeline(dot, pipe)
	if err != nil || len(pipe.Decl) > 0 {
		return err
	}
	if r.options.Print != nil {
		value = r.options.Print(value)
	}
	if value == nil {
		value = "<no value>"
	}
	if kind := reflect.TypeOf(value).Kind(); kind == reflect.Func || kind == reflect.Chan {
		return r.at(pipe, fmt.Errorf("a %T cannot be printed", value))
	}
	_, err = fmt.Fprint(r.w, value)
	return err
}

// branch executes one side of if or with.
func (r *run) branch(dot any, n *parse.BranchNode) error {
	defer r.forget(len(r.variables))
	value, err := r.pipeline(dot, n.Pipe)
	if err != nil {
		return err
	}
	if !isTrue(value) {
		return r.walk(dot, n.ElseList)
	}
	if n.NodeType == parse.NodeWith {
		dot = value
	}
	return r.walk(dot, n.List)
}

// loop executes a range.
func (r *run) loop(dot any, n *parse.BranchNode) error {
	defer r.forget(len(r.variables))
	over, err := r.pipeline(dot, n.Pipe)
	if err != nil {
		return err
	}
	rounds := 0
	round := func(key, element any) (more bool, err error) {
		rounds++
		defer r.forget(len(r.variables))
		set := r.set
		if n.Pipe.IsAssign {
			set = r.assign
		}
		switch decl := n.Pipe.Decl; len(decl) {
		case 1:
			set(decl[0].Ident[0], element)
		case 2:
			set(decl[0].Ident[0], key)
			set(decl[1].Ident[0], element)
		}
		switch err := r.walk(element, n.List); {
		case errors.Is(err, errBreak):
			return false, nil
		case err == nil, errors.Is(err, errContinue):
			return true, nil
		default:
			return false, err
		}
	}
	if err := each(over, len(n.Pipe.Decl), round); err != nil {
		return r.at(n.Pipe, err)
	}
	if rounds == 0 {
		return r.walk(dot, n.ElseList)
	}
	return nil
}

// each calls round for every element of a list, map or number, until it returns false.
func each(over any, variables int, round func(key, element any) (bool, error)) error {
	v := reflect.ValueOf(over)
	switch {
	case !v.IsValid():
		return nil
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		for i := range v.Len() {
			if more, err := round(i, v.Index(i).Interface()); !more || err != nil {
				return err
			}
		}
		return nil
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if more, err := round(key.Interface(), v.MapIndex(key).Interface()); !more || err != nil {
				return err
			}
		}
		return nil
	case v.CanInt() && variables < 2:
		for i := int64(0); i < v.Int(); i++ {
			if more, err := round(nil, reflect.ValueOf(i).Convert(v.Type()).Interface()); !more || err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("range cannot iterate over %v", over)
}

// call executes {{template}}.
func (r *run) call(dot any, n *parse.TemplateNode) error {
	tree, ok := r.trees[n.Name]
	if !ok {
		return r.at(n, fmt.Errorf("template %q not defined", n.Name))
	}
	var value any
	if n.Pipe != nil {
		var err error
		if value, err = r.pipeline(dot, n.Pipe); err != nil {
			return err
		}
	}
	return r.template(tree, value)
}

// set makes a variable.
func (r *run) set(name string, value any) { r.variables = append(r.variables, variable{name, value}) }

// assign changes a variable. The parser has seen that it exists.
func (r *run) assign(name string, value any) {
	for i, v := range slices.Backward(r.variables) {
		if v.name == name {
			r.variables[i].value = value
			return
		}
	}
}

func (r *run) variable(name string) any {
	for _, v := range slices.Backward(r.variables) {
		if v.name == name {
			return v.value
		}
	}
	return nil
}

// forget ends the scope of the variables after the first n.
func (r *run) forget(n int) { r.variables = r.variables[:n] }

// at returns where in the template something failed.
func (r *run) at(n parse.Node, err error) error {
	if _, ok := errors.AsType[*locatedError](err); ok {
		return err
	}
	location, context := r.tree.ErrorContext(n)
	return &locatedError{fmt.Errorf("template: %s: executing %q at <%s>: %w", location, r.tree.Name, context, err)}
}

type locatedError struct{ error }

func (e *locatedError) Unwrap() error { return e.error }

// isTrue reports whether a value is not the zero of its type.
func isTrue(value any) bool {
	truth, _ := template.IsTrue(value)
	return truth
}
