package upstream

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Patch replaces a module that the Go proxy refuses, or that imports modules that it refuses, by a changed copy.
type Patch struct {
	Module string
	// Version is the version to copy. If empty, the module consists of Files alone.
	Version string            `json:",omitempty"`
	Without []string          `json:",omitempty"` // folders that are not copied
	Files   map[string]string // texts by their paths in the module; they replace copied files
	Edits   []Edit            `json:",omitempty"` // of copied files
	Why     string            `json:"-"`
}

// Edit replaces a text that a file has once.
type Edit struct{ File, Old, New string }

// withoutImports leaves packages of a module out of one of its files, which imports them for nothing but their effect.
func withoutImports(module, version, file string, packages ...string) Patch {
	p := Patch{Module: module, Version: version, Why: "the lab calls no cloud, and what only these packages import takes about a minute to compile"}
	for _, pkg := range packages {
		p.Edits = append(p.Edits, Edit{File: file, Old: "\t_ \"" + module + "/" + pkg + "\"\n"})
	}
	return p
}

// apply writes the changed module into dir.
func (p Patch) apply(ctx context.Context, dir string) error {
	if p.Version != "" {
		from, err := GoModule{Path: p.Module, Version: p.Version}.Source(ctx)
		if err != nil {
			return err
		}
		if err := p.copy(from, dir); err != nil {
			return fmt.Errorf("copy %s@%s: %w", p.Module, p.Version, err)
		}
	}
	for name, text := range p.Files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, edit := range p.Edits {
		if err := edit.apply(dir); err != nil {
			return fmt.Errorf("change %s@%s: %w", p.Module, p.Version, err)
		}
	}
	return nil
}

func (e Edit) apply(dir string) error {
	file := filepath.Join(dir, filepath.FromSlash(e.File))
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if found := bytes.Count(text, []byte(e.Old)); found != 1 {
		return fmt.Errorf("%s has %q %d times, want once", e.File, e.Old, found)
	}
	return os.WriteFile(file, bytes.Replace(text, []byte(e.Old), []byte(e.New), 1), 0o644)
}

// copy copies the module's files. Files of a module cache are read-only, and the copy is not.
func (p Patch) copy(from, dir string) error {
	return filepath.WalkDir(from, func(file string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, below)
		switch {
		case d.IsDir() && slices.Contains(p.Without, filepath.ToSlash(below)):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		}
		return copyFile(file, to)
	})
}
