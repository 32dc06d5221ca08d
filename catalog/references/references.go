// Package references compares the images that an add-on's YAML refers to with those in its Manifest. Without this check, a
// missing image is found only behind the air gap, by a pod that never starts.
//
// Kustomizations are rendered. Other YAML is read unchanged, and so are here-documents, variables named like an image and
// --image arguments in install.sh. Nothing of an add-on is run. A variable that always has the same value is filled in; an
// image that depends on another variable is reported as such. The package fetches and changes nothing.
package references

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// use is one reference to an image.
type use struct {
	image string
	pos   diag.Pos
	where string // such as: Deployment kube-system/metrics-server, container metrics-server
	// certain means that a node will pull the image. Otherwise the field only looks like an image.
	certain bool
}

// Check compares the images that the YAML of an add-on refers to with its Manifest. dir is addons/<name>/<version>.
//
// An error finding is an image that a pod needs and the Manifest lacks. A warning is a possible image (a field of a custom
// resource, a variable, a kustomization that needs a hook), or an image of the Manifest that nothing refers to. The error
// result is a read error; mistakes in the Manifest are diag.Errors. Check ignores an install.sh that is not valid bash.
func Check(ctx context.Context, dir string, charts Charts) ([]diag.Finding, error) {
	hooks, err := script.Load(dir)
	if err != nil {
		hooks = nil
	}
	return CheckWith(ctx, dir, hooks, charts)
}

// Charts renders the charts of an add-on. It returns the images that they bring into the package, other images that they name,
// and findings.
type Charts interface {
	Charts(ctx context.Context, dir string) (carried, named []string, findings []diag.Finding, err error)
	// Module renders the chart that the add-on itself is, if it is a module with one, and returns the images that it names.
	Module(ctx context.Context, dir string) (uses []Use, findings []diag.Finding, err error)
}

// Use is a place in a module's chart that names an image.
type Use struct {
	Image  string
	Where  string // an object and its container, or a value
	File   string // below the add-on
	Pulled bool   // a pod needs it; otherwise it only looks like an image
}

// CheckWith is Check with a parsed install.sh; nil means none. Nil charts leave the charts of the Manifest out.
func CheckWith(ctx context.Context, dir string, hooks *script.Script, charts Charts) ([]diag.Finding, error) {
	var findings []diag.Finding
	err := check(ctx, dir, hooks, charts, func(c *checker) {
		c.judge()
		findings = c.list.Findings()
	})
	return findings, err
}

// check finds all uses of images, and hands them to judge.
func check(ctx context.Context, dir string, hooks *script.Script, charts Charts, judge func(*checker)) error {
	file, err := manifest.Load(filepath.Join(dir, manifest.FileName))
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "sealift-references-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c := &checker{dir: dir, work: work, version: filepath.Base(mustAbs(dir)), carried: carriedBy(file), assets: assetsOf(file), hooks: hooks, script: script.Name, foreigners: make(map[string]bool)}
	if charts != nil && len(file.Charts()) > 0 {
		carried, named, findings, err := charts.Charts(ctx, dir)
		if err != nil {
			return err
		}
		c.list.Add(findings...)
		c.bring(carried, named)
	}
	if charts != nil && catalog.HasChart(os.DirFS(dir), ".") {
		uses, findings, err := charts.Module(ctx, dir)
		if err != nil {
			return err
		}
		c.list.Add(findings...)
		for _, u := range uses {
			c.uses = append(c.uses, use{image: u.Image, pos: diag.Pos{File: filepath.Join(dir, filepath.FromSlash(u.File))}, where: u.Where, certain: u.Pulled})
		}
	}
	c.module = catalog.IsModule(os.DirFS(dir), ".")
	if err := c.copy(); err != nil {
		return fmt.Errorf("read add-on %s: %w", dir, err)
	}
	if err := c.render(); err != nil {
		return fmt.Errorf("read add-on %s: %w", dir, err)
	}
	c.scanFiles()
	c.scanHooks()
	c.scanModuleHooks()
	judge(c)
	return nil
}

// Missing returns the images that pods of an add-on need and its Manifest lacks, each once, in order.
func Missing(ctx context.Context, dir string, charts Charts) ([]string, error) {
	hooks, err := script.Load(dir)
	if err != nil {
		hooks = nil
	}
	var missing []string
	err = check(ctx, dir, hooks, charts, func(c *checker) {
		for _, u := range c.uses {
			name, err := normalize(u.image)
			if err == nil && u.certain && !u.depends() && !c.use(name) {
				missing = append(missing, u.image)
			}
		}
	})
	slices.Sort(missing)
	return slices.Compact(missing), err
}

// mustAbs returns the absolute path, or dir itself if the working directory no longer exists.
func mustAbs(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return abs
}

