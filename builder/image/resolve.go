package image

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/trust"
)

// maxManifest bounds what is held in memory of a registry's answer, in bytes: the 4 MiB that the distribution
// specification asks registries to accept.
const maxManifest = 4 << 20

// maxConfig bounds an image's configuration, in bytes. It holds the history of the image, which grows with its layers.
const maxConfig = 8 << 20

// Options says how registries are asked.
type Options struct {
	Cache   *cache.Cache
	Fetcher fetch.Fetcher // brings blobs into Cache
	Mirrors mirror.Set
	Retry   fetch.Retry
	// Transport carries the requests; nil means fetch.NewTransport.
	Transport http.RoundTripper
	// Keychain gives credentials; nil means those of docker login and podman login, and anonymous access without.
	Keychain authn.Keychain
}

// Source resolves and fetches images. It may be used from several goroutines.
type Source struct {
	options Options
	repos   repositories
}

// NewSource returns a source of images.
func NewSource(o Options) *Source {
	if o.Keychain == nil {
		o.Keychain = authn.DefaultKeychain
	}
	if o.Transport == nil {
		o.Transport = fetch.NewTransport(trust.CAs{})
	}
	return &Source{options: o, repos: repositories{mirrors: o.Mirrors, keychain: o.Keychain, transport: o.Transport}}
}

// Error says that a reference could not be resolved or fetched.
type Error struct {
	What  string // what was asked for; empty means an image
	Ref   string // as upstream names it
	Asked string // where it was looked for, when a mirror stands in for upstream
	Err   error
}

