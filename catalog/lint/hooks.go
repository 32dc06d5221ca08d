package lint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/diag"
)

// hookSuffixes are what follows the name of an add-on in the names of its hooks. The add-on's name alone is a hook, too.
func hookSuffixes() []string {
	return []string{"_pre_init", "_init", "_install", "_join", "_post_init", "_outro", "_already_applied"}
}

// hooks checks that install.sh is bash, that its functions carry the add-on's name, since all add-ons share one shell,
// and that one of them is called.
func (c *checker) hooks() error {
	f, err := os.Open(c.path(hooksFile))
	if errors.Is(err, fs.ErrNotExist) {
		c.rule(c.pos(hooksFile), "write one with the function "+c.name, "the add-on has no %s", hooksFile)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	functions, err := c.functions(f)
	if err != nil || functions == nil {
		return err
	}
	called := false
	for _, fn := range functions {
		called = c.function(fn, functions) || called
	}
	if !called {
		c.rule(c.pos(hooksFile), "name one "+c.name+", or "+c.name+hookSuffixes()[0], "no function is a hook; none would be called")
	}
	return nil
}

// functions lists the functions that a script declares, nested ones too. What is no bash becomes a finding, and nil.
func (c *checker) functions(script io.Reader) ([]*syntax.FuncDecl, error) {
	var list diag.List
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(io.LimitReader(script, maxFileSize), c.path(hooksFile))
	var wrong syntax.ParseError
	var foreign syntax.LangError
	switch {
	case errors.As(err, &wrong):
		list.Errorf(c.at(wrong.Pos), "", "not bash: %s", wrong.Text)
	case errors.As(err, &foreign):
		list.Errorf(c.at(foreign.Pos), "", "not bash: %s", foreign.Feature)
	case err != nil:
		return nil, err
	}
	if c.take(&list); len(list.Findings()) > 0 {
		return nil, nil
	}
	functions := []*syntax.FuncDecl{}
	syntax.Walk(file, func(n syntax.Node) bool {
		if fn, ok := n.(*syntax.FuncDecl); ok {
			functions = append(functions, fn)
		}
		return true
	})
	return functions, nil
}

// at is a place in install.sh.
func (c *checker) at(p syntax.Pos) diag.Pos {
	return diag.Pos{File: c.path(hooksFile), Line: int(p.Line()), Col: int(p.Col())}
}

// function checks the name of one function, and tells whether it is a hook.
func (c *checker) function(fn *syntax.FuncDecl, all []*syntax.FuncDecl) bool {
	name, pos := fn.Name.Value, c.at(fn.Name.Pos())
	underscored := strings.ReplaceAll(c.name, "-", "_")
	suffix, own := strings.CutPrefix(name, c.name)
	if !own {
		suffix, own = strings.CutPrefix(name, underscored)
	}
	if !own || suffix != "" && suffix[0] != '_' && suffix[0] != '-' {
		c.rule(pos, "all add-ons share one shell; name it "+underscored+"_"+strings.TrimLeft(name, "_"),
			"function %s does not begin with the add-on's name", name)
		return false
	}
	if suffix == "" || slices.Contains(hookSuffixes(), suffix) {
		hook := c.name + suffix
		isHook := name == hook
		if !isHook && !slices.ContainsFunc(all, func(f *syntax.FuncDecl) bool { return f.Name.Value == hook }) {
			c.rule(pos, "name it "+hook, "hook %s is never called", name)
		}
		return isHook
	}
	if meant := diag.Nearest(suffix, hookSuffixes()); meant != "" && len(meant)-len(suffix) < 2 && len(suffix)-len(meant) < 2 {
		c.rule(pos, "name it "+c.name+meant+", or otherwise if it is no hook", "function %s looks like a hook and is never called", name)
	}
	return false
}
