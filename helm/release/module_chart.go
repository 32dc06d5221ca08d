package release

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"helm.sh/helm/v4/pkg/ignore"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
)

// notChart are the parts of a module that are no part of its chart.
var notChart = []string{"hooks", "openapi", "enabled", "crds"}

const (
	chartFile  = "Chart.yaml"
	valuesFile = "values.yaml"
)

// readModule reads the chart of a module, without what .helmignore names. If it has no Chart.yaml, one is made up.
func readModule(w helm.Wanted) (map[string][]byte, error) {
	rules, err := ignore.ParseFile(filepath.Join(w.Dir, ignore.HelmIgnore))
	if errors.Is(err, fs.ErrNotExist) {
		rules, err = ignore.Empty(), nil
	}
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	files := map[string][]byte{}
	err = filepath.WalkDir(w.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == w.Dir {
			return err
		}
		relative, err := filepath.Rel(w.Dir, path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path) // of what a link leads to
		if err != nil {
			return err
		}
		skip := slices.Contains(notChart, relative) || rules.Ignore(filepath.ToSlash(relative), info)
		switch {
		case skip && entry.IsDir():
			return filepath.SkipDir
		case skip || !info.Mode().IsRegular():
			return nil
		}
		files[filepath.ToSlash(relative)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, ok := files[chartFile]; !ok {
		files[chartFile] = []byte("apiVersion: v2\nname: " + w.Name + "\nversion: 0.0.1\n")
	}
	return files, withoutGiven(files, w.Values)
}

// withoutGiven takes out of the chart's own values what the operator gives it anyway. Helm would bring back what hooks have
// removed there. The values of dependencies stay.
func withoutGiven(files map[string][]byte, given map[string]any) error {
	text, ok := files[valuesFile]
	if !ok {
		return nil
	}
	var own map[string]any
	if err := yaml.Unmarshal(text, &own); err != nil {
		return err
	}
	maps.DeleteFunc(own, func(key string, value any) bool {
		_, isFlag := value.(bool)
		_, isGiven := given[key]
		return isFlag || isGiven
	})
	text, err := yaml.Marshal(own)
	files[valuesFile] = text
	return err
}
