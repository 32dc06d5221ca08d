package lint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/spec"
)

// testsFile has the tests of an add-on. kURL's add-ons have them in files of the folder kurlTests beside their versions.
const (
	testsFile = "testgrid.yaml"
	kurlTests = "testgrid"
)

// GridTest has the fields of a grid test that lint checks. This package does not import the test grid.
type GridTest struct {
	Install *spec.Installer
	Upgrade *spec.Installer // nil if the test upgrades nothing
	Airgap  bool
	Nodes   int
	Checks  bool // an expectation exists, or a script checks the cluster
}

// ReadTests reads a file of tests for one version of an add-on. If the file is invalid, the error is a diag.Errors.
type ReadTests func(file, version string) ([]GridTest, error)

// ForProduction returns a Linter that also requires what an add-on needs to be merged without human approval: a generator of new
// versions, tests that cover what it does, host checks, a support bundle, and functions with the add-on's name. Add-ons without
// addon.yaml need all of it, too.
func (l *Linter) ForProduction(read ReadTests) *Linter {
	strict := *l
	strict.tests = read
	return &strict
}

// production reports what is missing beyond the other rules.
func (c *checker) production() error {
	if c.tests == nil {
		return nil
	}
	for _, required := range []struct{ file, hint string }{
		{preflightFile, "what must a host have, or have free, for this add-on?"},
		{supportFile, "which logs and states tell why this add-on does not work?"},
	} {
		_, err := os.Stat(c.path(required.file))
		if !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if !c.declared { // otherwise it has been reported
			c.errorf(c.pos(required.file), required.hint, "the add-on has no %s", required.file)
		}
	}
	if err := c.generator(); err != nil {
		return err
	}
	return c.coverage()
}

// generator requires a template, or a script that writes new versions, even with only one version.
func (c *checker) generator() error {
	dir := filepath.Join(filepath.Dir(c.absolute()), template.DirName)
	if _, err := os.Stat(filepath.Join(dir, template.ManifestFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if scripts, err := filepath.Glob(filepath.Join(dir, "*.sh")); err != nil || len(scripts) > 0 {
		return err
	}
	const nothing = "nothing writes new versions of the add-on"
	if !slices.ContainsFunc(c.findings, func(f diag.Finding) bool { return f.Severity == diag.Error && f.Message == nothing }) {
		c.errorf(c.pos(manifest.FileName), "write template/"+template.ManifestFile+" with parameters such as ${VERSION}", nothing)
	}
	return nil
}

// coverage checks what the tests of the add-on try.
func (c *checker) coverage() error {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(c.absolute()), template.DirName, kurlTests, "*.yaml"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.path(testsFile)); err == nil {
		files = append(files, c.path(testsFile))
	}
	if len(files) == 0 {
		c.errorf(c.pos(testsFile), "write tests of the add-on; docs/testgrid.md has the format", "the add-on has no %s", testsFile)
		return nil
	}
	var tests []GridTest
	for _, file := range files {
		read, err := c.tests(file, c.version)
		if err := c.mistakes(err); err != nil {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // the mistakes are findings
		}
		tests = append(tests, read...)
	}
	c.tried(diag.Pos{File: files[len(files)-1]}, tests)
	return nil
}

// tried reports what no test tries. An add-on with a hook for hosts that join needs a second host, and one with several versions an
// upgrade.
func (c *checker) tried(pos diag.Pos, tests []GridTest) {
	own := slices.DeleteFunc(slices.Clone(tests), func(t GridTest) bool { return !c.has(t.Install) && !c.has(t.Upgrade) })
	joins := c.script != nil && slices.ContainsFunc(c.script.Functions(), func(fn *syntax.FuncDecl) bool { return fn.Name.Value == c.name+"_join" })
	versions, _ := filepath.Glob(filepath.Join(filepath.Dir(c.absolute()), "[0-9]*", manifest.FileName))
	var missing []string
	for _, row := range []struct {
		needed bool
		what   string
		by     func(GridTest) bool
	}{
		{true, "installs the add-on (" + c.name + ": {version: __testver__})", func(t GridTest) bool { return c.has(t.Install) }},
		{true, "runs without a network (airgap: true)", func(t GridTest) bool { return t.Airgap }},
		{true, "looks at what it has installed (expect, or postInstallScript)", func(t GridTest) bool { return t.Checks }},
		{joins, "has a host that joins (numSecondaryNodes: 1), for the hook " + c.name + "_join", func(t GridTest) bool { return t.Nodes > 1 }},
		{len(versions) > 1, "upgrades the add-on (upgradeSpec)", func(t GridTest) bool { return c.has(t.Upgrade) }},
	} {
		if row.needed && !slices.ContainsFunc(own, row.by) {
			missing = append(missing, row.what)
		}
	}
	if len(missing) > 0 {
		c.errorf(pos, "", "no test of the add-on %s", strings.Join(missing, "; none "))
	}
}

// has reports whether an Installer names the add-on.
func (c *checker) has(i *spec.Installer) bool {
	return i != nil && slices.ContainsFunc(i.AddOns, func(a spec.AddOn) bool { return a.Name == c.name })
}
