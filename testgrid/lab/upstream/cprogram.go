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
}

// Needs implements Recipe.
func (p CProgram) Needs() []string { return []string{p.Source.Component} }

// Tools implements Recipe.
func (p CProgram) Tools() []debian.Tool { return []debian.Tool{debian.GCC, debian.CLibrary} }

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
	_, err = run(ctx, exec.CommandContext(ctx, "gcc", append(args, source)...))
	return err
}
