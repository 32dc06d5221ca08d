package manifest

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/internal/diag"
)

// Image is `image <id> <reference> [no_remote_load]`: a container image to carry.
type Image struct {
	Origin

	ID  string // names the image inside its add-on: a file name, unique in the Manifest
	Ref string // as written, with a tag or a digest; the registry may be implied (docker.io)
	// NoRemoteLoad keeps the image off nodes other than the one that installs (kURL §1.2: jobs of the installer itself).
	NoRemoteLoad bool
}

// Keyword is "image".
func (Image) Keyword() string { return "image" }

// Describe returns the id and the reference.
func (d Image) Describe() Description {
	return Description{Name: d.ID, From: d.Ref, Reference: d.Ref, NoRemoteLoad: d.NoRemoteLoad}
}

func (d Image) check(c *checker) {
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

// noRemoteLoad is the only word that may follow an image's reference.
const noRemoteLoad = "no_remote_load"

func imageSyntax() syntax {
	return syntax{keywords: []string{"image"}, parse: parseImage, kurl: func(args []string) []string {
		if args = atMost(3)(args); len(args) == 3 && args[2] != noRemoteLoad {
			return args[:2]
		}
		return args
	}}
}

func parseImage(_ string, args []string, at Origin, problems *diag.List) Directive {
	const form = "write: image <id> <reference> [" + noRemoteLoad + "]"
	if len(args) < 2 {
		problems.Errorf(at.Pos, form, "image needs an id and a reference")
		return nil
	}
	d := Image{Origin: at, ID: args[0], Ref: args[1]}
	for i, extra := range args[2:] {
		switch {
		case extra == noRemoteLoad && !d.NoRemoteLoad:
			d.NoRemoteLoad = true
		case extra == noRemoteLoad:
			problems.Errorf(at.word(2+i), form, "%s is repeated", noRemoteLoad)
			return nil
		default:
			unexpected(at.word(2+i), extra, diag.Nearest(extra, []string{noRemoteLoad}), form, problems)
			return nil
		}
	}
	return d
}
