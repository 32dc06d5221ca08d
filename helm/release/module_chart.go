package release

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"

	"helm.sh/helm/v4/pkg/ignore"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
)

const (
	chartFile  = "Chart.yaml"
	valuesFile = "values.yaml"
)

// maxDepth bounds folders inside each other. Only a link to a folder above it gets there.
const maxDepth = 32

// readModule reads the files of a module's chart, without what .helmignore names. If there is no Chart.yaml, a default one is used.
func readModule(w helm.Wanted) (map[string][]byte, error) {
	rules, err := ignore.ParseFile(filepath.Join(w.Dir, ignore.HelmIgnore))
	if errors.Is(err, fs.ErrNotExist) {
		rules, err = ignore.Empty(), nil
	}
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	_, noManifest := os.Stat(filepath.Join(w.Dir, "Manifest"))
	_, noChart := os.Stat(filepath.Join(w.Dir, chartFile))
	m := moduleFiles{dir: w.Dir, addOn: noManifest == nil, rules: rules, files: map[string][]byte{}}
	m.whole = !m.addOn && noChart == nil
	if err := m.read("", 0); err != nil {
		return nil, err
	}
	if _, ok := m.files[chartFile]; !ok {
		m.files[chartFile] = []byte("apiVersion: v2\nname: " + w.Name + "\nversion: 0.0.1\n")
	}
	return m.files, nil
}

// moduleChart makes the chart of a module of its files.
func moduleChart(w helm.Wanted, files map[string][]byte) (Chart, error) {
	files = maps.Clone(files)
	if err := withoutGiven(files, w); err != nil {
		return Chart{}, fmt.Errorf("chart of module %s: %s: %w", w.Name, valuesFile, err)
	}
	return ReadFiles(files)
}

// moduleFiles are the files of a module's chart, by their paths below it. Links are followed, as Helm does.
type moduleFiles struct {
	dir   string
	addOn bool // it is also an add-on of Sealift
	whole bool // the chart is the whole folder
	rules *ignore.Rules
	files map[string][]byte
}

func (m *moduleFiles) read(below string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d folders inside each other; does a link lead to a folder above it?", below, maxDepth)
	}
	entries, err := os.ReadDir(filepath.Join(m.dir, filepath.FromSlash(below)))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(below, entry.Name())
		file := filepath.Join(m.dir, filepath.FromSlash(name))
		info, err := os.Stat(file) // of a link's target
		if err != nil {
			return err
		}
		part := name
		if info.IsDir() {
			part += "/any" // a file in it
		}
		switch {
		case !m.whole && !helm.InModuleChart(part, m.addOn) || m.rules.Ignore(name, info):
		case info.IsDir():
			err = m.read(name, depth+1)
		case info.Mode().IsRegular():
			m.files[name], err = os.ReadFile(file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withoutGiven removes from the chart's own values what the operator sets anyway, and the flag of the module, which is the
// operator's. Helm would bring back what hooks have removed there. Other defaults of the chart stay.
func withoutGiven(files map[string][]byte, w helm.Wanted) error {
	text, ok := files[valuesFile]
	if !ok {
		return nil
	}
	var own map[string]any
	if err := yaml.Unmarshal(text, &own); err != nil {
		return err
	}
	delete(own, helm.ModuleKey(w.Name)+"Enabled")
	maps.DeleteFunc(own, func(key string, _ any) bool {
		_, isGiven := w.Values[key]
		return isGiven
	})
	text, err := yaml.Marshal(own)
	files[valuesFile] = text
	return err
}
