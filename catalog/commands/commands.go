// Package commands finds the commands that the hooks of an add-on call, without running anything. It knows which commands
// every node has.
package commands

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/manifest"
)

// Facts are known before the script runs. The zero value means that nothing is known.
type Facts struct {
	Assets []manifest.Asset // of the add-on's Manifest
	Empty  []string         // variables that are always empty
}

// Calls are the commands of an install.sh.
type Calls struct {
	functions []string
	made      []made
	words     map[string]map[string]bool // of commands and their arguments, by the function that they stand in
	looked    map[string]bool            // commands that the script checks for before calling them
}

// made is one command of the script.
type made struct {
	Call
	from string // the function, "" at the top level
}

// Call is a call of a command by a hook.
type Call struct {
	Name string
	Bin  bool       // in $DIR/bin
	At   syntax.Pos // of the first call
	// Optional means that the script continues without the command: every call is a condition or is followed by || true.
	Optional bool
}

// Of collects the commands that a script calls.
func Of(s *script.Script, facts Facts) Calls {
	c := Calls{words: make(map[string]map[string]bool), looked: make(map[string]bool)}
	collect := func(from string, node syntax.Node) {
		optional := make(map[*syntax.CallExpr]bool)
		syntax.Walk(node, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.FuncDecl:
				return false // collected separately
			case *syntax.IfClause:
				if facts.neverTrue(n) {
					return false
				}
				if n.Else == nil {
					for _, stmt := range n.Cond {
						markOptional(stmt, optional)
					}
				}
			case *syntax.BinaryCmd:
				if n.Op == syntax.OrStmt && succeeds(n.Y) {
					markOptional(n.X, optional)
				}
			case *syntax.CallExpr:
				c.call(s, from, n, optional[n])
			}
			return true
		})
	}
	collect("", s.File)
	for _, fn := range s.Functions() {
		c.functions = append(c.functions, fn.Name.Value)
		collect(fn.Name.Value, fn.Body)
	}
	return c
}

// bundledAsset matches the condition that an asset of the Manifest is missing, which is never true.
var bundledAsset = regexp.MustCompile(`! -f \S*/assets/([A-Za-z0-9._-]+)`)

// switchedOn matches a condition on a variable that is always empty, which is never true.
var switchedOn = regexp.MustCompile(`^\[ "\$\{?(\w+)\}?" = "1" \]$`)

// neverTrue reports whether the condition of an if clause never holds: it is for an add-on whose assets were not packed, or
// for an option that is always off.
func (f Facts) neverTrue(n *syntax.IfClause) bool {
	var text strings.Builder
	for _, stmt := range n.Cond {
		if syntax.NewPrinter().Print(&text, stmt) != nil {
			return false
		}
	}
	if n.Else != nil {
		return false
	}
	if option := switchedOn.FindStringSubmatch(text.String()); option != nil && slices.Contains(f.Empty, option[1]) {
		return true
	}
	asset := bundledAsset.FindStringSubmatch(text.String())
	return asset != nil && slices.ContainsFunc(f.Assets, func(a manifest.Asset) bool { return a.Name == asset[1] })
}

// markOptional marks the commands of a condition. If such a command is missing, the condition is false, or true if it is
// negated.
func markOptional(stmt *syntax.Stmt, optional map[*syntax.CallExpr]bool) {
	syntax.Walk(stmt, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			return !n.Negated
		case *syntax.CmdSubst:
			return false
		case *syntax.CallExpr:
			optional[n] = true
		}
		return true
	})
}

// succeeds reports whether a statement is true or :.
func succeeds(stmt *syntax.Stmt) bool {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 1 && slices.Contains([]string{"true", ":"}, call.Args[0].Lit())
}

// call records a command, and the commands among its arguments.
func (c *Calls) call(s *script.Script, from string, n *syntax.CallExpr, optional bool) {
	var words []string
	for _, arg := range n.Args {
		text, _ := s.Text(arg)
		words = append(words, text)
		if c.words[from] == nil {
			c.words[from] = make(map[string]bool)
		}
		c.words[from][text] = true
	}
	words, looked := unwrapped(words)
	if looked {
		for _, word := range words {
			c.looked[word] = true
		}
		return
	}
	if len(words) > 0 {
		name, bin := strings.CutPrefix(words[0], "$DIR/bin/")
		c.made = append(c.made, made{Call{Name: name, Bin: bin, At: n.Pos(), Optional: optional}, from})
	}
}

