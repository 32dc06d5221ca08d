package registry

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
)

// reducedNote explains why an image has another digest than upstream's.
const reducedNote = "the registry refuses the image's index, because the bundle lacks some of its platforms: the tag leads to those that the registry has, and the index's digest cannot be pulled"

// untaggedNote is that for an image without a tag, of which the registry gets no list at all.
const untaggedNote = "the registry refuses the image's index, because the bundle lacks some of its platforms: the others are there by their own digests, and the index's digest cannot be pulled; build the package with all platforms"

// platforms finds what a tag leads to of the manifests that upstream's index of the image lists: earlier pushes brought them, for other
// platforms. others reports whether it leads to something else, too.
func (p *Push) platforms(ctx context.Context, repo *remote.Repository, i image, there ocispec.Descriptor) (found map[digest.Digest]bool, others bool, err error) {
	if !i.root.Index {
		return nil, true, nil
	}
	text, err := i.document(i.root.Digest)
	if err != nil {
		return nil, false, err
	}
	upstream, err := listedIn(text)
	if err != nil {
		return nil, false, err
	}
	_, text, err = p.fetchTag(ctx, repo, there.Digest.String())
	if err != nil || text == nil {
		return nil, true, err
	}
	tagged, err := listedIn(text)
	if err != nil { // the push moves the tag, whatever this is
		return nil, true, nil
	}
	if len(tagged) == 0 { // it leads to a manifest
		tagged = append(tagged, there)
	}
	found = make(map[digest.Digest]bool)
	for _, one := range tagged {
		if !slices.ContainsFunc(upstream, func(d ocispec.Descriptor) bool { return d.Digest == one.Digest }) {
			others = true
			continue
		}
		now, err := p.resolve(ctx, repo, one.Digest.String()) // it may be gone, and then the registry would refuse the whole list
		if err != nil {
			return nil, false, err
		}
		found[one.Digest] = now != ""
	}
	return found, others, nil
}

// listedIn returns what an index lists, and nothing for a manifest.
func listedIn(text []byte) ([]ocispec.Descriptor, error) {
	var index struct{ Manifests []ocispec.Descriptor }
	err := json.Unmarshal(text, &index)
	return index.Manifests, err
}

// reduce is what a tag leads to if the registry does not take an index with absent platforms: the only manifest, or else an index
// of those that the bundle or the registry has.
func (i image) reduce() (ocispec.Descriptor, []byte, error) {
	text, err := i.document(i.root.Digest)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	has := make(map[digest.Digest]bool)
	for _, child := range i.root.Children {
		has[child.Digest] = true
	}
	listed, _ := whole["manifests"].([]any)
	var kept []any
	for _, one := range listed {
		fields, _ := one.(map[string]any)
		text, _ := fields["digest"].(string)
		if d := digest.Digest(text); has[d] || i.there[d] {
			kept = append(kept, one)
		}
	}
	if len(kept) == 1 && len(i.root.Children) == 1 {
		only := i.root.Children[0].Descriptor
		text, err = i.document(only.Digest)
		return only, text, err
	}
	whole["manifests"] = kept
	if text, err = json.Marshal(whole); err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	return ocispec.Descriptor{MediaType: i.root.MediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}, text, nil
}
