package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/internal/platform"
)

// splitPlatforms finds the image of each platform that a reference points to: the one that the nodes' containerd loads.
func (s *Source) splitPlatforms(ctx context.Context, ref Reference, root Descriptor, data []byte, platforms []string, r *Resolved) error {
	root.MediaType = mediaType(root.MediaType, data)
	r.Root = root
	index := types.MediaType(root.MediaType).IsIndex()
	switch {
	case !index && !types.MediaType(root.MediaType).IsImage():
		return unsupported(root.MediaType)
	case !index && len(platforms) != 1:
		m, err := parse("", root, data)
		if err != nil {
			return err
		}
		config, err := s.configuration(ctx, ref, m.Config)
		if err != nil {
			return err
		}
		return fmt.Errorf("the image is for %s only, not for all of %s", platform.Name(config), strings.Join(platforms, ", "))
	}
	var indexes []Descriptor
	for _, name := range platforms {
		path, m, err := s.choose(ctx, ref, root, name)
		if err != nil {
			return err
		}
		indexes = append(indexes, path...)
		r.Manifests = append(r.Manifests, m)
	}
	r.Indexes = slices.DeleteFunc(unique(indexes), func(d Descriptor) bool { return d.Digest == root.Digest })
	if index {
		return nil
	}
	config, err := s.configuration(ctx, ref, r.Manifests[0].Config)
	if err != nil {
		return err
	}
	return r.Manifests[0].checkPlatform(config)
}

// choose returns the manifest for a platform, and the indexes that lead to it.
func (s *Source) choose(ctx context.Context, ref Reference, root Descriptor, name string) (indexes []Descriptor, m Manifest, err error) {
	wanted, err := platform.Matcher(name)
	if err != nil {
		return nil, m, err
	}
	read := func(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
		return s.document(ctx, ref, descriptor(desc))
	}
	path, err := platform.Choose(ctx, read, root.oci(), wanted)
	var none *platform.NoMatchError
	switch {
	case errors.As(err, &none):
		return nil, m, &unofferedError{name, none}
	case err != nil && len(path) > 1:
		return nil, m, fmt.Errorf("manifest for %s: %w", name, err)
	case err != nil:
		return nil, m, err
	}
	for _, desc := range path[:len(path)-1] {
		indexes = append(indexes, descriptor(desc))
	}
	d := descriptor(path[len(path)-1])
	body, err := s.document(ctx, ref, d)
	if err != nil {
		return nil, m, err
	}
	m, err = parse(name, d, body)
	return indexes, m, err
}

// unofferedError reports that no image of an index can be loaded by nodes of a platform.
type unofferedError struct {
	platform string
	*platform.NoMatchError
}

func (e *unofferedError) Error() string {
	return fmt.Sprintf("there is no image for %s, %v", e.platform, e.NoMatchError)
}

func (e *unofferedError) Unwrap() error { return e.NoMatchError }

// hint says how to use an image that nodes do not find by its name. repository is the image's.
func (e *unofferedError) hint(repository string) string {
	for _, d := range e.Offered {
		if name := platform.Name(*d.Platform); strings.HasPrefix(name, e.platform+"/") {
			return fmt.Sprintf("nodes look for %s, whatever their CPU; if all of them run %s, name that image by its digest, %s@%s", e.platform, name, repository, d.Digest)
		}
	}
	return ""
}

// document reads an index, a manifest or a configuration. It is in the cache afterwards.
func (s *Source) document(ctx context.Context, ref Reference, d Descriptor) ([]byte, error) {
	if err := check(d); err != nil {
		return nil, err
	}
	if t := types.MediaType(d.MediaType); !t.IsIndex() && !t.IsImage() {
		return s.configurationText(ctx, ref, d)
	}
	body, err := s.options.Cache.Read(d.hex(), maxManifest)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cache.ErrMismatch) {
		_, body, err = s.manifest(ctx, ref, d.Digest)
	}
	if err == nil && int64(len(body)) != d.Size {
		err = fmt.Errorf("manifest %s has %d bytes, and the index says %d", d.Digest, len(body), d.Size)
	}
	return body, err
}

func (s *Source) configurationText(ctx context.Context, ref Reference, d Descriptor) ([]byte, error) {
	if d.Size > maxConfig {
		return nil, fmt.Errorf("configuration of %d bytes is larger than the %d that are supported", d.Size, maxConfig)
	}
	if _, err := s.options.Fetcher.Fetch(ctx, s.blob(ref, d)); err != nil {
		return nil, err
	}
	return s.options.Cache.Read(d.hex(), maxConfig)
}

// configuration returns the platform in a configuration. Its fields may be empty.
func (s *Source) configuration(ctx context.Context, ref Reference, d Descriptor) (config ocispec.Platform, err error) {
	body, err := s.configurationText(ctx, ref, d)
	if err != nil {
		return config, err
	}
	if err := json.Unmarshal(body, &config); err != nil {
		return config, fmt.Errorf("configuration is damaged: %w", err)
	}
	return config, nil
}

func (m Manifest) checkPlatform(config ocispec.Platform) error {
	wanted, err := platform.Parse(m.Platform)
	if err != nil {
		return err
	}
	if !platform.Runs(wanted, config) {
		return fmt.Errorf("the image is for %s, not for %s", platform.Name(config), m.Platform)
	}
	return nil
}

// CheckPlatforms compares the platforms of a resolved image with its configurations. An index may claim another platform than
// the image has. Everything has been fetched. Failures are *Error.
func (s *Source) CheckPlatforms(ctx context.Context, r Resolved) error {
	ref, err := ParseReference(r.Ref)
	if err != nil {
		return err
	}
	for _, m := range r.Manifests {
		config, err := s.configuration(ctx, ref, m.Config)
		if err == nil {
			err = m.checkPlatform(config)
		}
		if err != nil {
			return s.wrap(ref, err)
		}
	}
	return nil
}

func parse(platform string, d Descriptor, data []byte) (Manifest, error) {
	parsed, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest %s is damaged: %w", d.Digest, err)
	}
	m := Manifest{Platform: platform, Descriptor: d, Config: part(parsed.Config)}
	for _, layer := range parsed.Layers {
		m.Layers = append(m.Layers, part(layer))
	}
	for _, blob := range append([]Descriptor{m.Config}, m.Layers...) {
		if err := check(blob); err != nil {
			return Manifest{}, fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
	}
	return m, nil
}

func part(d v1.Descriptor) Descriptor {
	return Descriptor{MediaType: string(d.MediaType), Digest: d.Digest.String(), Size: d.Size}
}
