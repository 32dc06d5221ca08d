package hook

import (
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Functions lists the functions that a script declares at its top level, without running it.
func Functions(name string, script io.Reader) ([]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(script, name)
	if err != nil {
		return nil, fmt.Errorf("not a bash script: %w", err)
	}
	var names []string
	for _, stmt := range file.Stmts {
		if decl, ok := stmt.Cmd.(*syntax.FuncDecl); ok {
			names = append(names, decl.Name.Value)
		}
	}
	return names, nil
}

// PreludeFunctions lists the functions that the shell has for hooks before any install.sh is read.
func PreludeFunctions() ([]string, error) {
	text, err := script()
	if err != nil {
		return nil, err
	}
	return Functions("prelude", strings.NewReader(text))
}
