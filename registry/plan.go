package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// The states of an image.
const (
	Present  = "present" // the registry has it
	Missing  = "missing"
	Replaced = "replaced" // the tag leads to something else, and the push moves it
	Pushed   = "pushed"
	Stale    = "stale"   // an earlier push brought it, and the archive does not have it
	Removed  = "removed" // it was stale
	Kept     = "kept"    // it was stale and stays: Note says why
)

// The kinds of what is pushed.
const (
	KindImage      = "image"
	KindAttachment = "attachment" // a signature, an SBOM or an attestation of an image
	KindChart      = "chart"      // of Helm
	KindPackages   = "packages"   // of an operating system, with the metadata that makes them a repository
	KindFiles      = "files"      // assets of a package
)

// Kinds are the values of Options.Only. Attachments go with images.
func Kinds() []string { return []string{KindImage, KindChart, KindPackages, KindFiles} }

// Image is one image of a plan or a result, or something else that is pushed.
type Image struct {
	Kind   string `json:"kind"`
	Ref    string `json:"ref"`
	Target string `json:"target"` // its name in the registry
	Digest string `json:"digest"` // an index or a manifest
	State  string `json:"state"`
	Size   int64  `json:"size"` // bytes of its blobs
	Note   string `json:"note,omitempty"`
	// Replaces is the digest that the tag leads to before the push, if that is something else.
	Replaces string `json:"replaces,omitempty"`
	// Subject is the digest of what an attachment is attached to.
	Subject string `json:"subject,omitempty"`
}

// Summary is a plan, or its result.
type Summary struct {
	Target string  `json:"target"`
	Images []Image `json:"images"`
	// Pruned are the images of earlier pushes that the archive lacks: in a plan Stale, and later Removed or Kept.
	Pruned []Image `json:"pruned,omitempty"`
	// Bytes of blobs, each counted once: all, those to send or sent, and those that the registry copies between its repositories.
	Total   int64 `json:"total"`
	Send    int64 `json:"send"`
	Mounted int64 `json:"mounted"`
}

// Push is a prepared transfer.
type Push struct {
	Summary
	options Options
	archive *bundle.Archive
	images  []image
	open    func(path string) (*remote.Repository, error)
	slots   chan struct{}
	blobs   map[string]*blob  // by digest
	shown   map[string]string // what Stale has listed: digests by the keys of their entries
}

// blob is the content that images share.
type blob struct {
	ocispec.Descriptor
	path  string        // in the archive
	data  []byte        // the content itself, if the archive does not have it
	token chan struct{} // a mutex whose waiters can be cancelled
	in    map[string]bool
	first string // a repository that has it
}

