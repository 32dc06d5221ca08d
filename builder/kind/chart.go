package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/chart"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/manifest"
)

// maxValues bounds a file of values, in bytes.
const maxValues = 4 << 20

// chartKind carries Helm charts, their rendered objects, and the images that these need.
type chartKind struct {
	options Options
	source  *chart.Source
	images  *imageKind // resolves the images of charts
}

type chartPart struct {
	imagePart
	Charts []*renderedChart `json:"charts,omitempty"` // in the order of the Manifest

	kind *chartKind
}

var _ interface {
	kind
	remote
	maker
} = (*chartKind)(nil)

var _ interface {
	part
	carrier
	finisher
	warner
	downloader
	counter
	runner
	describer
	packer
} = (*chartPart)(nil)

// renderedChart is a resolved chart directive.
type renderedChart struct {
	chart.Resolved
	Document string `json:"document"` // sha256 of the rendered objects

	directive manifest.Chart
	rendered  helm.Rendered
	needs     []image.Resolved // the images of its pods, in the order of their references
	uses      chart.Uses
}

func (k *chartKind) resolve(ctx context.Context, r *resolving) part {
	directives := r.addOn.Manifest.Charts()
	p := &chartPart{kind: k, imagePart: imagePart{kind: k.images}, Charts: make([]*renderedChart, len(directives))}
	for i, d := range directives {
		r.begin(d.Pos, func() (err error) {
			if p.Charts[i], err = k.render(ctx, r, d); err != nil {
				return err
			}
			return k.resolveImages(ctx, r, p.Charts[i])
		})
	}
	return p
}

// render fetches a chart, which may be pinned, and renders it.
func (k *chartKind) render(ctx context.Context, r *resolving, d manifest.Chart) (*renderedChart, error) {
	c := &renderedChart{directive: d}
	locked, pinned := r.pins.Lock.Chart(d.Repository, d.Name, d.Version)
	var err error
	if pinned {
		c.Resolved = chart.Resolved{Chart: locked}
		err = k.source.FetchLocked(ctx, &c.Resolved)
	} else if err = r.missing("chart %s %s of %s", d.Name, d.Version, d.Repository); err == nil {
		c.Resolved, err = k.source.Resolve(ctx, d.Repository, d.Name, d.Version)
	}
	if err != nil {
		return nil, err
	}
	archive, err := k.options.Cache.Read(c.SHA256, chart.MaxSize)
	if err != nil {
		return nil, err
	}
	if k.options.Charts == nil {
		return nil, errors.New("this program cannot render charts")
	}
	values, err := readValues(r.addOn, d)
	if err != nil {
		return nil, err
	}
	c.rendered, err = k.options.Charts.Render(ctx, archive, helm.Release{Name: d.Name, Namespace: d.Namespace, Values: values})
	if err != nil {
		return nil, renderError(r.addOn, d, err)
	}
	if got := c.rendered.Version; strings.TrimPrefix(got, "v") != strings.TrimPrefix(d.Version, "v") {
		return nil, fmt.Errorf("chart %s: version %s in the repository has version %s in its Chart.yaml", d.Name, d.Version, got)
	}
	if got := c.rendered.Name; got != d.Name {
		return nil, fmt.Errorf("chart %s: the archive %s has the name %s in its Chart.yaml", d.Name, c.URL, got)
	}
	c.Document = sha256hex.Of(c.rendered.Document())
	c.uses = chart.ImagesOf(c.rendered)
	return c, nil
}

// readValues reads the values that the add-on has for a chart.
func readValues(a AddOn, d manifest.Chart) ([]byte, error) {
	f, err := a.Open(d.ValuesFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("values of chart %s: %w", d.Name, err)
	}
	defer func() { _ = f.Close() }()
	values, err := io.ReadAll(io.LimitReader(f, maxValues+1))
	if err == nil && len(values) > maxValues {
		err = fmt.Errorf("larger than %d bytes", maxValues)
	}
	if err != nil {
		return nil, fmt.Errorf("values of chart %s: %w", d.Name, err)
	}
	return values, nil
}

