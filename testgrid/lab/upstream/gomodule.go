package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/sealift/sealift/internal/capacity"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

// GoModule builds commands of a Go module with the module's own go.mod, so with the versions that its authors released.
type GoModule struct {
	Path    string
	Version string
	// Siblings is the version that replaces the local folders in the module's replace directives, as Kubernetes has them
	// for its staging modules. If empty, such directives are dropped and the required versions are used.
	Siblings string `json:",omitempty"`
	// Replace lists modules at versions that the module's authors do not require.
	Replace []Replacement `json:",omitempty"`
	// Patches are changed copies of modules.
	Patches []Patch `json:",omitempty"`
	// With lists libraries, module@version, that are required where the module's authors require older ones. Those of Siblings replace
	// nothing then: a package of a replaced module is compiled for the lab alone.
	With     []string `json:",omitempty"`
	Commands []GoCommand
	CGO      bool     `json:",omitempty"` // a static binary either way
	Tags     []string `json:",omitempty"`
	Set      []string `json:",omitempty"` // linker -X assignments, import/path.name=value
	Files    []string `json:",omitempty"` // unchanged files of the module, under their base names
	Packages []string `json:",omitempty"` // Debian packages whose headers and archives CGO needs
	Arch     string   `json:",omitempty"` // to build for; empty for amd64
	Sysroot  string   `json:",omitempty"` // component with the Packages of another architecture
	// OnlyAMD64 means that the module has C on amd64 alone.
	OnlyAMD64 bool `json:"-"`

	sysroot string // the folder of Sysroot
}

// Replacement is another version of a required module, or of a fork of it, and why it is needed.
type Replacement struct {
	Module, Version string
	By              string `json:",omitempty"` // the module that replaces it; Module itself if empty
	Why             string `json:"-"`
}

// GoCommand is one package main, or the tests of a package as a program.
type GoCommand struct {
	Package string `json:",omitempty"` // relative to the module's path; empty for the module's root
	Name    string // of the binary
	Tests   bool   `json:",omitempty"`
}

// Needs implements Recipe.
func (m GoModule) Needs() []string {
	if m.Sysroot == "" {
		return nil
	}
	return []string{m.Sysroot}
}

// on implements crossed.
func (m GoModule) on(arch string, _ func(string) string) Recipe {
	m.Arch = arch
	if m.OnlyAMD64 {
		m.CGO = false
	}
	if m.CGO && len(m.Packages) > 0 {
		m.Sysroot = sysroot(arch).ID()
	}
	return m
}

// Tools implements Recipe.
func (m GoModule) Tools() []debian.Tool {
	if !m.CGO {
		return nil
	}
	if m.Arch != "" {
		return append(debian.CrossCompiler(m.Arch), debian.PkgConfig)
	}
	tools := []debian.Tool{debian.GCC, debian.PkgConfig}
	for _, pkg := range m.Packages {
		tools = append(tools, debian.Installed(pkg))
	}
	return tools
}

// Make implements Recipe.
func (m GoModule) Make(ctx context.Context, w *Workshop, dir string) error {
	if m.Sysroot != "" {
		tree, err := w.File(ctx, FileOf{m.Sysroot, TreeName})
		if err != nil {
			return err
		}
		m.sysroot = tree
	}
	return m.inMainModule(ctx, func(src, work string) error {
		if err := m.build(ctx, work, dir); err != nil {
			return fmt.Errorf("build %s@%s: %w", m.Path, m.Version, err)
		}
		return m.keepFiles(src, dir)
	})
}

