package upstream

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// CProgram builds a static binary from one C file.
type CProgram struct {
	Name   string
	Source FileOf
	Define []string // preprocessor macros, NAME=value
	Arch   string   `json:",omitempty"` // to compile for; empty for amd64
}

// Needs implements Recipe.
func (p CProgram) Needs() []string { return []string{p.Source.Component} }

// Tools implements Recipe.
func (p CProgram) Tools() []debian.Tool {
	if p.Arch != "" {
		return debian.CrossCompiler(p.Arch)
	}
	return []debian.Tool{debian.GCC, debian.CLibrary}
}

// on implements crossed.
func (p CProgram) on(arch string, id func(string) string) Recipe {
	p.Arch, p.Source.Component = arch, id(p.Source.Component)
	return p
}

// Make implements Recipe.
func (p CProgram) Make(ctx context.Context, w *Workshop, dir string) error {
	source, err := w.File(ctx, p.Source)
	if err != nil {
		return err
	}
	args := []string{"-Os", "-Wall", "-static", "-s", "-o", filepath.Join(dir, p.Name)}
	for _, define := range p.Define {
		args = append(args, "-D"+define)
	}
	compiler := debian.GCC
	if p.Arch != "" {
		compiler = debian.CrossCompiler(p.Arch)[0]
	}
	_, err = run(ctx, exec.CommandContext(ctx, compiler.Program, append(args, source)...))
	return err
}
