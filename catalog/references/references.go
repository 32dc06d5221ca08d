// Package references finds the images that an add-on's YAML refers to, and holds them against those that its Manifest
// carries: an image that is referred to and not carried is found behind the air gap otherwise, by a pod that never starts.
//
// Kustomizations are rendered, other YAML is read as it is, and so is what install.sh has in here-documents, in variables
// named like an image and in arguments of --image. Nothing of an add-on is run: a variable that has one value wherever it is
// read is filled in, others are left open, and an image that depends on one is told as such. The package fetches and changes
// nothing.
package references

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// use is one place that refers to an image.
type use struct {
	image string
	pos   diag.Pos
	where string // such as: Deployment kube-system/metrics-server, container metrics-server
	// certain says that a node will pull it. Otherwise it is a field that looks like it.
	certain bool
}

// Check compares the images that the YAML of the add-on in dir, addons/<name>/<version>, refers to with its Manifest.
//
// An error among the findings is an image that a pod needs and the Manifest lacks. A warning is what may be one: a field
// of a custom resource, a variable, a kustomization that needs a hook; and an image of the Manifest that nothing names.
// The error result is about reading the add-on. A Manifest with mistakes is a diag.Errors. An install.sh that is no bash is
// left alone.
func Check(dir string) ([]diag.Finding, error) {
	hooks, err := script.Load(dir)
	if err != nil {
		hooks = nil
	}
	return CheckWith(dir, hooks)
}

// CheckWith is Check for an add-on whose install.sh was read before; nil stands for none.
func CheckWith(dir string, hooks *script.Script) ([]diag.Finding, error) {
	file, err := manifest.Load(filepath.Join(dir, manifest.FileName))
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "sealift-references-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	c := &checker{dir: dir, work: work, version: filepath.Base(mustAbs(dir)), carried: carriedBy(file), hooks: hooks, foreigners: make(map[string]bool)}
	if err := c.copy(); err != nil {
		return nil, fmt.Errorf("read add-on %s: %w", dir, err)
	}
	if err := c.render(); err != nil {
		return nil, fmt.Errorf("read add-on %s: %w", dir, err)
	}
	c.scanFiles()
	c.scanHooks()
	c.judge()
	return c.list.Findings(), nil
}

// mustAbs is the absolute path, or the path as it is where the working directory is gone.
func mustAbs(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return abs
}

// checker is one check under way.
type checker struct {
	dir     string // of the add-on, as the user named it
	work    string // a copy without links, its templates filled in
	version string
	carried []carried
	hooks   *script.Script // nil without an install.sh

	files    []string          // slash-separated, below work
	origin   map[string]string // of files that were made of a template: the template
	consumed map[string]bool   // files that a kustomization which was rendered takes in
	uses     []use
	// foreigners are the variables of others in install.sh that were told.
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

// normalize spells a reference out: with its registry, and with a tag or digest.
func normalize(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}

// repository is a reference without tag and digest.
func repository(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return named.Name()
}

// position is where a file of the copy lies for the user.
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
		if !image.used && !c.mentioned(image) {
			c.list.Warnf(image.Pos, "remove it, or name it in the file that uses it",
				"nothing in the add-on refers to image %s, neither by its reference nor by its id %s", image.Ref, image.ID)
		}
	}
}

func (c *checker) judgeOne(u use) {
	if strings.Contains(u.image, variableToken) || strings.Contains(u.image, "$") {
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
	hint := fmt.Sprintf("add to the Manifest: image <id> %s", u.image)
	for _, other := range c.carried {
		if repository(other.name) == repository(name) {
			hint = fmt.Sprintf("the Manifest has %s", other.Ref)
		}
	}
	if u.certain {
		c.list.Errorf(u.pos, hint, "%s: image %s is not in the Manifest", u.where, u.image)
	} else {
		c.list.Warnf(u.pos, hint, "%s: %s looks like an image and is not in the Manifest", u.where, u.image)
	}
}

// use marks an image as used and says whether it is carried.
func (c *checker) use(name string) bool {
	found := false
	for i := range c.carried {
		if c.carried[i].name == name {
			c.carried[i].used, found = true, true
		}
	}
	return found
}

// mentioned looks for an image in the add-on's other files: by its reference or repository anywhere, or by its id as a
// quoted word of install.sh, which may look it up in the Manifest.
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
