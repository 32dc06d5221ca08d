package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/ociurl"
	"github.com/sealift/sealift/internal/transfer"
)

const (
	// valueType is the artifact type of a stored value.
	valueType = "application/vnd.sealift.value.v1"
	// keyAnnotation has the key of a value.
	keyAnnotation = "dev.sealift.key"
	// maxManifest is the maximum size of a manifest or of a list of tags, in bytes. Registries refuse larger manifests.
	maxManifest = 4 << 20
	// maxTagPages is the maximum number of pages of a list of tags.
	maxTagPages = 10_000
	// listParallel is the number of manifests that List reads at once.
	listParallel = 8
)

// registryRepository is a store in one repository of a container registry. Each value is an OCI artifact with one layer, under the tag that
// keyTag makes of its key.
type registryRepository struct {
	at     ociurl.URL
	base   string // of all requests: https://host/v2/path
	client *http.Client
	auth   docker.Authorizer
	opener Opener
}

func (o Opener) openRegistry(location string) (Store, error) {
	location, query, _ := strings.Cut(location, "?")
	settings, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", location, err)
	}
	plain := settings.Get("plain-http") == "true"
	if len(settings) > 1 || len(settings) == 1 && !plain {
		return nil, fmt.Errorf("store %s: the only setting of a registry is ?plain-http=true", location)
	}
	at, err := ociurl.Parse(location, plain)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if at.Path == "" {
		return nil, fmt.Errorf("store %s names no repository; use %s/packages", location, at)
	}
	client := &http.Client{Transport: newTransport(o.CAs, retryTimeout*o.Stall), CheckRedirect: o.checkRedirect}
	return &registryRepository{
		at: at, base: at.Base() + "/v2/" + at.Path, client: client, opener: o,
		auth: docker.NewDockerAuthorizer(docker.WithAuthClient(client), docker.WithAuthCreds(credentials)),
	}, nil
}

// credentials are those of docker login and podman login. An empty user means that the secret is an identity token.
func credentials(host string) (user, secret string, err error) {
	place, err := name.NewRegistry(host)
	if err != nil {
		return "", "", err
	}
	found, err := authn.DefaultKeychain.Resolve(place)
	if err != nil {
		return "", "", fmt.Errorf("find credentials for %s: %w", host, err)
	}
	c, err := authn.Authorization(context.Background(), found)
	if err != nil || c.IdentityToken != "" {
		return "", c.IdentityToken, err
	}
	return c.Username, c.Password, nil
}

