package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/trust"
)

// maxManifest bounds a registry's response in memory, in bytes: the 4 MiB that the distribution specification asks registries
// to accept.
const maxManifest = 4 << 20

// maxConfig bounds an image's configuration, in bytes. It holds the history of the image, which grows with its layers.
const maxConfig = 8 << 20

// Options configures requests to registries.
type Options struct {
	Cache   *cache.Cache
	Fetcher fetch.Fetcher // brings blobs into Cache
	Mirrors mirror.Set
	Retry   fetch.Retry
	// Transport carries the requests; nil means fetch.NewTransport.
	Transport http.RoundTripper
	// Keychain returns credentials; nil means those of docker login and podman login, or anonymous access.
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

// Error reports that a reference could not be resolved or fetched.
type Error struct {
	What  string // what was requested; empty means an image
	Ref   string // as upstream names it
	Asked string // the reference that was requested, if a mirror replaces upstream
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

// Hint names the next step, or is empty.
func (e *Error) Hint() string {
	var none *unofferedError
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
	case errors.As(e.Err, &none):
		if ref, err := ParseReference(e.Ref); err == nil {
			return none.hint(ref.Repository())
		}
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
	return s.splitPlatforms(ctx, ref, root, data, platforms, r)
}

// pointer is the cached state of a tag: with it, one request without a body shows that nothing has changed.
type pointer struct {
	Root Descriptor `json:"root"`
}

const pointers = "tags"

// root returns the target of a reference and its bytes, which are then cached.
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

// ResolvePinned is Resolve for a reference whose digest is in a lock. It requests only the content by digest, not the tag, and
// nothing at all if the content is cached. Failures are *Error.
func (s *Source) ResolvePinned(ctx context.Context, ref Reference, root Descriptor, platforms []string) (Resolved, error) {
	if err := check(root); err != nil {
		return Resolved{}, s.wrap(ref, err)
	}
	pinned, err := ref.pin(root.Digest)
	if err != nil {
		return Resolved{}, s.wrap(ref, err)
	}
	r := Resolved{Ref: ref.String()}
	data, err := s.options.Cache.Read(root.hex(), maxManifest)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cache.ErrMismatch) {
		_, data, err = s.manifest(ctx, pinned, root.Digest)
	}
	if err == nil {
		err = s.splitPlatforms(ctx, pinned, root, data, platforms, &r)
	}
	return r, s.wrap(pinned, err)
}

// pin returns the reference with a digest in place of its tag.
func (r Reference) pin(to string) (Reference, error) {
	named, err := reference.WithDigest(reference.TrimNamed(r.named), digest.Digest(to))
	return Reference{named: named}, err
}
