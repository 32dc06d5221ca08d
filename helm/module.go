package helm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// EnabledSuffix ends the key of the flag that switches a module on, such as ingressNginxEnabled.
const EnabledSuffix = "Enabled"

// DefinitionPrefixes are the comma-separated prefixes of files in crds/ that an operator ignores by default.
const DefinitionPrefixes = "doc-,_"

// DefinitionFiles returns the files with CustomResourceDefinitions below crds/ of a module, including subfolders: those that end in
// .yaml and do not begin with one of the prefixes, which are separated by commas. They are sorted.
func DefinitionFiles(module, prefixes string) (files []string, err error) {
	skip := strings.FieldsFunc(prefixes, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	root := filepath.Join(module, "crds") + "/." // a link is followed
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == root:
			return nil
		case err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml":
			return err
		}
		if !slices.ContainsFunc(skip, func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) }) {
			files = append(files, filepath.Clean(path))
		}
		return nil
	})
	return files, err
}

// ModuleKey is the key under which a module of addon-operator has its values: its name in camel case, such as ingressNginx for
// ingress-nginx.
func ModuleKey(name string) string {
	var out strings.Builder
	for i, part := range strings.Split(name, "-") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		out.WriteString(part)
	}
	return out.String()
}

// InModuleChart reports whether a file of a module, by its path below the module, is part of the module's chart, unless that is the whole
// folder. The others belong to the operator, or, if the module is an add-on of Sealift, to that.
func InModuleChart(name string, addOn bool) bool {
	first, rest, _ := strings.Cut(name, "/")
	if slices.Contains([]string{"hooks", "openapi", "crds"}, first) || name == "enabled" {
		return false
	}
	if !addOn {
		return true
	}
	if rest != "" {
		return !slices.Contains([]string{"images", "assets", "packages"}, first)
	}
	return !slices.Contains([]string{"Manifest", "Manifest.lock", "install.sh", "addon.yaml", "host-preflight.yaml", "troubleshoot.yaml",
		"testgrid.yaml", "sbom.spdx.json"}, name)
}
