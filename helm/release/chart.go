package release

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Chart is a chart that was read. Operations do not change it, so that several may use it.
type Chart struct {
	Name       string
	Version    string // of the chart
	AppVersion string // of the chart's objects; may be empty

	files []*archive.BufferedFile
}

// Load reads a chart from a directory or an archive.
func Load(path string) (Chart, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Chart{}, err
	}
	var loaded *chart.Chart
	if info.IsDir() {
		loaded, err = loader.LoadDir(path)
	} else {
		loaded, err = loader.LoadFile(path)
	}
	return keep(path, loaded, err)
}

// ReadArchive reads a chart from the content of an archive, a .tgz file.
func ReadArchive(content []byte) (Chart, error) {
	if err := fit(content); err != nil {
		return Chart{}, err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(content))
	return keep("the archive", loaded, err)
}

// ReadFiles reads a chart from files by their paths in the chart, such as Chart.yaml and templates/web.yaml.
func ReadFiles(files map[string][]byte) (Chart, error) {
	var list []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, &archive.BufferedFile{Name: name, Data: files[name]})
	}
	loaded, err := loader.LoadFiles(list)
	return keep("the files", loaded, err)
}

// keep keeps the files of a chart, since Helm's operations change the loaded chart.
func keep(from string, loaded *chart.Chart, err error) (Chart, error) {
	if err != nil {
		return Chart{}, fmt.Errorf("read a chart from %s: %w", from, err)
	}
	c := Chart{Name: loaded.Name(), Version: loaded.Metadata.Version, AppVersion: loaded.AppVersion()}
	for _, f := range loaded.Raw {
		c.files = append(c.files, &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: f.Data})
	}
	return c, nil
}

// Dependency is a chart that another one depends on.
type Dependency struct{ Repository, Name, Version string }

// Missing returns the charts that c depends on and does not contain. A chart with a Chart.lock says which versions.
func (c Chart) Missing() ([]Dependency, error) {
	loaded, err := c.load()
	if err != nil {
		return nil, err
	}
	var missing []Dependency
	for _, d := range loaded.Metadata.Dependencies {
		if slices.ContainsFunc(loaded.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == d.Name }) {
			continue
		}
		m := Dependency{Repository: d.Repository, Name: d.Name, Version: d.Version}
		if loaded.Lock != nil {
			for _, locked := range loaded.Lock.Dependencies {
				if locked.Name == d.Name && locked.Repository == d.Repository {
					m.Version = locked.Version
				}
			}
		}
		missing = append(missing, m)
	}
	return missing, nil
}

// With returns the chart with the archives of charts that it depends on.
func (c Chart) With(archives ...[]byte) (Chart, error) {
	if err := fit(archives...); err != nil {
		return Chart{}, fmt.Errorf("%s with its dependencies: %w", c.Name, err)
	}
	files := slices.Clone(c.files)
	for i, content := range archives {
		files = append(files, &archive.BufferedFile{Name: fmt.Sprintf("charts/added-%d.tgz", i), Data: content})
	}
	loaded, err := loader.LoadFiles(files)
	return keep(c.Name+" with its dependencies", loaded, err)
}

// load returns Helm's representation of the chart.
func (c Chart) load() (*chart.Chart, error) {
	if len(c.files) == 0 {
		return nil, errors.New("no chart was given")
	}
	return loader.LoadFiles(c.files)
}
