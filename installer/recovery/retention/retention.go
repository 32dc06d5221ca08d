// Package retention decides which images a node keeps: those of its bundle, those to which an undo of its last upgrade goes back, those
// that a container uses, and those that a person has loaded or added. By itself, it removes no other than those that earlier bundles brought.
package retention

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/regularfile"
)

// Why an image stays, besides the packages that have it.
const (
	byContainers = "used by containers"
	byPerson     = "loaded by 'sealift images load'"
	byAdding     = "added by 'sealift images add'"
	byOthers     = "not from a bundle, or loaded by an earlier sealift"
	byUnknown    = "unknown: this node has no list of its packages; its next upgrade writes one"
)

// Image is an image of a node, and why it stays.
type Image struct {
	runtime.Stored
	// Reasons are empty if nothing needs the image.
	Reasons []string `json:"reasons"`
}

// Node is the host that a program runs on.
type Node struct {
	Root   string // install root
	Socket string // of containerd
}

// Images lists the images of the node. It needs root.
func (n Node) Images(ctx context.Context) ([]Image, error) {
	r, err := runtime.ConnectRunning(ctx, n.Socket)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return n.images(ctx, r)
}

func (n Node) images(ctx context.Context, r *runtime.Runtime) ([]Image, error) {
	bundles, err := n.bundles()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // on a node of an earlier sealift, no image has an origin
		return nil, err
	}
	stored, err := r.Images(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]Image, len(stored))
	for i, s := range stored {
		images[i] = Image{s, reasons(s, bundles)}
	}
	return images, nil
}

// Unneeded are the images that Prune would remove.
func (n Node) Unneeded(ctx context.Context) ([]Image, error) {
	images, err := n.Images(ctx)
	return unneeded(images), err
}

func unneeded(images []Image) []Image {
	return slices.DeleteFunc(images, func(i Image) bool { return len(i.Reasons) > 0 })
}

// prune removes the images that nothing needs, and returns those that it has removed. Nothing else may change the node meanwhile.
func (n Node) prune(ctx context.Context) (removed []Image, err error) {
	r, err := runtime.ConnectRunning(ctx, n.Socket)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	images, err := n.images(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, image := range unneeded(images) {
		if err := r.Remove(ctx, image.Stored); err != nil {
			return removed, err
		}
		removed = append(removed, image)
	}
	return removed, nil
}

// Prune removes the images that nothing needs, and returns those that it has removed. It needs root, and waits for no other operation
// that works on the node: that is an error.
func (n Node) Prune(ctx context.Context) (removed []Image, err error) {
	lock, err := node.Lock(n.Root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return n.prune(ctx)
}

// Added returns the image of a name that 'sealift images add' brought and that nothing else needs, with the names to remove: see ownNames. Others
// are an error.
func (n Node) Added(ctx context.Context, name string) (Image, error) {
	images, err := n.Images(ctx)
	if err != nil {
		return Image{}, err
	}
	return added(images, name)
}

func added(images []Image, name string) (Image, error) {
	at := slices.IndexFunc(images, func(i Image) bool { return slices.Contains(i.Names, name) })
	if at < 0 {
		return Image{}, fmt.Errorf("this node has no image %s; 'sealift images list' shows the names", name)
	}
	found := images[at]
	if found.Origin != runtime.OfApplication {
		return found, fmt.Errorf("image %s was not added with 'sealift images add': %s", name, strings.Join(found.Reasons, ", "))
	}
	others := slices.DeleteFunc(slices.Clone(found.Reasons), func(why string) bool { return why == byAdding || why == byUnknown })
	if len(others) > 0 {
		return found, fmt.Errorf("image %s is still needed: %s", name, strings.Join(others, ", "))
	}
	found.Names = ownNames(found.Names, name)
	return found, nil
}

// ownNames returns the names of an image that end together with one of them: that name; the repository with the digest, if it has no other tag; and
// the rest, if no repository remains. With a digest, all tags of the repository end. Other applications may have the image by other names.
func ownNames(all []string, name string) []string {
	repository := ocilayout.Repository(name)
	isID := func(one string) bool { return strings.HasPrefix(one, "sha256:") }
	kept := slices.DeleteFunc(slices.Clone(all), func(one string) bool {
		return isID(one) || ocilayout.Repository(one) == repository && (strings.Contains(name, "@") || one == name || strings.Contains(one, "@"))
	})
	if slices.ContainsFunc(kept, func(one string) bool { return ocilayout.Repository(one) == repository }) {
		return []string{name}
	}
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(kept, one) || isID(one) && len(kept) > 0 })
}

