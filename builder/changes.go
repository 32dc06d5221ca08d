package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/bundle"
)

// Comparison describes how a build of an add-on would differ from its package of an earlier build.
type Comparison struct {
	Dir     string   `json:"dir"`
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Changes []string `json:"changes"` // for people; none: it would be the same
}

// ErrUnreadable reports that there is a package of an earlier build that cannot be read: it is damaged, or of another format.
var ErrUnreadable = errors.New("the package cannot be read")

// Compare reports what a build of the add-on in dir would change in the package that published returns. It resolves the Manifest
// and packs nothing; it fetches content only where that is the only way to learn its digest. If there is no package, published
// returns an error that wraps fs.ErrNotExist; an error that wraps ErrUnreadable is a change, and others end the comparison. If the
// Manifest cannot be resolved, the reason is the change, so that a list of many add-ons has the others. If another version of
// sealift packs the same content in another way, that is not a change.
func (b *Builder) Compare(ctx context.Context, dir string, published func(name, version string) (*bundle.Archive, error)) (Comparison, error) {
	a, err := openAddOn(dir)
	if err != nil {
		return Comparison{}, err
	}
	defer a.close()
	c := Comparison{Dir: dir, Name: a.name, Version: a.version, Changes: []string{}}
	was, err := published(a.name, a.version)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Changes = append(c.Changes, "there is no package yet")
		return c, nil
	case errors.Is(err, ErrUnreadable):
		c.Changes = append(c.Changes, err.Error())
		return c, nil
	case err != nil:
		return Comparison{}, err
	}
	defer was.Close()
	changes, err := b.compare(ctx, a, was)
	if ctx.Err() != nil {
		return Comparison{}, context.Cause(ctx)
	}
	if err != nil {
		changes = []string{"cannot be compared: " + err.Error()}
	}
	c.Changes = append(c.Changes, changes...)
	return c, nil
}

func (b *Builder) compare(ctx context.Context, a *addOn, was *bundle.Archive) (changes []string, err error) {
	own, err := a.files(bundle.AddOnDir(a.name, a.version))
	if err != nil {
		return nil, err
	}
	l, err := a.lock()
	if err != nil {
		return nil, err
	}
	r, err := b.kinds.Resolve(ctx, a.directives(), kind.Pins{Lock: l, Only: b.locked, Compared: true})
	if err != nil {
		return nil, err
	}
	now := b.describe(a, r)
	changes = append(changes, b.settingChanges(now, was)...)
	changes = append(changes, b.kinds.Changes(a.manifest, was.Index.Packages[0].Contents, now.Contents)...)
	return append(changes, kind.Compare("file", b.ownBefore(was), ownNow(own))...), nil
}

// settingChanges compares settings of a whole package.
func (b *Builder) settingChanges(now bundle.Package, was *bundle.Archive) []string {
	var changes []string
	info := was.Index.Packages[0]
	if !slices.Equal(was.Index.Platforms, b.platforms) {
		changes = append(changes, fmt.Sprintf("platforms: %s → %s", strings.Join(was.Index.Platforms, ", "), strings.Join(b.platforms, ", ")))
	}
	if !slices.Equal(info.Targets, now.Targets) {
		changes = append(changes, fmt.Sprintf("targets: %s → %s", strings.Join(info.Targets, ", "), strings.Join(now.Targets, ", ")))
	}
	if len(now.Contents.Images) > 0 && b.otherFormat(was) {
		changes = append(changes, "image format: is "+string(b.format)+" now")
	}
	if b.key != nil {
		public, err := b.key.Public()
		if err == nil {
			_, err = was.VerifySignature(public)
		}
		if err != nil {
			changes = append(changes, "signature: not by this key")
		}
	}
	return changes
}

// otherFormat reports whether a package has its images in another format. A lean package may have no layer that is worth it.
func (b *Builder) otherFormat(was *bundle.Archive) bool {
	_, layout := was.Entry(path.Join(was.Index.Packages[0].Dir(), kind.ImagesDir, "oci-layout"))
	return layout == (b.format == DockerArchive) || was.Index.Format == bundle.FormatLean && b.format != Lean
}

// ownNow and ownBefore return the add-on's own files, which no directive adds.
func ownNow(files []bundle.File) map[string]string {
	m := make(map[string]string)
	for _, f := range files {
		m[f.Path] = fmt.Sprintf("%o %s", f.Mode.Perm(), f.SHA256)
	}
	return m
}

func (b *Builder) ownBefore(was *bundle.Archive) map[string]string {
	m := make(map[string]string)
	for _, e := range was.Index.Entries {
		if !b.kinds.Made(was.Index.Packages[0], e.Path) {
			m[e.Path] = fmt.Sprintf("%o %s", fs.FileMode(e.Mode).Perm(), e.SHA256)
		}
	}
	return m
}