// renderError says where a chart does not render, and where its values are.
func renderError(a AddOn, d manifest.Chart, err error) error {
	var list diag.List
	var values *helm.ValuesError
	var random *helm.RandomError
	file := filepath.Join(a.Named, d.ValuesFile())
	switch {
	case errors.As(err, &values):
		list.Errorf(diag.Pos{File: file, Line: values.Line, Col: 1}, "", "not the values of chart %s: %v", d.Name, values.Err)
	case errors.As(err, &random):
		list.Errorf(d.Pos, "give the value in "+file+", so that every build makes the same package", "chart %s %s: %v", d.Name, d.Version, err)
	default:
		list.Errorf(d.Pos, "if the chart asks for a value, give it in "+file, "chart %s %s does not render: %v", d.Name, d.Version, err)
	}
	return list.Err()
}

// resolveImages resolves the images of a chart's pods.
func (k *chartKind) resolveImages(ctx context.Context, r *resolving, c *renderedChart) error {
	for _, use := range c.uses.Pulled {
		resolved, err := k.images.carried(ctx, r, manifest.Image{Ref: use.Ref})
		if err != nil {
			return fmt.Errorf("chart %s, %s: %w", c.Name, use.Where, err)
		}
		c.needs = append(c.needs, resolved)
	}
	return nil
}

// finish lists the images of all charts, each once, and without those that the Manifest names itself. Each gets an id that no
// other image has.
func (p *chartPart) finish(m *manifest.File) {
	there, ids := make(map[string]bool), make(map[string]bool)
	for _, d := range m.Images() {
		ids[d.ID] = true
		if ref, err := image.ParseReference(d.Ref); err == nil {
			there[ref.String()] = true
		}
	}
	for _, c := range p.Charts {
		for _, one := range c.needs {
			if there[one.Ref] {
				continue
			}
			there[one.Ref] = true
			one.ID = imageID(one.Ref, ids)
			p.Images, p.from = append(p.Images, one), append(p.from, c.directive.Pos)
		}
	}
}

// imageID derives a file name from a reference that is not among ids, and adds it to them.
func imageID(ref string, ids map[string]bool) string {
	last := ref[strings.LastIndex(ref, "/")+1:]
	if name, digest, pinned := strings.Cut(last, "@sha256:"); pinned {
		last = name + "-" + digest[:12]
	}
	id := strings.ReplaceAll(last, ":", "-")
	for n := 2; ids[id]; n++ {
		id = fmt.Sprintf("%s-%d", strings.ReplaceAll(last, ":", "-"), n)
	}
	ids[id] = true
	return id
}

func (k *chartKind) servers(m *manifest.File) []string {
	var list []string
	for _, d := range m.Charts() {
		if repository, ok := strings.CutPrefix(d.Repository, manifest.OCIScheme); ok {
			list = append(list, registry(k.options.Mirrors, repository)...)
		} else {
			list = append(list, root(k.options.Mirrors.URL(d.Repository)))
		}
	}
	return list
}

// made includes the folders of charts; their archives are assets in the index of a package.
func (k *chartKind) made(p bundle.PackageInfo, name string) bool {
	dir, file := path.Split(name)
	parent, of := path.Split(strings.TrimSuffix(dir, "/"))
	if parent != manifest.ChartsDir+"/" || !slices.Contains([]string{renderedFile, kustomizationFile}, file) {
		return false
	}
	return slices.ContainsFunc(p.Assets, func(a bundle.Asset) bool {
		version, ok := strings.CutPrefix(a.Path, path.Join(p.Dir(), manifest.ChartsDir, of)+"-")
		return ok && strings.HasSuffix(version, ".tgz") && strings.ContainsAny(version[:1], "v0123456789")
	})
}

func (p *chartPart) fetched() (n int64) {
	for _, c := range p.Charts {
		n += c.Fetched
	}
	return n
}

func (p *chartPart) lock(l *lock.Lock) {
	for _, c := range p.Charts {
		l.Charts = append(l.Charts, c.Chart)
		lockImages(l, c.needs)
	}
}

