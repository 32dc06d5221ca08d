package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle/ocilayout"
)

// Origin says for whom an image was loaded. Images that an earlier sealift or another program brought have none.
type Origin string

// The origins. What a person loaded or added stays so, even if a bundle has it too.
const (
	OfBundle      Origin = "bundle"      // an install, a join or an upgrade loaded it
	OfPerson      Origin = "person"      // 'sealift images load' loaded it
	OfApplication Origin = "application" // 'sealift images add' added it
)

// overrides reports whether an image of one origin takes another one. What is added last by a person counts.
func (o Origin) overrides(had Origin) bool {
	return o != had && (had == "" || had == OfBundle || o == OfApplication || o == OfPerson)
}

// CheckReplaced refuses images that would take a name of the installed bundle from its own image: pods of the cluster would run them. Those
// of a docker-archive that is in no package are not known before it is read, and pass.
func (r *Runtime) CheckReplaced(ctx context.Context, added []Image) error {
	for _, image := range added {
		name, archive := image.Ref, image.archive.SHA256
		if archive != "" {
			name = tagged(name)
		} else if image.Target.Digest == "" {
			continue
		}
		if err := r.checkReplaced(ctx, name, image.Target.Digest, archive); err != nil {
			return err
		}
	}
	return nil
}

// checkReplaced does that for one name. archive is the sha256 of the docker-archive of a package, or empty.
func (r *Runtime) checkReplaced(ctx context.Context, name string, target digest.Digest, archive string) error {
	had, err := r.client.ImageService().Get(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up image %s: %w", name, err)
	}
	if Origin(had.Labels[originLabel]) != OfBundle || had.Target.Digest == target || archive != "" && had.Labels[archiveLabel] == archive {
		return nil
	}
	return fmt.Errorf("the installed bundle has another image %s, with the digest %s: give the application's image another name, as with --name for a file without one", name, had.Target.Digest)
}

// originLabel has the origin, in the record of each name.
const originLabel = "sealift.dev/origin"

// Stored is an image in containerd, with all its names.
type Stored struct {
	Digest     digest.Digest `json:"digest"` // of its index or manifest
	Names      []string      `json:"names"`
	Bytes      int64         `json:"bytes"` // of its blobs as they are stored; other images may share them
	Pinned     bool          `json:"pinned"`
	Origin     Origin        `json:"origin,omitempty"`
	Containers int           `json:"containers"` // how many use it, running or not
}

// Images lists the images that containerd has, by their first names.
func (r *Runtime) Images(ctx context.Context) ([]Stored, error) {
	records, err := r.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	byDigest := make(map[digest.Digest]*Stored)
	byName := make(map[string]*Stored)
	var all []*Stored
	for _, record := range records {
		s := byDigest[record.Target.Digest]
		if s == nil {
			s = &Stored{Digest: record.Target.Digest}
			if s.Bytes, err = r.usage(ctx, record); err != nil {
				return nil, err
			}
			byDigest[s.Digest], all = s, append(all, s)
		}
		s.add(record)
		byName[record.Name] = s
	}
	containers, err := r.client.ContainerService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range containers {
		if s := byName[c.Image]; s != nil {
			s.Containers++
		}
	}
	list := make([]Stored, 0, len(all))
	for _, s := range all {
		slices.SortFunc(s.Names, byKind)
		list = append(list, *s)
	}
	slices.SortStableFunc(list, func(a, b Stored) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return list, nil
}

func (s *Stored) add(record images.Image) {
	s.Names = append(s.Names, record.Name)
	s.Pinned = s.Pinned || record.Labels[pinLabel] == pin
	if origin := Origin(record.Labels[originLabel]); origin != "" && (s.Origin == "" || s.Origin == OfBundle) {
		s.Origin = origin
	}
}

// byKind sorts names: with tags first, then with digests, then the IDs that containerd's CRI plugin gives.
func byKind(a, b string) int {
	kind := func(name string) int {
		switch {
		case strings.HasPrefix(name, "sha256:"):
			return 2
		case strings.Contains(name, "@"):
			return 1
		}
		return 0
	}
	if a, b := kind(a), kind(b); a != b {
		return a - b
	}
	return strings.Compare(a, b)
}

func (r *Runtime) usage(ctx context.Context, record images.Image) (int64, error) {
	image := containerd.NewImageWithPlatform(r.client, record, r.platform)
	n, err := image.Usage(ctx, containerd.WithUsageManifestLimit(1))
	if errdefs.IsNotFound(err) { // another program removes it, or its manifest is for another platform
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("size of image %s: %w", record.Name, err)
	}
	return n, nil
}

// Remove removes all names of an image, and returns when containerd has removed what no other image needs.
func (r *Runtime) Remove(ctx context.Context, s Stored) error {
	for n, name := range s.Names {
		var options []images.DeleteOpt
		if n == len(s.Names)-1 {
			options = append(options, images.SynchronousDelete())
		}
		if err := r.client.ImageService().Delete(ctx, name, options...); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove image %s: %w", name, err)
		}
	}
	return nil
}

// labels are those of the names of an image that is loaded now.
func (l *Layout) labels() map[string]string {
	return map[string]string{pinLabel: pin, originLabel: string(l.origin())}
}

func (l *Layout) origin() Origin { return cmp.Or(l.Origin, OfBundle) }

// mark gives the existing records of names an origin.
func (r *Runtime) mark(ctx context.Context, layout *Layout, records []images.Image) error {
	for _, record := range records {
		if !layout.origin().overrides(Origin(record.Labels[originLabel])) {
			continue
		}
		changed := images.Image{Name: record.Name, Labels: map[string]string{originLabel: string(layout.origin())}}
		if _, err := r.client.ImageService().Update(ctx, changed, "labels."+originLabel); err != nil {
			return fmt.Errorf("label image %s: %w", record.Name, err)
		}
	}
	return nil
}

// Offered returns the indexes and manifests of a repository that other nodes of the cluster may pull, by their whole names: those of images
// that a bundle or a person brought. What the kubelet has pulled from a registry is left out, because pods may need a password for it.
func (r *Runtime) Offered(ctx context.Context, repository string) (map[string]ocispec.Descriptor, error) {
	records, err := r.client.ImageService().List(ctx, `labels."`+originLabel+`"`)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	offered := make(map[string]ocispec.Descriptor)
	for _, record := range records {
		if ocilayout.Repository(record.Name) == repository {
			offered[record.Name] = record.Target
		}
	}
	return offered, nil
}
