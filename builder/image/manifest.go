package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/fetch"
)

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
		d = Descriptor{MediaType: string(answer.MediaType), Digest: answer.Digest.String(), Size: answer.Size}
		data = answer.Manifest
		return nil
	})
	if err != nil {
		return Descriptor{}, nil, err
	}
	if err := check(d); err != nil {
		return Descriptor{}, nil, err
	}
	d.MediaType = mediaType(d.MediaType, data)
	_, err = s.options.Fetcher.Fetch(ctx, fetch.Blob{
		Name: ref.String() + " manifest", SHA256: d.hex(), Size: d.Size,
		Open: func(context.Context) (io.ReadCloser, int64, error) {
			return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
		},
	})
	return d, data, err
}

// form distinguishes one kind of manifest from another.
type form struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     string          `json:"mediaType"`
	Manifests     json.RawMessage `json:"manifests"`
	Layers        json.RawMessage `json:"layers"`
	Config        struct {
		MediaType string `json:"mediaType"`
	} `json:"config"`
}

// mediaType returns the type of a manifest or index. The body's is used, since the digest covers it. Without one, the
// Content-Type counts, unless the registry sends none or another form: some send application/json, text/plain, or add a charset
// (moby/moby#18226).
func mediaType(header string, body []byte) string {
	var f form
	if json.Unmarshal(body, &f) != nil {
		return header
	}
	if f.MediaType != "" {
		return f.MediaType
	}
	if parsed, _, err := mime.ParseMediaType(header); err == nil {
		header = parsed
	}
	sent := types.MediaType(header)
	switch {
	case f.SchemaVersion != 2:
		return header
	case f.Manifests != nil && !sent.IsIndex():
		return string(types.OCIImageIndex)
	case f.Layers != nil && f.Manifests == nil && !sent.IsImage():
		if types.MediaType(f.Config.MediaType) == types.DockerConfigJSON {
			return string(types.DockerManifestSchema2)
		}
		return string(types.OCIManifestSchema1)
	}
	return header
}

// unsupported is the error for content that is neither an index nor an image.
func unsupported(mediaType string) error {
	return fmt.Errorf("manifest of type %s is not supported; push the image again with a current tool", mediaType)
}
