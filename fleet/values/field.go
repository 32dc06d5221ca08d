package values

import (
	"fmt"
	"reflect"
	"text/template/parse"
)

// fieldFunction is called by rewritten templates. Users cannot call it: parsing does not know it.
const fieldFunction = "sealiftField"

// rewrite replaces each access to a field by a call of fieldFunction, so that Go names can be looked up.
func rewrite(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				rewrite(child)
			}
		}
	case *parse.ActionNode:
		rewrite(n.Pipe)
	case *parse.TemplateNode:
		rewrite(n.Pipe)
	case *parse.IfNode:
		rewriteBranch(&n.BranchNode)
	case *parse.WithNode:
		rewriteBranch(&n.BranchNode)
	case *parse.RangeNode:
		rewriteBranch(&n.BranchNode)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for i, command := range n.Cmds {
			for k, arg := range command.Args {
				// a method may have arguments: those that follow it, and the value from the pipe
				called := k == 0 && (len(command.Args) > 1 || i > 0)
				command.Args[k] = access(arg, called)
			}
		}
	}
}

func rewriteBranch(n *parse.BranchNode) {
	rewrite(n.Pipe)
	rewrite(n.List)
	rewrite(n.ElseList)
}

// access returns a node that looks up the fields of arg by fieldFunction. The last field of a node that is called stays.
func access(arg parse.Node, called bool) parse.Node {
	var base parse.Node
	var fields []string
	switch n := arg.(type) {
	case *parse.PipeNode:
		rewrite(n)
		return n
	case *parse.FieldNode:
		base, fields = &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}, n.Ident
	case *parse.VariableNode:
		base, fields = &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: n.Ident[:1]}, n.Ident[1:]
	case *parse.ChainNode:
		base, fields = access(n.Node, false), n.Field
	default:
		return arg
	}
	if called && len(fields) > 0 {
		last := fields[len(fields)-1:]
		return &parse.ChainNode{NodeType: parse.NodeChain, Pos: arg.Position(), Node: lookup(base, fields[:len(fields)-1]), Field: last}
	}
	return lookup(base, fields)
}

// lookup returns the call of fieldFunction for the fields of a node.
func lookup(base parse.Node, fields []string) parse.Node {
	pos := base.Position()
	args := []parse.Node{parse.NewIdentifier(fieldFunction).SetPos(pos), base}
	for _, f := range fields {
		args = append(args, &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: fmt.Sprintf("%q", f), Text: f})
	}
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{
		{NodeType: parse.NodeCommand, Pos: pos, Args: args},
	}}
}

// field follows a path of fields. What is missing in a map is nil. Other values have methods and fields as in any template.
func (names goNames) field(value any, path ...string) (any, error) {
	for _, name := range path {
		v := reflect.ValueOf(value)
		if !v.IsValid() {
			return nil, nil
		}
		if v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String {
			if item := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())); item.IsValid() {
				value = item.Interface()
			} else {
				value = names.find(v, name)
			}
			continue
		}
		var err error
		if value, err = member(v, name); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// member returns the result of a method without arguments, or a field.
func member(v reflect.Value, name string) (any, error) {
	if m := v.MethodByName(name); m.IsValid() && m.Type().NumIn() == 0 {
		switch out := m.Call(nil); {
		case len(out) == 1:
			return out[0].Interface(), nil
		case len(out) == 2 && out[1].Type() == reflect.TypeFor[error]():
			err, _ := reflect.TypeAssert[error](out[1])
			return out[0].Interface(), err
		}
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		if f, found := v.Type().FieldByName(name); found && f.IsExported() {
			return v.FieldByIndex(f.Index).Interface(), nil
		}
	}
	return nil, fmt.Errorf("can't evaluate field %s in type %s", name, v.Type())
}
