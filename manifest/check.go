package manifest

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/internal/diag"
)

// Check holds a file against the rules that words alone do not show, and returns what it found in the order of the
// file. Errors are what no build can be made of; warnings are what will probably disappoint.
func Check(f *File) []diag.Finding {
	c := checker{seen: map[string]diag.Pos{}}
	for _, l := range f.lines {
		if l.directive == nil {
			continue
		}
		if c.placeholders(l) {
			continue
		}
		switch d := l.directive.(type) {
		case Image:
			c.image(d)
		case Asset:
			c.asset(d)
		case HostPackage:
			c.hostPackage(d)
		case Dockerout:
			c.dockerout(d)
		}
	}
	return c.Findings()
}

type checker struct {
	diag.List
	seen map[string]diag.Pos // "<kind of name> <name>", for duplicates
}

var (
	placeholder = regexp.MustCompile(`__[A-Z][A-Z0-9_]*?__`)
	// fileName is what may name a file of a package on any system it is unpacked on.
	fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+~-]*$`)
	// debName is Debian policy §5.6.1; rpmName is what rpmbuild accepts in Name.
	debName    = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	rpmName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	targetName = regexp.MustCompile(`^(ubuntu|debian|rhel|ol|amazon)-[0-9][0-9.]*(-[a-z]+)?$`)
	argName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// placeholders reports words that a template's generator left unfilled; the other rules would only stumble over them.
func (c *checker) placeholders(l line) bool {
	found := false
	for i, word := range l.words[1:] {
		if left := placeholder.FindString(word); left != "" {
			c.Errorf(l.directive.word(i), "fill it in, or keep the file in a folder called template", "unresolved placeholder %s", left)
			found = true
		}
	}
	return found
}

// duplicate reports a name used before in the same file.
func (c *checker) duplicate(severity diag.Severity, kind, name string, pos diag.Pos, hint string) {
	key := kind + " " + name
	first, again := c.seen[key]
	switch {
	case !again:
		c.seen[key] = pos
	case severity == diag.Warning:
		c.Warnf(pos, hint, "%s %q is already on line %d", kind, name, first.Line)
	default:
		c.Errorf(pos, hint, "%s %q is already on line %d", kind, name, first.Line)
	}
}

func (c *checker) image(d Image) {
	if !fileName.MatchString(d.ID) {
		c.Errorf(d.word(0), "it becomes a file name: letters, digits, '.', '_' and '-'", "bad image id %q", d.ID)
	}
	c.duplicate(diag.Error, "image id", d.ID, d.word(0), "give each image an id of its own")

	pos := d.word(1)
	ref, err := name.ParseReference(d.Ref)
	if err != nil {
		c.Errorf(pos, "write [registry/]repository:tag or @sha256:digest", "bad image reference: %v", err)
		return
	}
	afterSlash := d.Ref[strings.LastIndex(d.Ref, "/")+1:]
	if !strings.ContainsAny(afterSlash, ":@") {
		c.Errorf(pos, "an implied latest is never the same image twice; name a tag or a digest", "image reference %q has no tag", d.Ref)
		return
	}
	if tag, ok := ref.(name.Tag); ok && tag.TagStr() == name.DefaultTag {
		c.Warnf(pos, "name a version", "tag latest means another image tomorrow")
	}
}

func (c *checker) asset(d Asset) {
	if !fileName.MatchString(strings.ReplaceAll(d.Name, ArchWord, "arch")) {
		c.Errorf(d.word(0), "a plain file name: letters, digits, '.', '_', '+' and '-', no folders", "bad asset name %q", d.Name)
	}
	c.duplicate(diag.Error, "asset", d.Name, d.word(0), "give each asset a name of its own")

	pos := d.word(len(d.columns) - 1)
	if !strings.Contains(d.Source, "://") {
		if path.IsAbs(d.Source) {
			c.Errorf(pos, "give a path from the directory of the Manifest, within its repository", "asset %q is a path of the machine that builds", d.Source)
		}
		return
	}
	u, err := url.Parse(d.Source)
	switch {
	case err != nil:
		c.Errorf(pos, "", "bad URL: %v", err)
	case u.Scheme != "https" && u.Scheme != "http":
		c.Errorf(pos, "use https, or a path to a local file", "cannot fetch by %s", u.Scheme)
	case u.Host == "":
		c.Errorf(pos, "write https://host/path", "URL %q names no host", d.Source)
	case u.User != nil:
		c.Errorf(pos, "give them to a mirror, in sealift.yaml", "URL of %s has credentials, and a Manifest is in its package for all to read", u.Host)
	case u.Scheme == "http":
		c.Warnf(pos, "use https", "anyone on the way can change what %s sends; kURL takes only https for a URL", u.Host)
	}
}

func (c *checker) hostPackage(d HostPackage) {
	valid, pos := rpmName, d.word(0)
	if d.Kind.Manager == ManagerApt {
		valid = debName
	}
	if !valid.MatchString(d.Name) {
		hint := "give the package's bare name"
		if bare, _, ok := strings.Cut(d.Name, "="); ok && valid.MatchString(bare) {
			hint = fmt.Sprintf("write %q; versions are chosen when the Manifest is resolved", bare)
		}
		c.Errorf(pos, hint, "bad package name %q", d.Name)
		return
	}
	c.duplicate(diag.Warning, d.Kind.Keyword+" package", d.Name, pos, "remove this line")
}

func (c *checker) dockerout(d Dockerout) {
	switch {
	case !fileName.MatchString(d.Target):
		c.Errorf(d.word(0), "name an operating system, such as rhel-9", "bad target %q", d.Target)
	case !targetName.MatchString(d.Target):
		c.Warnf(d.word(0), "name an operating system, such as rhel-9", "no host looks for its packages in %q", d.Target)
	}
	if clean := path.Clean(d.Dockerfile); !filepath.IsLocal(clean) || clean == "." {
		c.Errorf(d.word(1), "give a path from the root of the repository", "Dockerfile %q is outside the repository", d.Dockerfile)
	}
	if d.Context != "" && !filepath.IsLocal(d.Context) {
		c.Errorf(d.word(2+len(d.BuildArgs)), "give a path from the root of the repository", "context %q is outside the repository", d.Context)
	}
	for i, arg := range d.BuildArgs {
		if !argName.MatchString(arg.Name) {
			c.Errorf(d.word(2+i), "letters, digits and '_'", "bad name of a build argument %q", arg.Name)
		}
	}
}