func (e *Error) Error() string {
	via := ""
	if e.Asked != "" {
		via = fmt.Sprintf(" (mirror %s)", e.Asked)
	}
	if statusOf(e.Err) == http.StatusNotFound {
		return fmt.Sprintf("%s %s does not exist%s: %v", cmp.Or(e.What, "image"), e.Ref, via, e.Err)
	}
	return fmt.Sprintf("%s %s%s: %v", cmp.Or(e.What, "image"), e.Ref, via, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint says what to do next, or is empty.
func (e *Error) Hint() string {
	switch status := statusOf(e.Err); {
	case status == http.StatusNotFound && strings.Contains(e.Ref, "@"):
		return "the registry no longer has what the name is pinned to: use a mirror that keeps it, or pin it again with sealift lock --update"
	case status == http.StatusNotFound && e.Asked != "":
		return "check the spelling and the tag, and that the mirror in sealift.yaml has the image"
	case status == http.StatusNotFound:
		return "check the spelling and the tag"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "check the spelling, or log in to the registry with docker login: registries also answer so for what does not exist"
	case errors.Is(e.Err, cache.ErrMismatch):
		return "the registry or a proxy in between serves damaged content; build again, and if it stays so use another mirror"
	case fetch.Transient(e.Err):
		return "check the network, or name a mirror in sealift.yaml"
	}
	return ""
}

// Resolve finds the digest of a reference, and for each platform the blobs to fetch. Index and manifests are in the cache
// afterwards. Failures are *Error.
func (s *Source) Resolve(ctx context.Context, ref Reference, platforms []string) (Resolved, error) {
	r := Resolved{Ref: ref.String()}
	err := s.resolve(ctx, ref, platforms, &r)
	return r, s.wrap(ref, err)
}

func (s *Source) wrap(ref Reference, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Ref: ref.String(), Err: err}
	if place, _ := s.options.Mirrors.Repository(ref.Repository()); place != ref.Repository() {
		e.Asked = place + strings.TrimPrefix(ref.String(), ref.Repository())
	}
	return e
}

func (s *Source) resolve(ctx context.Context, ref Reference, platforms []string, r *Resolved) error {
	root, data, err := s.root(ctx, ref)
	if err != nil {
		return err
	}
	r.Root = root
	r.Manifests, err = s.manifests(ctx, ref, root, data, platforms)
	return err
}

// manifests takes what a reference points to apart.
func (s *Source) manifests(ctx context.Context, ref Reference, root Descriptor, data []byte, platforms []string) ([]Manifest, error) {
	switch mediaType := types.MediaType(root.MediaType); {
	case mediaType.IsIndex():
		return s.fromIndex(ctx, ref, data, platforms)
	case mediaType.IsImage():
		return s.single(ctx, ref, root, data, platforms)
	default:
		return nil, fmt.Errorf("manifest of type %s is not supported; push the image again with a current tool", mediaType)
	}
}

// pointer is what is remembered of a tag: with it one request without a body tells that nothing has changed.
type pointer struct {
	Root Descriptor `json:"root"`
}

const pointers = "tags"

// root returns what a reference points to, and its bytes, which are then in the cache.
func (s *Source) root(ctx context.Context, ref Reference) (Descriptor, []byte, error) {
	place, _ := s.options.Mirrors.Repository(ref.Repository())
	key := ref.String() + " " + place
	var known pointer
	recalled := s.options.Cache.Recall(pointers, key, &known) && strings.HasPrefix(known.Root.Digest, "sha256:")
	if recalled && (ref.Digest() == known.Root.Digest || s.unmoved(ctx, ref, known.Root)) {
		if data, err := s.options.Cache.Read(known.Root.hex(), maxManifest); err == nil {
			return known.Root, data, nil
		}
	}
	wanted := ref.Digest()
	if wanted == "" {
		wanted = ref.Tag()
	}
	root, data, err := s.manifest(ctx, ref, wanted)
	if err != nil {
		return Descriptor{}, nil, err
	}
	return root, data, s.options.Cache.Remember(pointers, key, pointer{Root: root})
}

// unmoved asks whether a tag still points to root. Any trouble counts as no: the full request that follows reports it.
func (s *Source) unmoved(ctx context.Context, ref Reference, root Descriptor) bool {
	repo, err := s.repos.get(ctx, ref.Repository())
	if err != nil {
		return false
	}
	head, err := remote.Head(repo.Tag(ref.Tag()), repo.options(ctx)...)
	return err == nil && head.Digest.String() == root.Digest
}

// manifest gets a manifest or index by tag or digest and puts it into the cache.
func (s *Source) manifest(ctx context.Context, ref Reference, identifier string) (d Descriptor, data []byte, err error) {
	err = s.options.Retry.Do(ctx, func(ctx context.Context) error {
		repo, err := s.repos.get(ctx, ref.Repository())
		if err != nil {
			return err
		}
		var wanted name.Reference = repo.Tag(identifier)
		if strings.Contains(identifier, ":") {
			wanted = repo.Digest(identifier)
		}
		answer, err := remote.Get(wanted, repo.options(ctx)...)
		if err != nil {
			return err
		}
		d, data = descriptor(answer.Descriptor), answer.Manifest
		return nil
	})
	if err != nil {
		return Descriptor{}, nil, err
	}
	if err := check(d); err != nil {
		return Descriptor{}, nil, err
	}
	if len(data) > maxManifest {
		return Descriptor{}, nil, fmt.Errorf("manifest of %d bytes is larger than the %d that are supported", len(data), maxManifest)
	}
	_, err = s.options.Fetcher.Fetch(ctx, fetch.Blob{
		Name: ref.String() + " manifest", SHA256: d.hex(), Size: d.Size,
		Open: func(context.Context) (io.ReadCloser, int64, error) {
			return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
		},
	})
	return d, data, err
}

// check refuses descriptors that cannot be worked with.
func check(d Descriptor) error {
	hash, err := v1.NewHash(d.Digest)
	if err != nil || hash.Algorithm != "sha256" || len(hash.Hex) != 64 {
		return fmt.Errorf("digest %q is not a sha256", d.Digest)
	}
	if d.Size < 0 {
		return fmt.Errorf("blob %s claims a size of %d bytes", d.Digest, d.Size)
	}
	return nil
}

func (s *Source) fromIndex(ctx context.Context, ref Reference, data []byte, platforms []string) ([]Manifest, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("index is damaged: %w", err)
	}
	var manifests []Manifest
	for _, platform := range platforms {
		found, err := choose(index, platform)
		if err != nil {
			return nil, err
		}
		d := descriptor(found)
		if err := check(d); err != nil {
			return nil, err
		}
		if !found.MediaType.IsImage() {
			return nil, fmt.Errorf("%s in the index is of type %s, not an image manifest", platform, found.MediaType)
		}
		body, err := s.options.Cache.Read(d.hex(), maxManifest)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cache.ErrMismatch) {
			_, body, err = s.manifest(ctx, ref, d.Digest)
		}
		if err != nil {
			return nil, fmt.Errorf("manifest for %s: %w", platform, err)
		}
		m, err := parse(platform, d, body)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, m)
	}
	return manifests, nil
}

