package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle/ocilayout"
)

// repository is the repository of a request.
type repository struct {
	ctx     context.Context
	content Content
	name    string
	offered map[string]ocispec.Descriptor
}

// layout reads documents, with the limits of package ocilayout.
func (p repository) layout() *ocilayout.Layout {
	has := func(sha256 string) bool {
		blob, err := p.content.Blob(p.ctx, sha256)
		if err == nil {
			_ = blob.Close()
		}
		return err == nil
	}
	return ocilayout.OfBlobs(has, func(sha256 string, limit int64) (_ []byte, err error) {
		blob, err := p.content.Blob(p.ctx, sha256)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, blob.Close()) }()
		if blob.Size() > limit {
			return nil, fmt.Errorf("blob %s: has %d bytes, and the limit is %d", sha256, blob.Size(), limit)
		}
		return io.ReadAll(io.NewSectionReader(blob, 0, blob.Size()))
	})
}

// walk calls visit for the indexes and manifests of the repository, until it returns false. An image that cannot be read does not
// hide others: its error comes at the end.
func (p repository) walk(visit func(ocilayout.Manifest) bool) (failed error) {
	seen := make(map[digest.Digest]bool)
	for name, target := range p.offered {
		if seen[target.Digest] {
			continue
		}
		seen[target.Digest] = true
		top, err := p.layout().Read(target)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("image %s: %w", name, err))
			continue
		}
		for _, m := range top.All() {
			if !visit(m) {
				return nil
			}
		}
	}
	return failed
}

// find returns an index or a manifest of the repository, or nil.
func (p repository) find(is func(ocilayout.Manifest) bool) (found *ocilayout.Manifest, err error) {
	err = p.walk(func(m ocilayout.Manifest) bool {
		if is(m) {
			found = &m
		}
		return found == nil
	})
	return found, err
}

// referrers answers with the manifests that are attached to a digest.
func (p repository) referrers(w http.ResponseWriter, r *http.Request, subject digest.Digest) error {
	index := ocispec.Index{Versioned: ocispecs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	wanted := r.URL.Query().Get("artifactType")
	listed := make(map[digest.Digest]bool)
	var failed error
	err := p.walk(func(m ocilayout.Manifest) bool {
		if m.Subject == nil || m.Subject.Digest != subject || listed[m.Digest] {
			return true
		}
		listed[m.Digest] = true
		var d ocispec.Descriptor
		if d, failed = p.referrer(m); failed == nil && (wanted == "" || d.ArtifactType == wanted) {
			index.Manifests = append(index.Manifests, d)
		}
		return failed == nil
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if wanted != "" {
		w.Header().Set("Oci-Filters-Applied", "artifactType")
	}
	text, err := json.Marshal(index)
	if err == nil {
		serve(w, ocispec.MediaTypeImageIndex, text)
	}
	return err
}

// referrer describes a manifest as the list of referrers has it.
func (p repository) referrer(m ocilayout.Manifest) (ocispec.Descriptor, error) {
	data, err := p.layout().Document(m.Digest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	var doc struct {
		ArtifactType string            `json:"artifactType"`
		Annotations  map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return ocispec.Descriptor{}, err
	}
	if doc.ArtifactType == "" {
		doc.ArtifactType = m.Config.MediaType
	}
	return ocispec.Descriptor{MediaType: m.MediaType, Digest: m.Digest, Size: int64(len(data)), ArtifactType: doc.ArtifactType, Annotations: doc.Annotations}, nil
}
