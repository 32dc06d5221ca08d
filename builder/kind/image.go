package kind

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// ImagesDir is the folder of images below an add-on's directory in the package.
const ImagesDir = "images"

// imageKind carries container images. Other kinds resolve the images that they need through it.
type imageKind struct {
	options Options
	source  *image.Source
}

func newImages(o Options, source *image.Source) *imageKind {
	return &imageKind{options: o, source: source}
}

// imagePart is the images that the directives of one kind carry.
type imagePart struct {
	Images []image.Resolved `json:"images,omitempty"` // in the order of the Manifest

	kind *imageKind
	from []diag.Pos // of the directive that each of Images is for
}

var _ interface {
	kind
	remote
	comparer
	maker
	keeper
} = (*imageKind)(nil)

var _ interface {
	part
	carrier
	downloader
	runner
	describer
} = (*imagePart)(nil)

func (k *imageKind) resolve(ctx context.Context, r *resolving) part {
	directives := r.addOn.Manifest.Images()
	p := &imagePart{kind: k, Images: make([]image.Resolved, len(directives))}
	for i, d := range directives {
		p.from = append(p.from, d.Pos)
		r.begin(d.Pos, func() (err error) {
			p.Images[i], err = k.carried(ctx, r, d)
			return err
		})
	}
	return p
}

// carried resolves an image that the package carries, with what is attached to it.
func (k *imageKind) carried(ctx context.Context, run *resolving, d manifest.Image) (image.Resolved, error) {
	r, err := k.one(ctx, run, d)
	if err == nil && k.options.WithoutReferrers && k.options.Signatures.Demands(ocilayout.Repository(r.Ref)) {
		err = fmt.Errorf("image %s: %s demands its signature, and this build leaves out what is attached to images; build without --without-referrers and without --image-format docker-archive",
			r.Ref, k.options.Signatures.File())
	}
	if err != nil || k.options.WithoutReferrers {
		return r, err
	}
	locked, ok := run.pins.Lock.Image(r.Ref)
	if !ok {
		return r, k.source.Attach(ctx, &r)
	}
	var pinned []image.Attached
	for _, a := range locked.Attached {
		pinned = append(pinned, image.Attached{
			Manifest: image.Manifest{Descriptor: image.Descriptor{MediaType: a.MediaType, Digest: a.Digest, Size: a.Size}}, Subject: a.Subject, Tag: a.Tag,
		})
	}
	return r, k.source.AttachPinned(ctx, &r, pinned)
}

// one resolves one image, which may be pinned.
func (k *imageKind) one(ctx context.Context, run *resolving, d manifest.Image) (r image.Resolved, err error) {
	ref, err := image.ParseReference(d.Ref)
	if err != nil {
		return image.Resolved{}, err
	}
	if locked, ok := run.pins.Lock.Image(ref.String()); ok {
		if pinned := ref.Digest(); pinned != "" && pinned != locked.Digest {
			return image.Resolved{}, fmt.Errorf("image %s: %s locks it to another digest, %s; lock it again with sealift lock --update", ref, lock.FileName, locked.Digest)
		}
		root := image.Descriptor{MediaType: locked.MediaType, Digest: locked.Digest, Size: locked.Size}
		if r, err = k.source.ResolvePinned(ctx, ref, root, k.options.Platforms); err == nil {
			err = agree(locked, r)
		}
	} else {
		if ref.Digest() == "" { // with one it is locked by the Manifest itself
			err = run.missing("image %s", ref)
		}
		if err == nil {
			r, err = k.source.Resolve(ctx, ref, k.options.Platforms)
		}
	}
	r.ID, r.NoRemoteLoad = d.ID, d.NoRemoteLoad
	return r, err
}

// agree refuses a lock whose digests contradict one another, as after an edit by hand.
func agree(locked lock.Image, r image.Resolved) error {
	for _, m := range r.Manifests {
		if want, ok := locked.Platforms[m.Platform]; ok && want != m.Digest {
			return fmt.Errorf("image %s: %s is locked to %s for %s, but the locked index %s has %s; lock it again with sealift lock --update",
				r.Ref, lock.FileName, want, m.Platform, r.Root.Digest, m.Digest)
		}
	}
	return nil
}

func (k *imageKind) servers(m *manifest.File) []string {
	var list []string
	for _, d := range m.Images() {
		if ref, err := image.ParseReference(d.Ref); err == nil { // resolving it reports the error
			list = append(list, registry(k.options.Mirrors, ref.Repository())...)
		}
	}
	return list
}

