// Package lint reports what an add-on lacks for production: a Manifest and hooks without mistakes, a description, host
// checks, a support bundle, links instead of copies between its versions, and every image that it needs.
//
// It reads add-ons in a work tree. It never runs or changes anything, and fetches only charts. Add-ons without addon.yaml, such as kURL's,
// are older than these rules. They may lack host checks and a support bundle, and other findings are warnings unless no
// install could succeed.
package lint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/commands"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/manifest/repository"
)

const (
	preflightFile   = "host-preflight.yaml"
	supportFile     = "troubleshoot.yaml"
	maxFileSize     = 4 << 20  // bytes of a parsed file; the largest install.sh of kURL has 60 KB
	maxComparedSize = 16 << 20 // bytes of a file that is compared between versions
)

// Find returns the add-on folders below paths. A folder with a Manifest is an add-on; in any other folder, Find searches
// the tree for Manifests that sealift manifest lint would accept. If there are none, it returns an error.
func Find(paths ...string) ([]string, error) {
	var dirs []string
	for _, path := range paths {
		if info, err := os.Stat(filepath.Join(path, manifest.FileName)); err == nil && info.Mode().IsRegular() {
			dirs = append(dirs, filepath.Clean(path))
			continue
		}
		files, err := manifest.Find(path)
		if err != nil {
			return nil, err
		}
		before := len(dirs)
		for _, file := range files {
			if filepath.Base(file) == manifest.FileName {
				dirs = append(dirs, filepath.Dir(file))
			}
		}
		if len(dirs) == before {
			return nil, fmt.Errorf("no add-on in %s: name a directory with a %s, or a tree of such directories", path, manifest.FileName)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// Linter reads add-ons. It caches the digests of files to compare versions. It must not be used from several goroutines at
// once.
type Linter struct {
	core    Core
	charts  references.Charts
	known   map[string]bool              // programs and functions on every node
	digests map[string][sha256.Size]byte // by path
	tests   ReadTests                    // nil unless the production checks are requested
}

// New returns a Linter for hooks that find core on every node. charts renders the charts of Manifests; nil leaves them out.
func New(core Core, charts references.Charts) *Linter {
	l := &Linter{core: core, charts: charts, known: make(map[string]bool), digests: make(map[string][sha256.Size]byte)}
	for _, name := range slices.Concat(commands.Known(), core.Functions) {
		l.known[name] = true
	}
	return l
}

// AddOn returns the findings in the add-on folder dir, addons/<name>/<version>, file by file. The error is a read error.
func (l *Linter) AddOn(ctx context.Context, dir string) ([]diag.Finding, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &checker{Linter: l, dir: dir, name: filepath.Base(filepath.Dir(abs)), version: filepath.Base(abs)}
	if err := c.links(); err != nil || len(c.findings) > 0 {
		return c.findings, err // files outside the add-on are not read
	}
	_, err = os.Stat(filepath.Join(dir, catalog.MetaFile))
	c.declared = err == nil
	if c.files, err = files(dir); err != nil {
		return nil, err
	}
	for _, check := range []func() error{c.lineEnds, c.readHooks, func() error { return c.manifest(ctx) }, c.meta, c.hooks, c.preflights, c.support, c.kubeadm, c.shared, c.template, c.production} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.findings, func(a, b diag.Finding) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	return c.findings, nil
}

// checker checks one add-on.
type checker struct {
	*Linter
	dir           string // as the user named it
	name, version string
	declared      bool                   // has an addon.yaml
	upstream      map[string]origin.Rule // by parameters of the template
	files         []string               // below dir
	script        *script.Script         // nil if missing or not valid bash
	packages      []manifest.HostPackage
	assets        []manifest.Asset
	findings      []diag.Finding
}

// files lists the regular files below a folder. It skips hidden folders.
func files(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != dir:
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	return names, err
}

// path returns a file of the add-on as the user would name it.
func (c *checker) path(name string) string { return filepath.Join(c.dir, name) }

// pos returns the position of a whole file.
func (c *checker) pos(name string) diag.Pos { return diag.Pos{File: c.path(name)} }

// take adds the findings of list.
func (c *checker) take(list *diag.List) { c.findings = append(c.findings, list.Findings()...) }

// rule adds a finding about a rule for production add-ons: an error, or a warning for an add-on that is older than the
// rules.
func (c *checker) rule(pos diag.Pos, hint, format string, args ...any) {
	var list diag.List
	if c.declared {
		list.Errorf(pos, hint, format, args...)
	} else {
		list.Warnf(pos, hint, format, args...)
	}
	c.take(&list)
}

// errorf adds a finding that is an error in every add-on.
func (c *checker) errorf(pos diag.Pos, hint, format string, args ...any) {
	var list diag.List
	list.Errorf(pos, hint, format, args...)
	c.take(&list)
}

// mistakes adds the findings in err. It returns any other error.
func (c *checker) mistakes(err error) error {
	if found, ok := errors.AsType[diag.Errors](err); ok {
		c.findings = append(c.findings, found...)
		return nil
	}
	return err
}

// links reports symbolic links that lead out of addons/<name>. The add-on cannot be packaged with them.
func (c *checker) links() error {
	r, err := repository.Of(c.dir)
	if err != nil {
		return err
	}
	defer r.Close()
	below, err := r.Name(filepath.Dir(c.absolute()), ".")
	if err != nil {
		return err
	}
	var list diag.List
	addOn, err := r.Dir(below)
	if errors.Is(err, repository.ErrOutside) {
		list.Errorf(diag.Pos{File: c.dir}, "keep the add-on in the repository", "%v", err)
		c.take(&list)
		return nil
	}
	if err != nil {
		return err
	}
	defer addOn.Close()
	err = fs.WalkDir(addOn.FS(), c.version, func(at string, entry fs.DirEntry, err error) error {
		switch name := strings.TrimPrefix(at, c.version); {
		case err == nil && strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case err == nil && (strings.HasPrefix(entry.Name(), ".") || entry.Type() != fs.ModeSymlink):
			return nil
		default:
			if err == nil {
				_, err = addOn.Stat(at)
			}
			if err != nil {
				list.Errorf(c.pos(name), "a link must lead to a file of the same add-on", "%v", err)
			}
			return nil
		}
	})
	c.take(&list)
	return err
}

// manifest checks the Manifest, and that it has every image that the add-on refers to.
func (c *checker) manifest(ctx context.Context) error {
	file := c.path(manifest.FileName)
	findings, err := manifest.LintFile(file)
	if err != nil {
		return err
	}
	c.findings = append(c.findings, findings...)
	if diag.Err(findings) != nil {
		return nil //nolint:nilerr // the findings are reported already
	}
	parsed, err := manifest.Load(file)
	if err != nil {
		return c.mistakes(err)
	}
	c.packages, c.assets = parsed.HostPackages(), parsed.Assets()
	missing, err := references.CheckWith(ctx, c.dir, c.script, c.charts)
	if err != nil {
		return c.mistakes(err)
	}
	for _, f := range missing {
		if name := filepath.Base(f.Pos.File); f.Pos.Line == 0 && (name == preflightFile || name == supportFile) {
			continue // templates are checked separately
		}
		if !c.declared {
			f.Severity = diag.Warning
		}
		c.findings = append(c.findings, f)
	}
	return nil
}

func (c *checker) meta() error {
	if !c.declared {
		c.rule(c.pos(catalog.MetaFile), "write one with description, provides, requires and options", "the add-on has no %s", catalog.MetaFile)
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(c.absolute()))
	if err != nil {
		return err
	}
	defer root.Close()
	m, err := catalog.Read(inAddOns{root.FS(), c.name}, c.name, c.version)
	if err != nil {
		var found diag.Errors
		if !errors.As(err, &found) {
			return err
		}
		for _, f := range found {
			f.Pos.File = c.path(catalog.MetaFile)
			c.findings = append(c.findings, f)
		}
		return nil
	}
	if m.Module {
		if err := catalog.CheckModuleName(c.name); err != nil {
			c.errorf(c.pos(catalog.MetaFile), "", "the operator would not start with this module: %v", err)
		}
	}
	c.upstream = m.Upstream
	if m.Description == "" {
		c.rule(c.pos(catalog.MetaFile), "say in a line what the add-on brings", "description is missing")
	}
	return nil
}

func (c *checker) absolute() string {
	abs, err := filepath.Abs(c.dir)
	if err != nil {
		return c.dir
	}
	return abs
}

// inAddOns shows one add-on folder at the path addons/<name>.
type inAddOns struct {
	fs.FS
	name string
}

// Open opens a file of the add-on.
func (f inAddOns) Open(name string) (fs.File, error) {
	below, err := filepath.Rel(filepath.Join("addons", f.name), filepath.FromSlash(name))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(filepath.ToSlash(below))
}
