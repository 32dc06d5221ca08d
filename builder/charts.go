package builder

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/sealift/sealift/builder/chart"
	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/diag"
)

// Charts renders the charts of the add-on in dir. It names the images that they bring into a package, the others that they
// name, and what needs attention. A chart that cannot be fetched or does not render is a finding.
func (b *Builder) Charts(ctx context.Context, dir string) (carried, named []string, findings []diag.Finding, err error) {
	a, err := openAddOn(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	defer a.close()
	l, err := a.lock()
	if err != nil {
		return nil, nil, nil, err
	}
	return b.kinds.Charts(ctx, a.directives(), kind.Pins{Lock: l})
}

const (
	moduleNamespace = "addon-operator"
	moduleValues    = "values.yaml"
	// maxChart bounds the chart of a module, in bytes.
	maxChart = 16 << 20
)

// Module implements references.Charts: it renders the chart that the add-on in dir is, with its default values.
func (b *Builder) Module(ctx context.Context, dir string) (uses []references.Use, findings []diag.Finding, err error) {
	if !catalog.HasChart(os.DirFS(dir), ".") {
		return nil, nil, nil
	}
	if b.charts == nil {
		return nil, nil, errors.New("this program cannot render charts")
	}
	a, err := openAddOn(dir)
	if err != nil {
		return nil, nil, err
	}
	defer a.close()
	archive, err := a.chartArchive()
	if err != nil {
		return nil, nil, fmt.Errorf("chart of module %s: %w", a.name, err)
	}
	values := fmt.Sprintf("global: {}\n%s: {}\n", helm.ModuleKey(a.name))
	rendered, err := b.charts.Render(ctx, archive, helm.Release{Name: a.name, Namespace: moduleNamespace, Values: []byte(values)})
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, err
		}
		var list diag.List
		list.Warnf(diag.Pos{File: path.Join(dir, catalog.TemplatesDir)}, "give what the chart asks for in "+moduleValues+", below "+helm.ModuleKey(a.name),
			"the chart does not render with its default values, so that nobody knows its images: %v", err)
		return nil, list.Findings(), nil
	}
	return moduleUses(a.name, rendered), nil, nil
}

// moduleUses are the images that a rendered module names, each with the file that does so.
func moduleUses(name string, rendered helm.Rendered) (all []references.Use) {
	var pulled []string
	for _, o := range rendered.Objects {
		found := chart.ImagesOf(helm.Rendered{Objects: []helm.Object{o}})
		file := strings.TrimPrefix(o.Template, name+"/")
		pulled = append(pulled, chart.References(found.Pulled)...)
		for _, use := range found.Pulled {
			all = append(all, references.Use{Image: use.Ref, Where: use.Where, File: file, Pulled: true})
		}
		for _, use := range found.Named {
			all = append(all, references.Use{Image: use.Ref, Where: use.Where, File: file})
		}
	}
	hidden := chart.ImagesOf(helm.Rendered{Values: rendered.Values, AppVersion: rendered.AppVersion}).Hidden
	for _, use := range chart.NotCarried(hidden, pulled) {
		all = append(all, references.Use{Image: use.Ref, Where: "value " + use.Where, File: moduleValues})
	}
	return all
}

// chartArchive packs the chart of a module, with a Chart.yaml if it has none.
func (a *addOn) chartArchive() ([]byte, error) {
	files, err := a.files(a.name)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	t := tar.NewWriter(z)
	described, size := false, int64(0)
	for _, f := range files {
		name := strings.TrimPrefix(f.Path, a.name+"/")
		if !helm.InModuleChart(name, true) {
			continue
		}
		described = described || name == catalog.ChartFile
		if size += f.Size; size > maxChart {
			return nil, fmt.Errorf("larger than %d MiB; keep other files out of the module, or in images/, assets/ or hooks/", maxChart>>20)
		}
		if err := addFile(t, f); err != nil {
			return nil, err
		}
	}
	if !described {
		text := fmt.Appendf(nil, "apiVersion: v2\nname: %s\nversion: 0.0.1\n", a.name)
		err = t.WriteHeader(&tar.Header{Name: path.Join(a.name, catalog.ChartFile), Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = t.Write(text)
		}
	}
	err = errors.Join(err, t.Close(), z.Close())
	return packed.Bytes(), err
}

func addFile(t *tar.Writer, f bundle.File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	if err := t.WriteHeader(&tar.Header{Name: f.Path, Mode: 0o644, Size: f.Size}); err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}