// RemoveAdded removes an image as Added returns it. It needs root, and waits for no other operation that works on the
// node: that is an error.
func (n Node) RemoveAdded(ctx context.Context, name string) (_ Image, err error) {
	lock, err := node.Lock(n.Root)
	if err != nil {
		return Image{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r, err := runtime.ConnectRunning(ctx, n.Socket)
	if err != nil {
		return Image{}, err
	}
	defer r.Close()
	images, err := n.images(ctx, r)
	if err != nil {
		return Image{}, err
	}
	image, err := added(images, name)
	if err != nil {
		return image, err
	}
	return image, r.Remove(ctx, image.Stored)
}

// Keep keeps what an upgrade replaces (undo.Store.Keep). When the upgrade begins, it also removes the images that only the bundle before
// the last one had: that upgrade can no longer be undone. note gets a line about them; a failure to remove them is only noted.
func (n Node) Keep(ctx context.Context, upgrade, from string, note func(string)) (undo.Set, error) {
	store := undo.Store{Root: n.Root}
	if set, err := store.Of(upgrade); !errors.Is(err, undo.ErrNone) {
		return set, err // it goes on, and may have loaded images that no index names yet
	}
	set, err := store.Keep(upgrade, from, time.Now())
	if err != nil {
		return set, err
	}
	removed, err := n.prune(ctx)
	if len(removed) > 0 {
		note(fmt.Sprintf("%d images that neither this bundle nor an undo needs were removed", len(removed)))
	}
	if err != nil {
		note(fmt.Sprintf("images that nothing needs stay: %v; remove them with 'sealift images prune'", err))
	}
	return set, nil
}

// Record notes the packages to which an install, a join or an upgrade brings a node, before their images come. Undo sets keep what was
// noted before.
func Record(root string, packages []bundle.PackageInfo) error {
	list := make([]bundle.PackageInfo, len(packages))
	for n, p := range packages {
		list[n] = bundle.PackageInfo{Name: p.Name, Version: p.Version, Contents: bundle.Contents{Images: p.Images}}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	name := node.ImagesFile(root)
	if had, err := regularfile.ReadFile(name); err == nil && bytes.Equal(had, text) {
		return nil
	}
	return files.WriteMode(name, 0o600, text)
}

// carried are packages that the node has, or had.
type carried struct {
	why      string
	packages []bundle.PackageInfo
}

// bundles are the packages that were noted last, and those to which undo goes back.
func (n Node) bundles() (all []carried, err error) {
	name := node.ImagesFile(n.Root)
	text, err := regularfile.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if all, err = add(nil, "", text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sets, err := undo.Store{Root: n.Root}.Sets()
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		text, err := set.Read(name)
		if errors.Is(err, fs.ErrNotExist) { // an earlier sealift kept it: its images have no origin, and stay
			continue
		}
		if err == nil {
			all, err = add(all, " for an undo to Kubernetes "+set.From, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func add(all []carried, why string, text []byte) ([]carried, error) {
	c := carried{why: why}
	if err := json.Unmarshal(text, &c.packages); err != nil {
		return nil, fmt.Errorf("the list of images is damaged: %w", err)
	}
	return append(all, c), nil
}

// reasons say why an image stays.
func reasons(s runtime.Stored, bundles []carried) []string {
	found := []string{}
	if len(bundles) == 0 {
		found = append(found, byUnknown)
	}
	for _, b := range bundles {
		for _, p := range b.packages {
			if slices.ContainsFunc(p.Images, func(i bundle.Image) bool { return is(s, i) }) {
				found = append(found, p.Name+" "+p.Version+b.why)
			}
		}
	}
	if s.Containers > 0 {
		found = append(found, byContainers)
	}
	switch s.Origin {
	case runtime.OfPerson:
		found = append(found, byPerson)
	case runtime.OfApplication:
		found = append(found, byAdding)
	case "":
		found = append(found, byOthers)
	}
	return found
}

// is reports whether an image of a package may be a stored one. Docker-archives have other digests than the index of their package says,
// and no digest beside the tag.
func is(s runtime.Stored, i bundle.Image) bool {
	if s.Digest.String() == i.Digest || slices.Contains(s.Names, i.Ref) {
		return true
	}
	tagged, _, _ := strings.Cut(i.Ref, "@")
	return slices.Contains(s.Names, tagged)
}
