package manifest

import (
	"regexp"

	"github.com/sealift/sealift/internal/diag"
)

// Check checks a file against the rules that go beyond its grammar, and returns its findings in the order of the file. Errors
// make a build impossible; warnings name what will probably disappoint.
func Check(f *File) []diag.Finding {
	c := checker{seen: map[string]diag.Pos{}}
	for _, l := range f.lines {
		if l.directive == nil {
			continue
		}
		if c.placeholders(l) {
			continue
		}
		l.directive.check(&c)
	}
	return c.Findings()
}

type checker struct {
	diag.List
	seen map[string]diag.Pos // "<kind of name> <name>", for duplicates
}

var (
	placeholder = regexp.MustCompile(`__[A-Z][A-Z0-9_]*?__`)
	// fileName matches names that are valid on any system where a package is unpacked.
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