// download implements compiler. Listing the packages of the commands fetches exactly the modules that they need.
func (m GoModule) download(ctx context.Context) error {
	return m.inMainModule(ctx, func(_, work string) error {
		args := []string{"list", "-deps", "-tags", m.tags()}
		if slices.ContainsFunc(m.Commands, func(c GoCommand) bool { return c.Tests }) {
			args = append(args, "-test")
		}
		for _, c := range m.Commands {
			args = append(args, path.Join(m.Path, c.Package))
		}
		if len(m.Commands) == 0 {
			return nil
		}
		if _, err := run(ctx, m.goCommand(ctx, work, args...)); err != nil {
			return fmt.Errorf("download the dependencies of %s@%s: %w", m.Path, m.Version, err)
		}
		return nil
	})
}

// inMainModule calls do with the module's source and a main module that requires it. The main module is a copy of the
// module's go.mod under another name, so that its replace directives apply.
func (m GoModule) inMainModule(ctx context.Context, do func(src, work string) error) error {
	src, err := m.Source(ctx)
	if err != nil {
		return err
	}
	temporary, err := scratch.New()
	if err != nil {
		return err
	}
	defer func() { _ = temporary.Remove() }()
	if err := m.writeGoMod(ctx, src, temporary.Path()); err != nil {
		return err
	}
	return do(src, temporary.Path())
}

func (m GoModule) keepFiles(src, dir string) error {
	for _, name := range m.Files {
		if err := copyFile(filepath.Join(src, filepath.FromSlash(name)), filepath.Join(dir, path.Base(name))); err != nil {
			return fmt.Errorf("extract %s from %s@%s: %w", name, m.Path, m.Version, err)
		}
	}
	return nil
}

// build builds the commands into dir. One run of the compiler builds all commands with the name of their package, which links
// them in parallel. Each other command has a separate run.
func (m GoModule) build(ctx context.Context, work, dir string) error {
	var together []string
	for _, c := range m.Commands {
		pkg := path.Join(m.Path, c.Package)
		verb := []string{"build"}
		if c.Tests {
			verb = []string{"test", "-c"}
		} else if path.Base(pkg) == c.Name {
			together = append(together, pkg)
			continue
		}
		if err := m.compile(ctx, work, verb, filepath.Join(dir, c.Name), pkg); err != nil {
			return err
		}
	}
	if len(together) == 0 {
		return nil
	}
	return m.compile(ctx, work, []string{"build"}, dir+string(filepath.Separator), together...)
}

func (m GoModule) compile(ctx context.Context, work string, verb []string, out string, packages ...string) error {
	args := slices.Concat(verb, []string{"-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", m.ldflags(), "-tags", m.tags(), "-o", out})
	_, err := run(ctx, m.goCommand(ctx, work, append(args, packages...)...))
	return err
}

// tags are those of the module and of Sealift's own programs, so that both share what is compiled (Makefile). Debug information, which
// the linker drops, is not made in either, which saves a tenth of the time.
func (m GoModule) tags() string { return strings.Join(append([]string{"grpcnotrace"}, m.Tags...), ",") }

func (m GoModule) ldflags() string {
	flags := []string{"-s", "-w"}
	for _, assignment := range m.Set {
		flags = append(flags, "-X", assignment)
	}
	if m.CGO {
		flags = append(flags, `-extldflags "-static"`)
	}
	return strings.Join(flags, " ")
}

// ampleMemory is how much memory in bytes a machine has on which compilers collect garbage less often: that saves a tenth of their time, and
// takes up to twice the memory. The Makefile does the same for Sealift's own programs.
const ampleMemory = 7 << 30

// goCommand runs this machine's go command without the user's settings that would change the result.
func (m GoModule) goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cgo := "0"
	if m.CGO {
		cgo = "1"
	}
	cmd.Env = append(os.Environ(), "PWD="+dir, "CGO_ENABLED="+cgo, "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "GO111MODULE=on",
		"GOTOOLCHAIN=local", "GOOS=linux", "GOARCH="+cmp.Or(m.Arch, amd64), "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	if memory, err := capacity.Memory(os.DirFS("/")); err == nil && memory > ampleMemory {
		cmd.Env = append(cmd.Env, "GOGC=400")
	}
	if m.CGO && m.Arch != "" {
		cmd.Env = append(cmd.Env, crossEnvironment(m.Arch, m.sysroot)...)
	}
	return cmd
}

