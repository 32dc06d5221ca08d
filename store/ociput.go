package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// packageType is the media type of the content of packages and bundles.
const packageType = "application/vnd.sealift.package.v1.tar+gzip"

// Put implements Store. Content that the repository has already is not sent.
func (r *registryRepository) Put(ctx context.Context, key string, v Value) (version string, err error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if v.SHA256 == "" {
		return "", fmt.Errorf("put %s: the value lacks its digest", key)
	}
	content := ocispec.Descriptor{
		MediaType: "application/octet-stream", Digest: digest.NewDigestFromEncoded(digest.SHA256, v.SHA256), Size: v.Size,
		Annotations: map[string]string{ocispec.AnnotationTitle: path.Base(key)},
	}
	if strings.HasSuffix(key, ".tar.gz") {
		content.MediaType = packageType
	}
	empty := ocispec.DescriptorEmptyJSON
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: valueType,
		Config: ocispec.Descriptor{MediaType: empty.MediaType, Digest: empty.Digest, Size: empty.Size}, Layers: []ocispec.Descriptor{content},
		Annotations: map[string]string{keyAnnotation: key},
	})
	if err != nil {
		return "", err
	}
	for _, b := range []struct {
		ocispec.Descriptor
		from io.ReaderAt
	}{{content, v.Content}, {empty, strings.NewReader("{}")}} {
		sent, err := r.upload(ctx, b.Descriptor, b.from)
		if err != nil {
			return "", r.fail("put", key, err)
		}
		if b.Digest == content.Digest {
			v.meter(sent, b.Size-sent)
		}
	}
	err = r.sendSection(ctx, strings.NewReader(string(manifest)), int64(len(manifest)), func(ctx context.Context, body func() (io.Reader, int64)) error {
		resp, err := r.do(ctx, http.MethodPut, r.base+"/manifests/"+keyTag(key), map[string]string{"Content-Type": ocispec.MediaTypeImageManifest}, body, http.StatusCreated)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	if err != nil {
		return "", r.fail("put", key, err)
	}
	return digest.FromBytes(manifest).String(), nil
}

// sendSection sends content, with retries.
func (r *registryRepository) sendSection(ctx context.Context, content io.ReaderAt, size int64, request func(context.Context, func() (io.Reader, int64)) error) error {
	return r.opener.Retry.do(ctx, func(ctx context.Context) error {
		g := newGuard(ctx, r.opener.Stall)
		defer g.end()
		return g.explain(request(g, func() (io.Reader, int64) {
			return &movingSection{io.NewSectionReader(content, 0, size), g}, size
		}))
	})
}

// upload sends a blob that the repository lacks, and returns how many bytes it sent.
func (r *registryRepository) upload(ctx context.Context, d ocispec.Descriptor, content io.ReaderAt) (sent int64, err error) {
	err = r.sendSection(ctx, content, d.Size, func(ctx context.Context, body func() (io.Reader, int64)) error {
		resp, err := r.do(ctx, http.MethodHead, r.base+"/blobs/"+d.Digest.String(), nil, nil, http.StatusOK, http.StatusNotFound)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode == http.StatusOK {
			return err
		}
		at, err := r.beginUpload(ctx)
		if err != nil {
			return err
		}
		query := at.Query()
		query.Set("digest", d.Digest.String())
		at.RawQuery = query.Encode()
		if resp, err = r.do(ctx, http.MethodPut, at.String(), map[string]string{"Content-Type": "application/octet-stream"}, body, http.StatusCreated); err != nil {
			return err
		}
		sent = d.Size
		return resp.Body.Close()
	})
	return sent, err
}

// beginUpload returns the address to send a blob to.
func (r *registryRepository) beginUpload(ctx context.Context) (*url.URL, error) {
	resp, err := r.do(ctx, http.MethodPost, r.base+"/blobs/uploads/", nil, func() (io.Reader, int64) { return http.NoBody, 0 }, http.StatusAccepted)
	if err != nil {
		return nil, err
	}
	at, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if asked := resp.Request.URL; at.Host != asked.Host || at.Scheme != asked.Scheme { // the credentials go with the upload
		return nil, fmt.Errorf("the registry sends uploads to %s://%s, and this is %s://%s; set the external URL of the registry, or have its proxy send X-Forwarded-Proto and Host",
			at.Scheme, at.Host, asked.Scheme, asked.Host)
	}
	return at, nil
}

// Swap implements Store. Registries have no conditional writes: the value is compared before it is replaced.
func (r *registryRepository) Swap(ctx context.Context, key string, data []byte, old string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	now, err := r.resolve(ctx, keyTag(key))
	if err != nil && statusOf(err) != http.StatusNotFound {
		return "", r.fail("replace", key, err)
	}
	if now.version != old {
		return "", fmt.Errorf("%w: %w", ErrChanged, r.fail("replace", key, errors.New("another writer was faster")))
	}
	return r.Put(ctx, key, Bytes(data))
}
