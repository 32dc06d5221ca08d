package registry

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/strictyaml"
	directives "github.com/sealift/sealift/manifest"
)

// The media types of a chart in a registry, as Helm writes and expects them.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

const (
	// maxChart bounds a chart that is unpacked to read its Chart.yaml, in bytes.
	maxChart = 64 << 20
	// maxChartFile bounds Chart.yaml, in bytes.
	maxChartFile = 1 << 20
)

// readCharts makes an artifact of each chart of an archive. A chart that several packages have is listed once.
func readCharts(a *bundle.Archive, packages []bundle.PackageInfo) (all []image, err error) {
	seen := make(map[string]string)
	for _, p := range packages {
		dir := path.Join(p.Dir(), directives.ChartsDir)
		for _, e := range a.Below(dir) {
			if path.Dir(e.Path) != dir || !strings.HasSuffix(e.Path, ".tgz") {
				continue
			}
			i, err := newChart(a, e)
			if err != nil {
				return nil, fmt.Errorf("chart %s: %w", e.Path, err)
			}
			switch other, ok := seen[i.ref]; {
			case ok && other != e.SHA256:
				return nil, fmt.Errorf("%s has another content than in the package before; push them as two bundles under two prefixes", e.Path)
			case !ok:
				seen[i.ref] = e.SHA256
				all = append(all, i)
			}
		}
	}
	return all, nil
}

func newChart(a *bundle.Archive, e bundle.Entry) (image, error) {
	text, err := chartFile(a, e)
	if err != nil {
		return image{}, err
	}
	config, err := strictyaml.ToJSON(text)
	var chart struct{ Name, Version string }
	if err == nil {
		err = yaml.Unmarshal(config, &chart)
	}
	if err != nil {
		return image{}, fmt.Errorf("the chart's Chart.yaml: %w", err)
	}
	i := image{kind: KindChart, repository: "charts/" + chart.Name, tag: tagOf(chart.Version)}
	i.ref = i.repository + ":" + chart.Version
	if _, err := reference.ParseNamed("registry.example/" + i.repository + ":" + i.tag); err != nil {
		return i, fmt.Errorf("name %q and version %q of its Chart.yaml cannot be those of a repository and a tag: %w", chart.Name, chart.Version, err)
	}
	i.files = map[digest.Digest]string{digestOf(e): e.Path}
	err = i.compose(config, ocispec.Manifest{
		Config: ocispec.Descriptor{MediaType: chartConfig}, Layers: []ocispec.Descriptor{{MediaType: chartContent, Digest: digestOf(e), Size: e.Size}},
		Annotations: map[string]string{ocispec.AnnotationTitle: chart.Name, ocispec.AnnotationVersion: chart.Version},
	})
	return i, err
}

// chartFile returns the Chart.yaml of a packed chart: <name>/Chart.yaml.
func chartFile(a *bundle.Archive, e bundle.Entry) (text []byte, err error) {
	content, err := a.OpenEntry(e.Path)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	unpacked, err := gzip.NewReader(content)
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(io.LimitReader(unpacked, maxChart)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it has no Chart.yaml")
		}
		if err != nil {
			return nil, err
		}
		if parent, file := path.Split(path.Clean(header.Name)); file != "Chart.yaml" || strings.Count(parent, "/") != 1 {
			continue
		}
		if header.Size > maxChartFile {
			return nil, fmt.Errorf("its Chart.yaml has %d bytes, which is too large", header.Size)
		}
		return io.ReadAll(files)
	}
}