// Source downloads the module and returns the folder with its source.
func (m GoModule) Source(ctx context.Context) (string, error) {
	cmd := m.goCommand(ctx, os.TempDir(), "mod", "download", "-json", m.Path+"@"+m.Version)
	out, err := run(ctx, cmd)
	if err != nil {
		return "", fmt.Errorf("download the module %s@%s: %w", m.Path, m.Version, err)
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", fmt.Errorf("read the answer of go mod download: %w", err)
	}
	return answer.Dir, nil
}

// goMod is the needed part of the output of `go mod edit -json`.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// local lists the modules that are folders of this one.
func (f goMod) local() (paths []string) {
	for _, r := range f.Replace {
		if strings.HasPrefix(r.New.Path, "./") || strings.HasPrefix(r.New.Path, "../") {
			paths = append(paths, r.Old.Path)
		}
	}
	return paths
}

// older lists arguments of `go mod edit`: a requirement for each library, module@version, of which the file requires an older version.
func (f goMod) older(libraries []string) (args []string) {
	for _, library := range libraries {
		module, version, _ := strings.Cut(library, "@")
		for _, r := range f.Require {
			if r.Path == module && semver.Compare(r.Version, version) < 0 {
				args = append(args, "-require="+library)
			}
		}
	}
	return args
}

func (m GoModule) readGoMod(ctx context.Context, src string) (file goMod, err error) {
	out, err := run(ctx, m.goCommand(ctx, os.TempDir(), "mod", "edit", "-json", filepath.Join(src, "go.mod")))
	if err != nil {
		return file, err
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return file, fmt.Errorf("read go.mod of %s: %w", m.Path, err)
	}
	return file, nil
}

func (m GoModule) writeGoMod(ctx context.Context, src, work string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(src, name), filepath.Join(work, name)); err != nil {
			return fmt.Errorf("copy %s of %s: %w", name, m.Path, err)
		}
	}
	requirements, err := m.requirements(ctx, src)
	if err != nil {
		return err
	}
	args := append([]string{"mod", "edit", "-module=lab.invalid/" + path.Base(m.Path), "-toolchain=none"}, requirements...)
	for i, patch := range m.Patches {
		folder := "./patched/" + strconv.Itoa(i) // relative, because the program has it in its build information
		if err := patch.apply(ctx, filepath.Join(work, folder)); err != nil {
			return err
		}
		args = append(args, "-replace="+patch.Module+"="+folder)
	}
	_, err = run(ctx, m.goCommand(ctx, work, args...))
	return err
}

// requirements lists the arguments of `go mod edit` that require m, with its siblings and replacements.
func (m GoModule) requirements(ctx context.Context, src string) ([]string, error) {
	file, err := m.readGoMod(ctx, src)
	if err != nil {
		return nil, err
	}
	args := append(file.older(m.With), "-require="+m.Path+"@"+m.Version)
	for _, sibling := range file.local() {
		if m.patches(sibling) {
			continue
		}
		if m.Siblings == "" || slices.Contains(m.With, sibling+"@"+m.Siblings) {
			args = append(args, "-dropreplace="+sibling)
		} else {
			args = append(args, "-replace="+sibling+"="+sibling+"@"+m.Siblings)
		}
	}
	for _, r := range m.Replace {
		args = append(args, "-replace="+r.Module+"="+cmp.Or(r.By, r.Module)+"@"+r.Version)
	}
	return args, nil
}

func (m GoModule) patches(module string) bool {
	return slices.ContainsFunc(m.Patches, func(p Patch) bool { return p.Module == module })
}

// copyFile copies a regular file and its execute permission. The copy is writable, unlike files in a module cache.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644|info.Mode().Perm()&0o111)
}