// registry returns the root of the registry of a repository, or of its mirror, as a list of at most one.
func registry(mirrors mirror.Set, upstream string) []string {
	repository, plain := mirrors.Repository(upstream)
	options := []name.Option{name.WeakValidation}
	if plain {
		options = append(options, name.Insecure)
	}
	r, err := name.NewRepository(repository, options...)
	if err != nil {
		return nil // resolving it reports the error
	}
	return []string{r.Scheme() + "://" + r.RegistryStr()}
}

func (k *imageKind) changes(_ *manifest.File, was, now bundle.Contents) []string {
	return compare("image", was.Images, now.Images, func(i bundle.Image) string { return i.ID + " " + i.Ref })
}

func (k *imageKind) made(p bundle.PackageInfo, name string) bool {
	file, ok := strings.CutPrefix(name, ImagesDir+"/")
	return ok && slices.ContainsFunc(p.Images, func(i bundle.Image) bool { return image.InLayout(file) || file == i.ID+".tar.gz" })
}

// keep keeps the locks of other platforms.
func (k *imageKind) keep(_ AddOn, now *lock.Lock, was lock.Lock) {
	for n, i := range now.Images {
		if before, ok := was.Image(i.Ref); ok && before.Digest == i.Digest {
			resolved := maps.Clone(i.Platforms)
			maps.Copy(i.Platforms, before.Platforms)
			maps.Copy(i.Platforms, resolved)
			now.Images[n].Attached = slices.Concat(i.Attached, attachedElsewhere(before, i, resolved))
		}
	}
}

// attachedElsewhere returns what the earlier lock of an image has attached to its platforms that were not resolved now.
func attachedElsewhere(before, now lock.Image, resolved map[string]string) (kept []lock.Attached) {
	elsewhere := make(map[string]bool)
	for platform, digest := range before.Platforms {
		_, here := resolved[platform]
		elsewhere[digest] = !here && digest != now.Digest
	}
	for _, a := range before.Attached {
		if elsewhere[a.Subject] && !slices.ContainsFunc(now.Attached, func(b lock.Attached) bool { return b.Digest == a.Digest && b.Tag == a.Tag }) {
			kept = append(kept, a)
			elsewhere[a.Digest] = true
		}
	}
	return kept
}

func (p *imagePart) images() []image.Resolved { return p.Images }

func (p *imagePart) transfers() []transfer {
	var list []transfer
	for i, img := range p.Images {
		for _, d := range img.Blobs() {
			list = append(list, transfer{d.Digest, d.Size, p.from[i], func(ctx context.Context) (fetch.Stored, error) {
				return p.kind.source.Fetch(ctx, img, d)
			}})
		}
	}
	return list
}

// run checks what has been fetched.
func (p *imagePart) run(ctx context.Context, wrong *faults) error {
	for i, img := range p.Images {
		if err := p.kind.source.CheckPlatforms(ctx, img); err != nil {
			wrong.add(p.from[i], err)
		}
		if err := p.kind.checkSignature(img); err != nil {
			wrong.add(p.from[i], err)
		}
	}
	return nil
}

// checkSignature refuses an image without the signature that the policy demands.
func (k *imageKind) checkSignature(r image.Resolved) error {
	if !k.options.Signatures.Demands(ocilayout.Repository(r.Ref)) {
		return nil
	}
	v, err := k.options.Signatures.Judge(k.source.Signed(r), k.options.Keyless)
	if err == nil {
		k.options.Log.Info("signature verified", "image", r.Ref, "by", v.By)
	}
	return err
}

func (p *imagePart) lock(l *lock.Lock) { lockImages(l, p.Images) }

// lockImages adds images to a lock, each once.
func lockImages(l *lock.Lock, images []image.Resolved) {
	for _, r := range images {
		if _, there := l.Image(r.Ref); there {
			continue
		}
		i := lock.Image{Ref: r.Ref, Digest: r.Root.Digest, MediaType: r.Root.MediaType, Size: r.Root.Size, Platforms: make(map[string]string)}
		for _, m := range r.Manifests {
			i.Platforms[m.Platform] = m.Digest
		}
		for _, a := range r.Attached {
			i.Attached = append(i.Attached, lock.Attached{Digest: a.Digest, MediaType: a.MediaType, Size: a.Size, Subject: a.Subject, Tag: a.Tag})
		}
		l.Images = append(l.Images, i)
	}
}

func (p *imagePart) describe(described *bundle.Package) {
	for _, img := range p.Images {
		described.Contents.Images = append(described.Contents.Images, img.Describe())
	}
}