// choose finds the manifest for a platform. As runtimes do, it takes the first that fits.
func choose(index *v1.IndexManifest, platform string) (v1.Descriptor, error) {
	wanted, err := ParsePlatform(platform)
	if err != nil {
		return v1.Descriptor{}, err
	}
	var offered []string
	for _, d := range index.Manifests {
		if d.Platform == nil {
			continue
		}
		if d.Platform.Satisfies(wanted) {
			return d, nil
		}
		if d.Platform.OS != "unknown" { // so buildkit marks attestations
			offered = append(offered, platformName(*d.Platform))
		}
	}
	slices.Sort(offered)
	return v1.Descriptor{}, fmt.Errorf("there is no image for %s, only for %s", platform, strings.Join(slices.Compact(offered), ", "))
}

// single takes an image that has no index. Its configuration says which platform it is for.
func (s *Source) single(ctx context.Context, ref Reference, root Descriptor, data []byte, platforms []string) ([]Manifest, error) {
	m, err := parse("", root, data)
	if err != nil {
		return nil, err
	}
	if m.Config.Size > maxConfig {
		return nil, fmt.Errorf("configuration of %d bytes is larger than the %d that are supported", m.Config.Size, maxConfig)
	}
	if _, err := s.options.Fetcher.Fetch(ctx, s.blob(ref, m.Config)); err != nil {
		return nil, err
	}
	config, err := s.configured(m)
	if err != nil {
		return nil, err
	}
	if len(platforms) != 1 {
		return nil, fmt.Errorf("the image is for %s only, not for all of %s", platformName(config), strings.Join(platforms, ", "))
	}
	m.Platform = platforms[0]
	return []Manifest{m}, m.checkPlatform(config)
}

// configured reads from the cache which platform a configuration is for. Its fields may be empty.
func (s *Source) configured(m Manifest) (config v1.Platform, err error) {
	body, err := s.options.Cache.Read(m.Config.hex(), maxConfig)
	if err != nil {
		return config, err
	}
	if err := json.Unmarshal(body, &config); err != nil {
		return config, fmt.Errorf("configuration is damaged: %w", err)
	}
	return config, nil
}

func (m Manifest) checkPlatform(config v1.Platform) error {
	wanted, err := ParsePlatform(m.Platform)
	if err != nil {
		return err
	}
	if config.OS != "" && config.OS != wanted.OS || config.Architecture != "" && config.Architecture != wanted.Architecture {
		return fmt.Errorf("the image is for %s, not for %s", platformName(config), m.Platform)
	}
	return nil
}

// CheckPlatforms compares the platforms of a resolved image with what its configurations say. An index may claim another platform
// than that of the image. Everything has been fetched. Failures are *Error.
func (s *Source) CheckPlatforms(r Resolved) error {
	ref, err := ParseReference(r.Ref)
	if err != nil {
		return err
	}
	for _, m := range r.Manifests {
		if m.Config.Size > maxConfig {
			return s.wrap(ref, fmt.Errorf("configuration of %d bytes is larger than the %d that are supported", m.Config.Size, maxConfig))
		}
		config, err := s.configured(m)
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
	m := Manifest{Platform: platform, Descriptor: d, Config: descriptor(parsed.Config)}
	for _, layer := range parsed.Layers {
		m.Layers = append(m.Layers, descriptor(layer))
	}
	for _, blob := range append([]Descriptor{m.Config}, m.Layers...) {
		if err := check(blob); err != nil {
			return Manifest{}, fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
	}
	return m, nil
}
