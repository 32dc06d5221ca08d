package upstream

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// chartIndex is the file of a chart repository that lists its charts.
const chartIndex = "index.yaml"

// chartFile is the file of a chart that names it.
const chartFile = "Chart.yaml"

// ModuleChart packs a Helm chart that lies in a Go module, with the index of a repository that has no other chart.
type ModuleChart struct {
	Path    string // of the module
	Version string // of the module
	Folder  string // of the chart in the module
	URL     string // of the archive, in the index
	// Release is the version of the chart and of its program, where the module has v0.0.0 and upstream's release fills them in.
	Release string `json:",omitempty"`
	// Without lists what upstream's .helmignore keeps out of the archive: files and folders of the chart.
	Without []string `json:",omitempty"`
}

// Needs implements Recipe.
func (c ModuleChart) Needs() []string { return nil }

// Tools implements Recipe.
func (c ModuleChart) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (c ModuleChart) Make(ctx context.Context, _ *Workshop, dir string) error {
	module, err := GoModule{Path: c.Path, Version: c.Version}.Source(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(module, filepath.FromSlash(c.Folder))
	text, err := c.read(filepath.Join(source, chartFile))
	if err != nil {
		return fmt.Errorf("read the chart of %s@%s: %w", c.Path, c.Version, err)
	}
	var about struct {
		Name       string `yaml:"name"`
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(text, &about); err != nil {
		return fmt.Errorf("read the chart of %s@%s: %w", c.Path, c.Version, err)
	}
	archive := filepath.Join(dir, path.Base(c.URL))
	if err := c.pack(source, about.Name, archive); err != nil {
		return fmt.Errorf("pack the chart of %s@%s: %w", c.Path, c.Version, err)
	}
	packed, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(packed)
	index, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": map[string]any{about.Name: []any{map[string]any{
		"name": about.Name, "version": about.Version, "appVersion": about.AppVersion, "urls": []string{c.URL}, "digest": hex.EncodeToString(sum[:]),
	}}}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, chartIndex), index, 0o644)
}

// read returns the content that a file has in the archive.
func (c ModuleChart) read(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if c.Release != "" && filepath.Base(file) == chartFile {
		content = bytes.ReplaceAll(content, []byte("v0.0.0"), []byte(c.Release))
	}
	return content, err
}

// pack writes the archive of a chart as Helm does: its files below a folder with the chart's name.
func (c ModuleChart) pack(source, name, archive string) error {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer out.Close()
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	err = filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		leftOut := slices.Contains(c.Without, filepath.ToSlash(below))
		switch {
		case d.IsDir() && leftOut:
			return filepath.SkipDir
		case d.IsDir() || leftOut:
			return nil
		}
		content, err := c.read(file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path.Join(name, filepath.ToSlash(below)), Mode: 0o644, Size: int64(len(content)), ModTime: epoch}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err = t.Write(content)
		return err
	})
	return errors.Join(err, t.Close(), z.Close(), out.Close())
}

// chart is the component of a chart.
func chart(name, version string, c ModuleChart) Component {
	return Component{Name: "chart-" + name, Version: version, Recipe: c}
}

// chartDownloads are the files of a chart's repository, whose URL has no scheme.
func chartDownloads(repository string, of Component) []Download {
	c := of.Recipe.(ModuleChart)
	archive := path.Base(c.URL)
	return []Download{
		{URL: repository + "/" + chartIndex, Source: FileOf{of.ID(), chartIndex}},
		{URL: strings.TrimPrefix(c.URL, "https://"), Source: FileOf{of.ID(), archive}},
	}
}