// fail names the operation and the key.
func (r *registryRepository) fail(what, key string, err error) error {
	hint := ""
	switch statusOf(err) {
	case http.StatusNotFound:
		if what == "get" {
			err = errors.Join(err, fs.ErrNotExist)
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = "; log in to " + r.at.Host + " with 'docker login' or 'podman login'"
	}
	return fmt.Errorf("store %s: %s %s: %w%s", r.at, what, key, err, hint)
}

// do sends a request, and once more with the credentials that the registry asks for. It returns the response if its status is among wanted.
// body may be nil; it returns the content from its beginning each time.
func (r *registryRepository) do(ctx context.Context, method, address string, header map[string]string, body func() (io.Reader, int64), wanted ...int) (*http.Response, error) {
	scope := "repository:" + r.at.Path + ":pull"
	if method != http.MethodGet && method != http.MethodHead {
		scope += ",push"
	}
	ctx = docker.WithScope(ctx, scope)
	for again := false; ; again = true {
		req, err := http.NewRequestWithContext(ctx, method, address, nil)
		if err != nil {
			return nil, fmt.Errorf("make a request: %w", err)
		}
		req.Header.Set("User-Agent", "sealift")
		for name, value := range header {
			req.Header.Set(name, value)
		}
		if body != nil {
			content, size := body()
			req.Body, req.ContentLength = io.NopCloser(content), size
			if size == 0 {
				req.Body = http.NoBody
			}
		}
		if err := r.auth.Authorize(ctx, req); err != nil {
			return nil, fmt.Errorf("get a token of %s, if necessary after 'docker login' or 'podman login': %w", r.at.Host, err)
		}
		resp, err := r.client.Do(req)
		if err != nil {
			return nil, err
		}
		if slices.Contains(wanted, resp.StatusCode) {
			return resp, nil
		}
		_ = resp.Body.Close()
		status := &statusError{url: transfer.Redacted(resp.Request.URL), code: resp.StatusCode}
		if resp.StatusCode != http.StatusUnauthorized || again {
			return nil, status
		}
		if err := r.auth.AddResponses(ctx, []*http.Response{resp}); err != nil {
			return nil, fmt.Errorf("%w: %w", status, err)
		}
	}
}

// value is what a manifest says.
type value struct {
	key     string
	content ocispec.Descriptor
	version string // digest of the manifest
}

// resolve reads the manifest under a tag.
func (r *registryRepository) resolve(ctx context.Context, tag string) (v value, err error) {
	err = r.opener.Retry.do(ctx, func(ctx context.Context) error {
		g := newGuard(ctx, r.opener.Stall)
		defer g.end()
		v, err = r.manifest(g, tag)
		return g.explain(err)
	})
	return v, err
}

func (r *registryRepository) manifest(ctx context.Context, tag string) (value, error) {
	resp, err := r.do(ctx, http.MethodGet, r.base+"/manifests/"+tag, map[string]string{"Accept": ocispec.MediaTypeImageManifest}, nil, http.StatusOK)
	if err != nil {
		return value{}, err
	}
	data, err := readDocument(resp)
	if err != nil {
		return value{}, err
	}
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil || m.ArtifactType != valueType || len(m.Layers) != 1 || m.Layers[0].Digest.Validate() != nil || m.Layers[0].Size < 0 {
		return value{}, errForeign
	}
	return value{key: m.Annotations[keyAnnotation], content: m.Layers[0], version: digest.FromBytes(data).String()}, nil
}

// errForeign reports a tag that is not a value of a store.
var errForeign = errors.New("this tag is not a value that sealift has stored; use a repository with nothing else in it")

func readDocument(resp *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err = errors.Join(err, resp.Body.Close()); err == nil && len(data) > maxManifest {
		err = fmt.Errorf("%s answers with more than %d bytes", transfer.Redacted(resp.Request.URL), maxManifest)
	}
	return data, err
}

// Get implements Store. Reads are requests for ranges of the blob.
func (r *registryRepository) Get(ctx context.Context, key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	v, err := r.resolve(ctx, keyTag(key))
	if err == nil && v.key != key {
		err = errForeign
	}
	if err != nil {
		return nil, r.fail("get", key, err)
	}
	hex := ""
	if v.content.Digest.Algorithm() == digest.SHA256 {
		hex = v.content.Digest.Encoded()
	}
	return &remote{
		ctx: ctx, name: "store " + r.at.String() + ": " + key, src: registryBlob{r, v.content},
		size: v.content.Size, version: v.version, digest: hex, opener: r.opener,
	}, nil
}

// registryBlob is the content of one value.
type registryBlob struct {
	*registryRepository
	ocispec.Descriptor
}

// open implements ranges.
func (b registryBlob) open(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	header := map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", off, off+n-1)}
	resp, err := b.do(ctx, http.MethodGet, b.base+"/blobs/"+b.Digest.String(), header, nil, http.StatusOK, http.StatusPartialContent)
	if statusOf(err) == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %w; start again", ErrChanged, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		err = checkRange(resp.Header.Get("Content-Range"), off, n, b.Size)
	case off != 0 || resp.ContentLength != n:
		err = fmt.Errorf("registry %s does not answer requests for ranges of blobs; download the package and use a folder as store", b.at.Host)
	}
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp.Body, nil
}

// List implements Store. It reads the tags, and the manifest of each that may have the prefix.
func (r *registryRepository) List(ctx context.Context, prefix string) ([]Info, error) {
	tags, err := r.tags(ctx, prefix)
	if err != nil {
		return nil, r.fail("list", prefix, err)
	}
	found := make([]Info, len(tags))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listParallel)
	for n, tag := range tags {
		group.Go(func() error {
			v, err := r.resolve(ctx, tag)
			if errors.Is(err, errForeign) || statusOf(err) == http.StatusNotFound { // deleted meanwhile
				return nil
			}
			if err != nil {
				return r.fail("list", prefix, err)
			}
			if keyTag(v.key) == tag && strings.HasPrefix(v.key, prefix) {
				found[n] = Info{Key: v.key, Size: v.content.Size, Version: v.version}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(i Info) bool { return i.Key == "" })
	slices.SortFunc(found, byKey)
	return found, nil
}

// tags lists the tags that may be those of keys with a prefix. A repository that does not exist has none.
func (r *registryRepository) tags(ctx context.Context, prefix string) (tags []string, err error) {
	next, err := url.Parse(r.base + "/tags/list?n=1000")
	if err != nil {
		return nil, err
	}
	for range maxTagPages {
		var page struct{ Tags []string }
		var link string
		at := next
		err := r.opener.Retry.do(ctx, func(ctx context.Context) error {
			g := newGuard(ctx, r.opener.Stall)
			defer g.end()
			resp, err := r.do(g, http.MethodGet, next.String(), nil, nil, http.StatusOK)
			if err != nil {
				return g.explain(err)
			}
			link, at = resp.Header.Get("Link"), resp.Request.URL // where a redirect led
			data, err := readDocument(resp)
			if err != nil {
				return g.explain(err)
			}
			return json.Unmarshal(data, &page)
		})
		if statusOf(err) == http.StatusNotFound {
			return tags, nil
		}
		if err != nil {
			return nil, err
		}
		for _, tag := range page.Tags {
			if mayHavePrefix(tag, prefix) {
				tags = append(tags, tag)
			}
		}
		if next, err = transfer.NextPage(at, link); err != nil || next == nil {
			return tags, err
		}
	}
	return nil, fmt.Errorf("the list of tags has more than %d pages", maxTagPages)
}
