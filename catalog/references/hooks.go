package references

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/references/object"
	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/internal/diag"
)

// imageFlag matches command-line options whose value is an image.
var imageFlag = regexp.MustCompile(`^--?([a-z-]+-)?image$`)

// scanHooks looks for images in install.sh: in objects in here-documents, in variables and options named like an image, and
// in words that differ from an image of the Manifest only by the tag.
func (c *checker) scanHooks() {
	if c.hooks == nil {
		return
	}
	syntax.Walk(c.hooks.File, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Hdoc != nil {
				c.hereDocument(n)
				c.sandbox(n.Hdoc)
			}
			return n.Hdoc == nil
		case *syntax.Assign:
			if n.Name != nil && strings.Contains(strings.ToLower(n.Name.Value), "image") {
				c.hookImage(n.Value, "variable "+n.Name.Value)
			}
			c.otherTags(n.Value)
		case *syntax.CallExpr:
			c.arguments(n)
		case *syntax.Word:
			c.sandbox(n)
		}
		return true
	})
}

// scanModuleHooks does the same for the hooks of a module that are bash. Only a test can show what a hook in another language
// starts.
func (c *checker) scanModuleHooks() {
	if !c.module {
		return
	}
	for _, name := range c.files {
		if !strings.HasPrefix(name, catalog.HooksDir+"/") && name != catalog.EnabledFile {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.work, filepath.FromSlash(name)))
		if err != nil || !shebang.Match(data) {
			continue
		}
		hooks, err := script.Parse(bytes.NewReader(data), name, "", c.version)
		if err != nil {
			c.list.Warnf(c.position(name, 0, 0), "", "is not bash, and was not checked: %v", err)
			continue
		}
		c.hooks, c.script = hooks, name
		c.scanHooks()
	}
}

// shebang matches that of a shell.
var shebang = regexp.MustCompile(`^#! ?/[^\n]*\b(ba|da)?sh\b`)

// hereDocument scans a here-document that is a Kubernetes object.
func (c *checker) hereDocument(r *syntax.Redirect) {
	text, _ := c.hooks.Text(r.Hdoc)
	before := len(c.uses)
	c.scan([]byte(variable.ReplaceAllString(text, variableToken+"x")), source{name: c.script, nested: true})
	for i := range c.uses[before:] {
		c.uses[before+i].pos = c.inHooks(r.Hdoc)
	}
}

// hookImage records a word that names an image. It skips words that only the running hook knows.
func (c *checker) hookImage(w *syntax.Word, where string) {
	if text, whole := c.hooks.Text(w); whole && object.LooksLikeImage(text) {
		c.uses = append(c.uses, use{image: text, pos: c.inHooks(w), where: where})
	}
}

// comparing are commands that compare or print their arguments and run nothing.
func comparing() []string {
	return []string{"[", "test", "grep", "echo", "printf", "log", "logStep", "logSubstep", "logSuccess", "logWarn", "logFail", "bail"}
}

// arguments records the values of options that are named like an image.
func (c *checker) arguments(call *syntax.CallExpr) {
	if len(call.Args) == 0 || slices.Contains(comparing(), call.Args[0].Lit()) {
		return
	}
	for i, arg := range call.Args {
		c.otherTags(arg)
		text, whole := c.hooks.Text(arg)
		flag, value, joined := strings.Cut(text, "=")
		switch {
		case !imageFlag.MatchString(flag):
		case joined && whole && object.LooksLikeImage(value):
			c.uses = append(c.uses, use{image: value, pos: c.inHooks(arg), where: "option " + flag})
		case joined:
			c.foreign(arg, value, "option "+flag)
		case i+1 < len(call.Args):
			c.hookImage(call.Args[i+1], "option "+flag)
			value, _ := c.hooks.Text(call.Args[i+1])
			c.foreign(call.Args[i+1], value, "option "+flag)
		}
	}
}

// otherTags records words, and items of lists, that name a repository of the Manifest.
func (c *checker) otherTags(w *syntax.Word) {
	if w == nil {
		return
	}
	text, _ := c.hooks.Text(w)
	for part := range strings.SplitSeq(text, ",") {
		if !strings.Contains(part, "$") && strings.Contains(part, "/") && object.LooksLikeImage(part) && strings.Contains(part, ":") &&
			slices.ContainsFunc(c.carried, func(i carried) bool { return repository(i.name) == repository(part) }) {
			c.uses = append(c.uses, use{image: part, pos: c.inHooks(w), where: "a word of a hook"})
			for other := range strings.SplitSeq(text, ",") {
				c.foreign(w, other, "one of several images")
			}
		}
	}
}

// onlyVariable matches a text that is only a variable in capitals.
var onlyVariable = regexp.MustCompile(`^\$([A-Z][A-Z0-9_]*)$`)

// foreign reports an image that comes from another add-on's variable. The Manifest cannot contain it, and if nothing sets
// the variable, it is empty.
func (c *checker) foreign(w *syntax.Word, text, where string) {
	found := onlyVariable.FindStringSubmatch(text)
	if found == nil || c.hooks.Set[found[1]] || c.foreigners[found[1]] {
		return
	}
	c.foreigners[found[1]] = true
	c.list.Warnf(c.inHooks(w), "name an image of the Manifest", "%s is %s, which the add-on does not set: it is empty, or an image that the Manifest does not have", where, text)
}

// sandboxImage matches containerd's setting for the pod sandbox image, in its two spellings.
var sandboxImage = regexp.MustCompile(`\bsandbox(?:_image)? = ["']([^"'$]+)["']`)

// sandbox records the sandbox image that a hook configures in containerd.
func (c *checker) sandbox(w *syntax.Word) {
	text, _ := c.hooks.Text(w)
	for _, found := range sandboxImage.FindAllStringSubmatch(strings.ReplaceAll(text, `\"`, `"`), -1) {
		if object.LooksLikeImage(found[1]) {
			c.uses = append(c.uses, use{image: found[1], pos: c.inHooks(w), where: "containerd's sandbox image"})
		}
	}
}

// inHooks returns a position in the script that is looked at.
func (c *checker) inHooks(n syntax.Node) diag.Pos {
	return c.position(c.script, int(n.Pos().Line()), int(n.Pos().Col()))
}
