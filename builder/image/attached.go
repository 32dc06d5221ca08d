package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/internal/transfer"
)

// Attached is a signature, an SBOM or an attestation that upstream has attached to an image, or to something attached to it.
type Attached struct {
	Manifest
	Subject string `json:"subject"`       // digest of what it is attached to
	Tag     string `json:"tag,omitempty"` // the tag that leads to it, if cosign's tags and not a list of referrers do
}

// maxAttached bounds what is attached to one image, so that a registry cannot name attachments without an end.
const maxAttached = 1000

// maxPages bounds the pages of a list of referrers.
const maxPages = 100

// cosignSuffixes end the tags under which cosign keeps signatures, attestations and SBOMs.
var cosignSuffixes = [...]string{".sig", ".att", ".sbom"}

// Attach asks the registry for what is attached to the image, its indexes and its manifests, and adds it to r. It asks by the referrers
// API, by its tag schema for registries without it (distribution-spec, "Referrers Tag Schema"), and by cosign's tags. The manifests are in the
// cache afterwards. What is not an image manifest is left out. Failures are *Error.
func (s *Source) Attach(ctx context.Context, r *Resolved) error {
	return s.attach(ctx, r, func(ctx context.Context, ref Reference, subject string) ([]Attached, error) {
		var found [1 + len(cosignSuffixes)][]Attached
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			found[0], err = s.referrers(ctx, ref, subject)
			return err
		})
		for n, suffix := range cosignSuffixes {
			group.Go(func() error {
				tag := schemaTag(subject) + suffix
				d, there, err := s.optionalTag(ctx, ref, tag)
				if there {
					found[n+1] = []Attached{{Manifest: Manifest{Descriptor: d}, Subject: subject, Tag: tag}}
				}
				return err
			})
		}
		err := group.Wait()
		return slices.Concat(found[:]...), err
	})
}

// AttachPinned adds what a lock lists as attached, as far as it belongs to the manifests of r. It sends no request for cached manifests.
// Failures are *Error.
func (s *Source) AttachPinned(ctx context.Context, r *Resolved, locked []Attached) error {
	return s.attach(ctx, r, func(_ context.Context, _ Reference, subject string) ([]Attached, error) {
		return slices.DeleteFunc(slices.Clone(locked), func(a Attached) bool { return a.Subject != subject }), nil
	})
}

// attach adds what find returns for each part of the image, and for each attachment.
func (s *Source) attach(ctx context.Context, r *Resolved, find func(ctx context.Context, ref Reference, subject string) ([]Attached, error)) error {
	ref, err := ParseReference(r.Ref)
	if err != nil {
		return err
	}
	if err := s.attest(ctx, ref, r); err != nil {
		return s.wrapAs("what is attached to image", ref, err)
	}
	queue := append([]Descriptor{r.Root}, r.Indexes...)
	for _, m := range r.Manifests {
		queue = append(queue, m.Descriptor)
	}
	asked, seen := make(map[string]bool), make(map[string]bool)
	for ; len(queue) > 0; queue = queue[1:] {
		subject := queue[0].Digest
		if asked[subject] {
			continue
		}
		asked[subject] = true
		found, err := find(ctx, ref, subject)
		if err != nil {
			return s.wrapAs("what is attached to image", ref, err)
		}
		for _, a := range found {
			if !types.MediaType(a.MediaType).IsImage() || seen[a.Digest+a.Tag] {
				continue
			}
			seen[a.Digest+a.Tag] = true
			if a.Manifest, err = s.attachment(ctx, ref, a.Descriptor); err != nil {
				return s.wrapAs("what is attached to image", ref, err)
			}
			if r.Attached = append(r.Attached, a); len(r.Attached) > maxAttached {
				return s.wrapAs("what is attached to image", ref, fmt.Errorf("more than %d signatures and other attachments; build with --without-referrers", maxAttached))
			}
			queue = append(queue, a.Descriptor)
		}
	}
	return nil
}

// Signed returns the image with what is attached to it, as far as that is in the cache.
func (s *Source) Signed(r Resolved) cosign.Image {
	i := cosign.Image{Ref: r.Ref, Digest: r.Root.Digest, Read: func(d digest.Digest) ([]byte, error) {
		if err := check(Descriptor{Digest: d.String()}); err != nil {
			return nil, err
		}
		return s.options.Cache.Read(d.Encoded(), maxManifest)
	}}
	for _, a := range r.Attached {
		if a.Subject == r.Root.Digest {
			i.Attached = append(i.Attached, digest.Digest(a.Digest))
		}
	}
	return i
}

// The annotations with which buildkit marks an attestation in an index, and names the manifest that it is about.
const (
	attestationType    = "vnd.docker.reference.type"
	attestationSubject = "vnd.docker.reference.digest"
)

