package manifest

import (
	"errors"
	"net/url"
	"path"
	"strings"

	"github.com/sealift/sealift/internal/diag"
)

// ArchWord in the name or the source of an asset stands for the target architecture, such as amd64.
const ArchWord = "{arch}"

// Asset is `asset <name> <source>` or `asset <source>`: a file to carry.
type Asset struct {
	Origin

	Name   string // file name in the package's assets folder
	Source string // http(s) URL, or a path: absolute, or relative to the Manifest's directory
}

// Keyword is "asset".
func (Asset) Keyword() string { return "asset" }

// Describe returns the name and the source.
func (d Asset) Describe() Description {
	return Description{Name: d.Name, From: d.Source, Source: d.Source}
}

func (d Asset) check(c *checker) {
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

func assetSyntax() syntax {
	return syntax{keywords: []string{"asset"}, parse: parseAsset, kurl: atMost(2)}
}

func parseAsset(_ string, args []string, at Origin, problems *diag.List) Directive {
	const form = "write: asset [<name>] <url or path>"
	switch len(args) {
	case 0:
		problems.Errorf(at.Pos, form, "asset needs a source")
		return nil
	case 1:
		name, err := lastElement(args[0])
		if err != nil {
			problems.Errorf(at.word(0), "write: asset <name> <url or path>", "no file name can be taken from %q: %v", args[0], err)
			return nil
		}
		return Asset{Origin: at, Name: name, Source: args[0]}
	case 2:
		return Asset{Origin: at, Name: args[0], Source: args[1]}
	}
	unexpected(at.word(2), args[2], "", form, problems)
	return nil
}

// lastElement is the file name that a source suggests: what follows the last slash, without query, unescaped.
func lastElement(source string) (string, error) {
	if !strings.Contains(source, "://") {
		return path.Base(source), nil
	}
	u, err := url.Parse(source)
	if err != nil {
		return "", err
	}
	escaped := u.EscapedPath()
	name, err := url.PathUnescape(escaped[strings.LastIndex(escaped, "/")+1:])
	if err == nil && name == "" {
		err = errors.New("its path ends in a slash")
	}
	return name, err
}
