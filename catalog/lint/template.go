package lint

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// template compares the generated files with the template. The next version would differ from a file that was edited by
// hand.
func (c *checker) template() error {
	addOn := filepath.Dir(c.dir)
	if c.dir == "." || filepath.Base(c.dir) != c.version {
		addOn = filepath.Dir(c.absolute())
	}
	t, err := template.Open(addOn)
	if errors.Is(err, fs.ErrNotExist) {
		return c.generated(addOn)
	}
	if err != nil {
		return err
	}
	c.upstreams(t.Parameters())
	values, err := t.Values(c.version)
	if err != nil {
		return err
	}
	filled, err := t.Fill(values)
	const hint = "change the template, or write the version again with sealift addon new-version"
	if err != nil {
		c.rule(c.pos(manifest.FileName), hint, "differs from the template's output: %v", err)
		return nil
	}
	for name, want := range filled {
		have, err := os.ReadFile(c.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if line := firstDifference(string(have), want); line > 0 {
			c.rule(diag.Pos{File: c.path(name), Line: line, Col: 1}, hint, "differs from the template's output")
		}
	}
	return nil
}

// upstreams compares the rules in addon.yaml with the parameters that the template has. For production each of them needs a rule, so that
// 'sealift addon outdated' misses none.
func (c *checker) upstreams(parameters []string) {
	for _, p := range slices.Sorted(maps.Keys(c.upstream)) {
		if !slices.Contains(parameters, p) {
			c.errorf(c.pos(catalog.MetaFile), diag.DidYouMean(p, parameters, "known: "), "upstream names %s, and the template has no such parameter", p)
		}
	}
	if c.tests == nil || !c.declared {
		return
	}
	var list diag.List
	for _, p := range parameters {
		if _, ruled := c.upstream[p]; !ruled {
			list.Warnf(c.pos(catalog.MetaFile), "add a rule under upstream; docs/addons.md has them", "nothing says where newer values of %s come from", p)
		}
	}
	c.take(&list)
}

// generated requires a template if the add-on has more than one version.
func (c *checker) generated(addOn string) error {
	others, err := filepath.Glob(filepath.Join(addOn, "*", manifest.FileName))
	if err != nil {
		return err
	}
	templateDir := filepath.Join(addOn, template.DirName)
	_, noTemplate := os.Stat(templateDir)
	if noTemplate != nil && len(others) < 2 {
		return nil
	}
	if scripts, err := filepath.Glob(filepath.Join(templateDir, "*.sh")); err != nil || len(scripts) > 0 {
		return err // kURL's add-ons have scripts such as generate.sh instead
	}
	c.rule(c.pos(manifest.FileName), "write "+filepath.Join(templateDir, template.ManifestFile)+" with parameters such as ${VERSION}",
		"nothing writes new versions of the add-on")
	return nil
}