// Prepare asks the registry what it has. It sends nothing.
func Prepare(ctx context.Context, a *bundle.Archive, o Options) (*Push, error) {
	if err := a.CheckBase(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	images, err := o.read(a)
	if err != nil {
		return nil, err
	}
	client := o.client()
	p := &Push{Summary: Summary{Target: o.Target.String(), Images: make([]Image, len(images))}, options: o, archive: a, images: images, slots: make(chan struct{}, o.Parallel), blobs: make(map[string]*blob)}
	var mu sync.Mutex
	repositories := make(map[string]*remote.Repository)
	p.open = func(path string) (*remote.Repository, error) {
		mu.Lock()
		defer mu.Unlock()
		if r := repositories[path]; r != nil {
			return r, nil
		}
		r, err := o.repository(client, path)
		repositories[path] = r
		return r, err
	}
	for _, i := range images {
		for _, d := range i.blobs {
			if p.blobs[d.Digest.String()] == nil {
				p.blobs[d.Digest.String()] = &blob{Descriptor: d, path: i.blobPath(d.Digest), data: i.made[d.Digest], token: make(chan struct{}, 1), in: make(map[string]bool)}
				p.Total += d.Size
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * o.Parallel)
	for n, i := range images {
		group.Go(func() error { return p.look(ctx, n, i) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	p.count()
	return p, nil
}

// read lists what is to be pushed.
func (o Options) read(a *bundle.Archive) (all []image, err error) {
	packages := slices.DeleteFunc(slices.Clone(a.Index.Packages), func(p bundle.PackageInfo) bool {
		return len(o.Packages) > 0 && !slices.Contains(o.Packages, p.Name)
	})
	for _, one := range []struct {
		kinds []string
		read  func(*bundle.Archive, []bundle.PackageInfo) ([]image, error)
	}{{[]string{KindImage}, readImages}, {[]string{KindChart}, readCharts}, {[]string{KindPackages, KindFiles}, readFiles}} {
		if len(o.Only) > 0 && !slices.ContainsFunc(one.kinds, func(kind string) bool { return slices.Contains(o.Only, kind) }) {
			continue
		}
		found, err := one.read(a, packages)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(i image) bool {
		return len(o.Only) > 0 && i.kind != KindAttachment && !slices.Contains(o.Only, i.kind)
	}), nil
}

// count adds up the bytes to send, and those that the registry can copy.
func (p *Push) count() {
	sent := make(map[string]bool)
	for n, i := range p.images {
		if p.Images[n].State == Present {
			continue
		}
		path := p.options.Target.path(i.repository)
		for _, d := range i.blobs {
			b, key := p.blobs[d.Digest.String()], d.Digest.String()
			switch {
			case b.in[path] || sent[path+"@"+key]:
			case b.first != "" || sent[key]:
				p.Mounted += b.Size
			default:
				p.Send += b.Size
			}
			sent[key], sent[path+"@"+key] = true, true
		}
	}
}

// look finds whether the registry has an image, and if not, which of its blobs.
func (p *Push) look(ctx context.Context, n int, i image) error {
	path := p.options.Target.path(i.repository)
	separator := ":"
	if i.tag == "" {
		separator = "@"
	}
	out := Image{Kind: i.kind, Ref: i.ref, Target: p.options.Target.Host + "/" + path + separator + i.target(), Digest: i.root.Digest.String(), State: Missing, Subject: i.attached}
	for _, d := range i.blobs {
		out.Size += d.Size
	}
	defer func() { p.Images[n] = out }()
	repo, err := p.open(path)
	if err != nil {
		return err
	}
	var there ocispec.Descriptor
	err = p.options.retry(ctx, func(ctx context.Context) (err error) {
		there, err = repo.Resolve(ctx, i.target())
		return err
	})
	if hides(err) {
		out.Note = HiddenNote
		return nil
	}
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("ask for %s: %w", out.Target, err)
	}
	if err == nil {
		complete, err := p.compare(ctx, repo, &i, there, &out)
		if err != nil {
			return err
		}
		if out.State == Missing {
			p.images[n].led = there.Digest.String()
		}
		if complete {
			return p.has(ctx, i, path)
		}
		p.images[n].there = i.there
	}
	for _, d := range i.blobs {
		if err := p.ask(ctx, repo, path, p.blobs[d.Digest.String()]); err != nil {
			return fmt.Errorf("ask for a layer of %s: %w", out.Target, err)
		}
	}
	return nil
}

// compare compares an image with what its tag leads to, and sets its state. It reports whether the registry has all of it, except that an
// attachment may not be listed.
func (p *Push) compare(ctx context.Context, repo *remote.Repository, i *image, there ocispec.Descriptor, out *Image) (complete bool, err error) {
	digest, note := i.root.Digest, ""
	if there.Digest != digest {
		var others bool
		if i.there, others, err = p.platforms(ctx, repo, *i, there); err != nil {
			return false, fmt.Errorf("ask for the platforms of %s: %w", out.Target, err)
		}
		reduced, _, err := i.reduce()
		if i.root.Absent == 0 || err != nil || reduced.Digest != there.Digest {
			if others {
				out.State, out.Replaces = Replaced, there.Digest.String()
			}
			return false, nil
		}
		digest, note = reduced.Digest, reducedNote
	}
	if complete, err = p.whole(ctx, repo, i.root); err != nil || !complete {
		return false, err
	}
	listed, err := p.listed(ctx, repo, *i)
	if err != nil {
		return false, fmt.Errorf("ask what is attached to %s in %s: %w", i.attached, repo.Reference.Repository, err)
	}
	if listed {
		out.State, out.Digest, out.Note = Present, digest.String(), note
	}
	return true, nil
}

// listed reports whether the registry lists a manifest among the referrers of its subject, if it has one. An interrupted push to a
// registry without the referrers API may have left it unlisted.
func (p *Push) listed(ctx context.Context, repo *remote.Repository, i image) (listed bool, err error) {
	if i.root.Subject == nil {
		return true, nil
	}
	err = p.options.retry(ctx, func(ctx context.Context) error {
		return repo.Referrers(ctx, *i.root.Subject, "", func(page []ocispec.Descriptor) error {
			listed = listed || slices.ContainsFunc(page, func(d ocispec.Descriptor) bool { return d.Digest == i.root.Digest })
			return nil
		})
	})
	return listed, err
}

// whole reports whether a repository has all manifests below one that it has. A registry that takes sparse indexes may lack those that the
// archive has, because another archive brought the index.
func (p *Push) whole(ctx context.Context, repo *remote.Repository, m ocilayout.Manifest) (bool, error) {
	for _, child := range m.Children {
		found, err := p.resolve(ctx, repo, child.Digest.String())
		if err != nil || found == "" {
			return false, err
		}
		if whole, err := p.whole(ctx, repo, child); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}

// has notes the blobs of an image that the registry has.
func (p *Push) has(ctx context.Context, i image, path string) error {
	for _, d := range i.blobs {
		b := p.blobs[d.Digest.String()]
		if err := b.lock(ctx); err != nil {
			return err
		}
		b.in[path], b.first = true, path
		b.unlock()
	}
	return nil
}

// ask notes whether a repository has a blob.
func (p *Push) ask(ctx context.Context, repo *remote.Repository, path string, b *blob) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	if b.in[path] {
		return nil
	}
	return p.options.retry(ctx, func(ctx context.Context) error {
		there, err := repo.Blobs().Exists(ctx, b.Descriptor)
		if there {
			b.in[path], b.first = true, path
		}
		if hides(err) {
			return nil
		}
		return err
	})
}

// HiddenNote is the Note of a Missing image where the registry does not say whether it has it.
const HiddenNote = "the registry has no such repository yet, or these credentials may not read it"

// hides reports whether an error is the answer of a registry that does not say what a repository has. Quay gives it to those who may make
// repositories, for one that does not exist, until they ask to push. A wrong password has another answer, of the service for tokens.
func hides(err error) bool {
	answer, refused := refusal(err)
	return refused && (answer.StatusCode == http.StatusForbidden || strings.Contains(answer.URL.Path, "/manifests/") || strings.Contains(answer.URL.Path, "/blobs/"))
}

// refusal returns the answer of a registry, or of its service for tokens, to somebody without a right.
func refusal(err error) (answer *errcode.ErrorResponse, refused bool) {
	answer, found := errors.AsType[*errcode.ErrorResponse](err)
	return answer, found && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden)
}

func (b *blob) lock(ctx context.Context) error {
	select {
	case b.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *blob) unlock() { <-b.token }
