package lint

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/diag"
)

// Circle reports add-ons that wait for each other. No Installer can have all of them. Of each add-on the newest version counts.
func Circle(dirs []string) ([]diag.Finding, error) {
	newest, at := map[string]catalog.Meta{}, map[string]string{}
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		meta, err := catalog.ReadDir(os.DirFS(dir), ".", filepath.Base(filepath.Dir(abs)))
		if err != nil {
			continue // a mistake in it is a finding of the add-on
		}
		meta.Version = filepath.Base(abs)
		if other, ok := newest[meta.Name]; !ok || catalog.CompareVersions(meta.Version, other.Version) > 0 {
			newest[meta.Name], at[meta.Name] = meta, dir
		}
	}
	all := make([]catalog.Meta, 0, len(newest))
	for _, meta := range newest {
		all = append(all, meta)
	}
	text, err := catalog.Circle(all)
	if err != nil || text == "" {
		return nil, err
	}
	first, _, _ := strings.Cut(text, " ")
	var list diag.List
	list.Errorf(diag.Pos{File: filepath.Join(at[first], catalog.MetaFile)}, "remove one of these relations", "add-ons wait for each other in a circle: %s", text)
	return list.Findings(), nil
}
