// Package script parses the install.sh of an add-on without running it: its functions, the commands that they call, and the
// text of words as far as it is constant.
package script

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Name is the file with the hooks of an add-on.
const Name = "install.sh"

// maxSize is the largest script, in bytes. The largest install.sh of kURL has 60 KB.
const maxSize = 4 << 20

// Script is an install.sh.
type Script struct {
	File *syntax.File
	// Values are the variables with one constant value: the add-on's own version, and constants.
	Values map[string]string
	// Set are the variables that the script sets anywhere, to any value.
	Set map[string]bool
}

// Load reads the install.sh in dir, addons/<name>/<version>. If it is not valid bash, the error is a syntax.ParseError or a
// syntax.LangError.
func Load(dir string) (*Script, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, Name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f, filepath.Join(dir, Name), filepath.Base(filepath.Dir(abs)), filepath.Base(abs))
}

// Parse parses the install.sh of an add-on. path names it in errors.
func Parse(r io.Reader, path, addOn, version string) (*Script, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(io.LimitReader(r, maxSize), path)
	if err != nil {
		return nil, err
	}
	s := &Script{File: file, Set: make(map[string]bool), Values: map[string]string{
		strings.ToUpper(strings.ReplaceAll(addOn, "-", "_")) + "_VERSION": version,
		"K8S_DISTRO": "kubeadm", // kURL's core always sets this value
	}}
	s.constants()
	return s, nil
}

// constants records the variables that are set once, at the top level, to constant text.
func (s *Script) constants() {
	set := make(map[string]int)
	syntax.Walk(s.File, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				s.Set[n.Name.Value] = true
				if !n.Naked {
					set[n.Name.Value]++
				}
			}
		case *syntax.WordIter:
			s.Set[n.Name.Value] = true
			set[n.Name.Value]++
		}
		return true
	})
	for _, stmt := range s.File.Stmts {
		var assigns []*syntax.Assign
		switch cmd := stmt.Cmd.(type) {
		case *syntax.CallExpr:
			if len(cmd.Args) == 0 {
				assigns = cmd.Assigns
			}
		case *syntax.DeclClause:
			assigns = cmd.Args
		}
		for _, a := range assigns {
			if a.Name == nil || a.Value == nil || set[a.Name.Value] != 1 {
				continue
			}
			if text, whole := s.Text(a.Value); whole {
				s.Values[a.Name.Value] = text
			}
		}
	}
}

// Functions lists the functions that the script declares, including nested ones.
func (s *Script) Functions() []*syntax.FuncDecl {
	functions := []*syntax.FuncDecl{}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		if fn, ok := n.(*syntax.FuncDecl); ok {
			functions = append(functions, fn)
		}
		return true
	})
	return functions
}

// Text returns the text of a word. Parts that only the running script knows appear as $NAME or $(), and whole is false.
func (s *Script) Text(w *syntax.Word) (text string, whole bool) {
	if w == nil {
		return "", true
	}
	var b strings.Builder
	whole = s.parts(&b, w.Parts)
	return b.String(), whole
}

func (s *Script) parts(b *strings.Builder, parts []syntax.WordPart) (whole bool) {
	whole = true
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(part.Value)
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			whole = s.parts(b, part.Parts) && whole
		case *syntax.ParamExp:
			value, known := "", false
			if part.Param != nil && part.Exp == nil && part.Repl == nil && part.Slice == nil && part.Index == nil && !part.Length && !part.Excl {
				value, known = s.Values[part.Param.Value]
			}
			if !known {
				value, whole = "$"+name(part), false
			}
			b.WriteString(value)
		default:
			b.WriteString("$()")
			whole = false
		}
	}
	return whole
}

func name(p *syntax.ParamExp) string {
	if p.Param == nil {
		return ""
	}
	return p.Param.Value
}