// attest adds the attestations in the image's indexes. With them, an index of whose platforms all are carried is complete: some registries
// take no other.
func (s *Source) attest(ctx context.Context, ref Reference, r *Resolved) error {
	carried := make(map[string]bool)
	for _, m := range r.Manifests {
		carried[m.Digest] = true
	}
	for _, d := range append([]Descriptor{r.Root}, r.Indexes...) {
		if !types.MediaType(d.MediaType).IsIndex() {
			continue
		}
		body, err := s.document(ctx, ref, d)
		if err != nil {
			return err
		}
		listed, err := manifestsIn(body)
		if err != nil {
			return err
		}
		for _, one := range listed {
			if one.Annotations[attestationType] != "attestation-manifest" || !carried[one.Annotations[attestationSubject]] || carried[one.Digest.String()] || !types.MediaType(one.MediaType).IsImage() {
				continue
			}
			m, err := s.attachment(ctx, ref, descriptor(one))
			if err != nil {
				return err
			}
			carried[m.Digest] = true
			r.Attestations = append(r.Attestations, m)
		}
	}
	return nil
}

// attachment reads the manifest of an attachment.
func (s *Source) attachment(ctx context.Context, ref Reference, d Descriptor) (Manifest, error) {
	body, err := s.document(ctx, ref, d)
	if err != nil {
		return Manifest{}, err
	}
	return parse("", d, body)
}

// schemaTag is the tag of the referrers tag schema, such as sha256-….
func schemaTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }

// referrers lists the referrers of a digest, by the API or else by the tag schema.
func (s *Source) referrers(ctx context.Context, ref Reference, subject string) ([]Attached, error) {
	var list []ocispec.Descriptor
	supported := false
	err := s.options.Retry.Do(ctx, func(ctx context.Context) error {
		repo, err := s.repos.get(ctx, ref.Repository())
		if err != nil {
			return err
		}
		list, supported, err = repo.referrers(ctx, subject)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !supported {
		d, there, err := s.optionalTag(ctx, ref, schemaTag(subject))
		if err != nil || !there || !types.MediaType(d.MediaType).IsIndex() {
			return nil, err
		}
		body, err := s.document(ctx, ref, d)
		if err != nil {
			return nil, err
		}
		if list, err = manifestsIn(body); err != nil {
			return nil, err
		}
	}
	var found []Attached
	for _, d := range list {
		found = append(found, Attached{Manifest: Manifest{Descriptor: descriptor(d)}, Subject: subject})
	}
	return found, nil
}

// manifestsIn returns what an index lists.
func manifestsIn(body []byte) ([]ocispec.Descriptor, error) {
	var index ocispec.Index
	if err := json.Unmarshal(body, &index); err != nil {
		return nil, fmt.Errorf("an index is damaged: %w", err)
	}
	return index.Manifests, nil
}

// referrers asks the referrers API, and reports whether the registry has it.
func (r *repository) referrers(ctx context.Context, subject string) (list []ocispec.Descriptor, supported bool, err error) {
	at := &url.URL{Scheme: r.Scheme(), Host: r.RegistryStr(), Path: "/v2/" + r.RepositoryStr() + "/referrers/" + subject}
	for range maxPages {
		body, next, err := r.referrersPage(ctx, at)
		if err != nil || body == nil {
			return nil, false, err
		}
		page, err := manifestsIn(body)
		if err != nil {
			return nil, false, err
		}
		if list = append(list, page...); next == nil {
			return list, true, nil
		}
		at = next
	}
	return nil, false, fmt.Errorf("its list of referrers has more than %d pages", maxPages)
}

// referrersPage gets one page, and the address of the next one. Registries without the API answer with an error of the client, a redirect to
// nowhere, or something other than an index: then body is nil. Such as registry.k8s.io redirect to the registry that has the content.
func (r *repository) referrersPage(ctx context.Context, at *url.URL) (body []byte, next *url.URL, err error) {
	resp, err := r.client.Get(ctx, at.String(), http.Header{"Accept": {ocispec.MediaTypeImageIndex}})
	if refused(statusOf(err)) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), ocispec.MediaTypeImageIndex) {
		return nil, nil, nil
	}
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxManifest+1)); err != nil {
		return nil, nil, err
	}
	if len(body) > maxManifest {
		return nil, nil, fmt.Errorf("its list of referrers has more than %d bytes", maxManifest)
	}
	next, err = transfer.NextPage(resp.Request.URL, resp.Header.Get("Link")) // which gets no credentials of this registry, if redirected
	return body, next, err
}

// optionalTag returns the manifest of a tag that may not exist.
func (s *Source) optionalTag(ctx context.Context, ref Reference, tag string) (d Descriptor, there bool, err error) {
	err = s.options.Retry.Do(ctx, func(ctx context.Context) error {
		repo, err := s.repos.get(ctx, ref.Repository())
		if err != nil {
			return err
		}
		_, err = remote.Head(repo.Tag(tag), repo.options(ctx)...) // HEAD counts less against rate limits
		return err
	})
	if refused(statusOf(err)) {
		return Descriptor{}, false, nil
	}
	if err == nil {
		d, _, err = s.manifest(ctx, ref, tag)
	}
	return d, err == nil, err
}

// refused reports whether a registry lacks the requested object. The image itself was read with the same credentials, so a registry that
// forbids the request says the same: many do so for what does not exist. Redirects are followed: one that remains leads nowhere.
func refused(status int) bool {
	return (status/100 == 3 || status/100 == 4) && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}