// Functions lists the functions that the script declares.
func (c Calls) Functions() []string { return c.functions }

// Name reports whether a word appears in any command.
func (c Calls) Name(word string) bool {
	for _, words := range c.words {
		if words[word] {
			return true
		}
	}
	return false
}

// From lists the commands that hooks reach, without repetitions. It leaves out the script's own functions and the commands
// that the script looks for before it calls them.
func (c Calls) From(isHook func(function string) bool) []Call {
	var list []Call
	for _, m := range c.All(isHook) {
		if !plainName.MatchString(m.Name) || c.looked[m.Name] {
			continue
		}
		at := slices.IndexFunc(list, func(other Call) bool { return other.Name == m.Name && other.Bin == m.Bin })
		if at < 0 {
			list = append(list, m)
		} else {
			list[at].Optional = list[at].Optional && m.Optional
		}
	}
	return list
}

// All lists every command that hooks reach, as often as it is called, but the script's own functions. A name that only the running
// script knows is written as in script.Script.Text.
func (c Calls) All(isHook func(function string) bool) (list []Call) {
	reached := c.Reached(isHook)
	for _, m := range c.made {
		if reached[m.from] && (m.Bin || !slices.Contains(c.functions, m.Name)) {
			list = append(list, m.Call)
		}
	}
	return list
}

// Reached lists the functions that hooks call, directly or not, and "" for the top level of the script. Any word with the name of a function counts as a call,
// because it may be the argument of a function that calls it.
func (c Calls) Reached(isHook func(function string) bool) map[string]bool {
	reached := map[string]bool{"": true}
	next := []string{""}
	for _, name := range c.functions {
		if isHook(name) {
			next = append(next, name)
		}
	}
	for len(next) > 0 {
		from := next[0]
		reached[from], next = true, next[1:]
		for _, name := range c.functions {
			if c.words[from][name] && !reached[name] {
				reached[name] = true
				next = append(next, name)
			}
		}
	}
	return reached
}

// unwrapped removes programs and functions that run the command in their arguments. looked reports that the rest are commands
// that are searched for and not run.
func unwrapped(words []string) (_ []string, looked bool) {
	for len(words) > 1 {
		name := words[0]
		switch name {
		case "commandExists", "which", "type", "hash":
			return words, name != "which"
		case "command":
			if strings.HasPrefix(words[1], "-") {
				return words[2:], true
			}
		case "nohup", "sudo", "exec", "env", "nice", "time", "try_1m", "try_1m_stderr", "try_5m", "maybe", "timeout", "xargs", "spinner_until", "cmd_retry":
		default:
			return words, false
		}
		words = withoutOptions(words[1:], valued(name))
		if slices.Contains([]string{"timeout", "spinner_until", "cmd_retry"}, name) && len(words) > 0 {
			words = words[1:] // a duration or a count
		}
	}
	return words, false
}

// valued returns a program's options that take the next argument as their value.
func valued(program string) []string {
	return map[string][]string{
		"xargs": {"-I", "-n", "-L", "-P", "-d", "-a", "-s"}, "timeout": {"-k", "-s"}, "nice": {"-n"}, "sudo": {"-u", "-g"}, "env": {"-u", "-C"},
	}[program]
}

// withoutOptions removes options (but not -1) and variable assignments before a command.
func withoutOptions(words, valued []string) []string {
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") && words[0] != "-1" || strings.Contains(words[0], "=")) {
		skip := 1
		if slices.Contains(valued, words[0]) {
			skip = 2
		}
		words = words[min(skip, len(words)):]
	}
	return words
}

// plainName matches the name of a program or function without a path and without expansions.
var plainName = regexp.MustCompile(`^[A-Za-z_.][A-Za-z0-9_.+-]*$`)