// checker is one check in progress.
type checker struct {
	dir     string // of the add-on, as the user named it
	work    string // a copy without links, its templates filled in
	version string
	carried []carried
	assets  []string       // names of the Manifest's files
	hooks   *script.Script // nil without an install.sh
	script  string         // the file of hooks
	module  bool           // it is a module of addon-operator

	files    []string          // slash-separated, below work
	origin   map[string]string // the template of a generated file
	consumed map[string]bool   // files that a rendered kustomization includes
	uses     []use
	objects  []Object
	// foreigners are the foreign variables in install.sh that were reported.
	foreigners map[string]bool
	list       diag.List
}

// carried is an image of the Manifest.
type carried struct {
	manifest.Image
	name string // in full
	used bool
}

func carriedBy(file *manifest.File) []carried {
	var list []carried
	for _, image := range file.Images() {
		name := image.Ref
		if full, err := normalize(image.Ref); err == nil {
			name = full
		}
		list = append(list, carried{Image: image, name: name})
	}
	return list
}

func assetsOf(file *manifest.File) (names []string) {
	for _, asset := range file.Assets() {
		names = append(names, asset.Name)
	}
	return names
}

// bring adds the images that charts carry, and marks those of the Manifest that charts name.
func (c *checker) bring(carriedByCharts, named []string) {
	for _, ref := range append(named, carriedByCharts...) {
		if name, err := normalize(ref); err == nil {
			c.use(name)
		}
	}
	for _, ref := range carriedByCharts {
		c.carried = append(c.carried, carried{name: ref, used: true})
	}
}

// normalize returns a complete reference, with registry and with tag or digest.
func normalize(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}

// repository returns a reference without tag and digest.
func repository(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return named.Name()
}

// position converts a position in the copy to one in the user's files.
func (c *checker) position(name string, line, column int) diag.Pos {
	if template, ok := c.origin[name]; ok {
		name = template
	}
	return diag.Pos{File: filepath.Join(c.dir, filepath.FromSlash(name)), Line: line, Col: column}
}

// judge turns uses into findings.
func (c *checker) judge() {
	told := make(map[string]bool)
	for _, u := range c.uses {
		if key := u.image + "\n" + u.where; !told[key] {
			told[key] = true
			c.judgeOne(u)
		}
	}
	for _, image := range c.carried {
		if !image.used && !c.mentioned(image) && !c.startedByDefault(image) {
			c.list.Warnf(image.Pos, "keep it if a program of the add-on starts pods of it by itself, and name it in a comment there; otherwise remove it",
				"nothing in the add-on refers to image %s, neither by its reference nor by its id %s", image.Ref, image.ID)
		}
	}
}

// depends reports whether the image depends on a variable.
func (u use) depends() bool {
	return strings.Contains(u.image, variableToken) || strings.Contains(u.image, "$")
}

func (c *checker) judgeOne(u use) {
	if u.depends() {
		c.list.Warnf(u.pos, "write the image out; a kustomization can change it", "%s: the image depends on a variable and was not checked", u.where)
		return
	}
	name, err := normalize(u.image)
	if err != nil {
		if u.certain {
			c.list.Errorf(u.pos, "", "%s: %q is not an image reference: %v", u.where, u.image, err)
		}
		return
	}
	if c.use(name) {
		return
	}
	hint := "add to the Manifest: image <id> " + u.image
	for _, other := range c.carried {
		if repository(other.name) == repository(name) {
			hint = "the Manifest has " + other.Ref
		}
	}
	if u.certain {
		c.list.Errorf(u.pos, hint, "%s: image %s is not in the Manifest", u.where, u.image)
	} else {
		c.list.Warnf(u.pos, hint, "%s: %s looks like an image and is not in the Manifest", u.where, u.image)
	}
}

// use marks an image as used and reports whether the Manifest has it.
func (c *checker) use(name string) bool {
	found := false
	for i := range c.carried {
		if c.carried[i].name == name {
			c.carried[i].used, found = true, true
		}
	}
	return found
}

// mentioned looks for an image in the add-on's other files: its reference or repository anywhere, or its id as a quoted
// word in install.sh, which may look it up in the Manifest.
func (c *checker) mentioned(image carried) bool {
	for _, name := range c.files {
		if name == manifest.FileName || strings.HasPrefix(name, manifest.FileName+".") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.work, filepath.FromSlash(name)))
		if err != nil {
			continue
		}
		text := string(data)
		if strings.Contains(text, image.Ref) || strings.Contains(text, repository(image.name)) {
			return true
		}
		if strings.HasSuffix(name, ".sh") && slices.ContainsFunc([]string{`"%s"`, `'%s'`}, func(quoted string) bool {
			return strings.Contains(text, fmt.Sprintf(quoted, image.ID))
		}) {
			return true
		}
	}
	return false
}