// The files of a chart's folder in the package. It is a kustomization, which an install.sh applies or changes.
const (
	renderedFile      = "rendered.yaml"
	kustomizationFile = "kustomization.yaml"
)

const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- " + renderedFile + "\n"

// describe lists the archives as assets, and the images of the charts.
func (p *chartPart) describe(described *bundle.Package) {
	p.imagePart.describe(described)
	dir := path.Join(bundle.AddOnDir(described.Name, described.Version), manifest.ChartsDir)
	for _, c := range p.Charts {
		described.Contents.Assets = append(described.Contents.Assets, bundle.Asset{
			Name: c.FileName(), Path: path.Join(dir, c.FileName()), Source: c.URL, Blob: c.Blob,
		})
	}
}

func (p *chartPart) files(dir string) ([]bundle.File, error) {
	dir = path.Join(dir, manifest.ChartsDir)
	var list []bundle.File
	for _, c := range p.Charts {
		list = append(list,
			p.kind.options.Cache.File(path.Join(dir, c.FileName()), c.Blob),
			bundle.BytesFile(path.Join(dir, c.Name, renderedFile), cache.FileMode, c.rendered.Document()),
			bundle.BytesFile(path.Join(dir, c.Name, kustomizationFile), cache.FileMode, []byte(kustomization)))
	}
	return list, nil
}

func (p *chartPart) warn(m *manifest.File, list *diag.List) {
	for _, c := range p.Charts {
		c.warn(m, list)
	}
}

// warn reports images that may be needed but are not carried, and what rendering cannot do.
func (c *renderedChart) warn(m *manifest.File, list *diag.List) {
	carried := chart.References(c.uses.Pulled)
	for _, d := range m.Images() {
		carried = append(carried, d.Ref)
	}
	at := c.directive.Pos
	for _, use := range chart.NotCarried(c.uses.Named, carried) {
		list.Warnf(at, "if a pod needs it, add to the Manifest: image <id> "+use.Ref, "chart %s, %s: %s looks like an image and is not carried", c.Name, use.Where, use.Ref)
	}
	for _, use := range chart.NotCarried(c.uses.Hidden, carried) {
		list.Warnf(at, "switch it on in "+c.directive.ValuesFile()+", or add to the Manifest: image <id> "+use.Ref,
			"chart %s, value %s: image %s is not carried, because these values do not use it", c.Name, use.Where, use.Ref)
	}
	for _, o := range c.rendered.Objects {
		if len(o.Hooks) > 0 {
			list.Warnf(at, "", "chart %s: %s is a hook of Helm (%s); it is applied with the other objects, and nothing waits for it", c.Name, o, strings.Join(o.Hooks, ", "))
		}
	}
	for _, o := range c.rendered.Skipped {
		list.Warnf(at, "", "chart %s: %s is a hook of Helm (%s); it is left out", c.Name, o, strings.Join(o.Hooks, ", "))
	}
	for _, kind := range c.rendered.Lookups {
		list.Warnf(at, "", "chart %s looks for %s in the cluster; it finds nothing while the package is built", c.Name, kind)
	}
}

// Charts lists the images that the pods of an add-on's charts pull, the others that the charts name, and what needs attention.
// It resolves no image.
func (s *Set) Charts(ctx context.Context, a AddOn, p Pins) (carried, named []string, findings []diag.Finding, err error) {
	run := &resolving{addOn: a, pins: p, faults: &faults{}}
	for _, k := range s.kinds {
		charts, ok := k.(*chartKind)
		if !ok {
			continue
		}
		for _, d := range a.Manifest.Charts() {
			c, err := charts.render(ctx, run, d)
			if err != nil {
				run.faults.add(d.Pos, err)
				continue
			}
			c.warn(a.Manifest, &run.faults.list)
			carried, named = append(carried, chart.References(c.uses.Pulled)...), append(named, chart.References(slices.Concat(c.uses.Named, c.uses.Hidden))...)
		}
	}
	return carried, named, run.faults.list.Findings(), context.Cause(ctx)
}
