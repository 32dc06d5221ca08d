package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sealift/sealift/internal/transfer"
)

// contentTypes are the media types of a chart's archive in a registry.
var contentTypes = []string{"application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/tar+gzip"}

// maxManifest bounds what names the parts of a chart in a registry.
const maxManifest = 4 << 20

// fromRegistry fetches <repository>/<name> from a registry.
func fromRegistry(ctx context.Context, client *http.Client, access Access, want Chart, digest string) (Archive, error) {
	path := strings.TrimSuffix(strings.TrimPrefix(want.Repository, "oci://"), "/") + "/" + want.Name
	if digest != "" {
		content, err := pull(ctx, client, access, path+"@"+digest, digest)
		if err != nil {
			return Archive{}, err
		}
		return pack(content, want.Version)
	}
	version := want.Version
	if !exact(version) {
		repository, options, err := open(ctx, client, access, path)
		if err != nil {
			return Archive{}, err
		}
		tags, err := tagsOf(ctx, repository, options)
		if err != nil {
			return Archive{}, err
		}
		for i, t := range tags {
			tags[i] = strings.ReplaceAll(t, "_", "+") // a tag cannot have the + of a version
		}
		at, err := pick(version, tags)
		if err != nil {
			return Archive{}, err
		}
		version = tags[at]
	}
	content, err := pull(ctx, client, access, path+":"+strings.ReplaceAll(version, "+", "_"), "")
	if err != nil {
		return Archive{}, err
	}
	return pack(content, version)
}

// maxTags and maxPages bound the list of a repository's tags, which a registry sends page by page.
const maxTags, maxPages = 100_000, 2_000

func tagsOf(ctx context.Context, repository name.Repository, options []remote.Option) (tags []string, err error) {
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, err
	}
	list, err := puller.Lister(ctx, repository)
	if err != nil {
		return nil, err
	}
	for pages := 0; list.HasNext(); pages++ {
		if len(tags) > maxTags || pages == maxPages {
			return nil, fmt.Errorf("the registry lists more than %d tags, or %d pages of them: give the exact version", maxTags, maxPages)
		}
		page, err := list.Next(ctx)
		if err != nil {
			return nil, err
		}
		tags = append(tags, page.Tags...)
	}
	return tags, nil
}

// open names a repository of a registry, and configures the requests to it.
func open(ctx context.Context, client *http.Client, access Access, path string) (name.Repository, []remote.Option, error) {
	repository, err := name.NewRepository(path, name.StrictValidation)
	if err != nil {
		return repository, nil, err
	}
	known, err := credentials(access.Credentials, repository.RegistryStr())
	if err != nil {
		return repository, nil, err
	}
	bounds := transfer.Bounds{Limit: transfer.RegistryLimit}
	return repository, []remote.Option{remote.WithContext(ctx), remote.WithTransport(bounds.Over(client.Transport)), remote.WithAuth(authn.FromConfig(known))}, nil
}

// pull returns the archive that a reference names, as host/path:tag or host/path@digest.
func pull(ctx context.Context, client *http.Client, access Access, text, digest string) ([]byte, error) {
	reference, err := name.ParseReference(text, name.StrictValidation)
	if err != nil {
		return nil, err
	}
	_, options, err := open(ctx, client, access, reference.Context().Name())
	if err != nil {
		return nil, err
	}
	head, err := remote.Get(reference, options...)
	if err != nil {
		return nil, err
	}
	if digest != "" && head.Digest.String() != digest {
		return nil, fmt.Errorf("%w: %s, want %s", ErrDigest, head.Digest, digest)
	}
	if head.Size > maxManifest {
		return nil, fmt.Errorf("the manifest has %d bytes, more than %d", head.Size, maxManifest)
	}
	chart, err := head.Image()
	if err != nil {
		return nil, err
	}
	layers, err := chart.Layers()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		kind, err := layer.MediaType()
		if err != nil {
			return nil, err
		}
		if slices.Contains(contentTypes, string(kind)) {
			return read(layer)
		}
	}
	return nil, errors.New("it is not a Helm chart: it has no part of type " + contentTypes[0])
}

// read reads a blob of bounded size, whose digest is verified while reading.
func read(layer v1.Layer) ([]byte, error) {
	size, err := layer.Size()
	if err != nil {
		return nil, err
	}
	if size > MaxSize {
		return nil, fmt.Errorf("the archive has %d bytes, more than %d", size, int64(MaxSize))
	}
	content, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(content)
	return text, errors.Join(err, content.Close())
}
