package kind

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

const assetsDir = "assets"

// assetKind carries unchanged files.
type assetKind struct {
	options Options
	source  *asset.Source
}

type assetPart struct {
	Assets []asset.Resolved `json:"assets,omitempty"` // as wanted lists them

	kind *assetKind
	from []diag.Pos // of the directive that each of Assets is for
}

var _ interface {
	kind
	remote
	comparer
	maker
	keeper
} = (*assetKind)(nil)

var _ interface {
	part
	downloader
	counter
	describer
	packer
	documenter
} = (*assetPart)(nil)

// wantedAsset is one file of an asset directive.
type wantedAsset struct {
	manifest.Asset // with the architecture filled in

	directive manifest.Asset
}

func (k *assetKind) resolve(ctx context.Context, r *resolving) part {
	wanted := k.wanted(r.addOn.Manifest.Assets(), r.faults)
	p := &assetPart{kind: k, Assets: make([]asset.Resolved, len(wanted))}
	for i, w := range wanted {
		p.from = append(p.from, w.directive.Pos)
		r.begin(w.directive.Pos, func() (err error) {
			p.Assets[i], err = k.one(ctx, r, w)
			return err
		})
	}
	return p
}

// wanted lists the files of asset directives: one each, or one for each architecture if the source depends on it. A package
// cannot have two files of one name.
func (k *assetKind) wanted(directives []manifest.Asset, wrong *faults) []wantedAsset {
	var list []wantedAsset
	for _, d := range directives {
		names := make(map[string]bool)
		seen := make(map[string]bool)
		for _, platform := range k.options.Platforms {
			arch := strings.Split(platform, "/")[1]
			w := wantedAsset{Asset: d, directive: d}
			w.Name, w.Source = strings.ReplaceAll(d.Name, manifest.ArchWord, arch), strings.ReplaceAll(d.Source, manifest.ArchWord, arch)
			if key := w.Name + " " + w.Source; !seen[key] {
				seen[key] = true
				if names[w.Name] {
					wrong.errorf(d.Pos, "put "+manifest.ArchWord+" into its name, or build one package for each platform with --per-platform",
						"asset %s is another file for each of %s", d.Name, strings.Join(k.options.Platforms, ", "))
					break
				}
				names[w.Name] = true
				list = append(list, w)
			}
		}
	}
	return list
}

func (k *assetKind) one(ctx context.Context, r *resolving, w wantedAsset) (asset.Resolved, error) {
	if asset.IsURL(w.Source) {
		if locked, ok := r.pins.Lock.Asset(w.Source); ok {
			return asset.Pinned(w.Name, w.Source, locked.Blob), nil
		}
		if err := r.missing("asset %s", w.Source); err != nil {
			return asset.Resolved{}, err
		}
	}
	return k.source.Resolve(ctx, r.addOn.Open, w.Name, w.Source)
}

func (k *assetKind) servers(m *manifest.File) []string {
	var list []string
	for _, a := range m.Assets() {
		if asset.IsURL(a.Source) {
			list = append(list, root(k.options.Mirrors.URL(a.Source)))
		}
	}
	return list
}

func (k *assetKind) changes(_ *manifest.File, was, now bundle.Contents) []string {
	return compare("asset", was.Assets, now.Assets, func(a bundle.Asset) string { return a.Path })
}

func (k *assetKind) made(p bundle.PackageInfo, name string) bool {
	return slices.ContainsFunc(p.Assets, func(a bundle.Asset) bool { return a.Path == path.Join(p.Dir(), name) })
}

// keep keeps the locks of other architectures.
func (k *assetKind) keep(a AddOn, now *lock.Lock, was lock.Lock) {
	for _, one := range was.Assets {
		if _, ok := now.Asset(one.URL); !ok && slices.ContainsFunc(a.Manifest.Assets(), func(d manifest.Asset) bool { return isForSomeArch(d.Source, one.URL) }) {
			now.Assets = append(now.Assets, one)
		}
	}
}

// isForSomeArch reports whether a URL is a source with an architecture filled in.
func isForSomeArch(source, url string) bool {
	parts := strings.Split(source, manifest.ArchWord)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, "[a-z0-9]+") + "$").MatchString(url)
}

func (p *assetPart) transfers() []transfer {
	var list []transfer
	for i, one := range p.Assets {
		if asset.IsURL(one.Source) {
			list = append(list, transfer{"sha256:" + one.SHA256, one.Size, p.from[i], func(ctx context.Context) (fetch.Stored, error) {
				return p.kind.source.Fetch(ctx, one)
			}})
		}
	}
	return list
}

func (p *assetPart) fetched() (n int64) {
	for _, one := range p.Assets {
		n += one.Fetched
	}
	return n
}

// lock locks content from URLs. Files of the file system come with the Manifest.
func (p *assetPart) lock(l *lock.Lock) {
	for _, one := range p.Assets {
		if _, there := l.Asset(one.Source); asset.IsURL(one.Source) && !there {
			l.Assets = append(l.Assets, lock.Asset{URL: one.Source, Blob: one.Blob})
		}
	}
}

func (p *assetPart) describe(described *bundle.Package) {
	for _, one := range p.Assets {
		dir := path.Join(bundle.AddOnDir(described.Name, described.Version), assetsDir)
		described.Contents.Assets = append(described.Contents.Assets, one.Describe(dir))
	}
}

func (p *assetPart) files(dir string) ([]bundle.File, error) {
	var list []bundle.File
	for _, one := range p.Assets {
		list = append(list, one.Pack(path.Join(dir, assetsDir), p.kind.options.Cache))
	}
	return list, nil
}

func (p *assetPart) materials(_ context.Context, described bundle.Package, s *sbom.Subject) error {
	s.Assets = described.Contents.Assets
	return nil
}
