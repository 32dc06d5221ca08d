package manifest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FileName is the name of a Manifest in an add-on's directory.
const FileName = "Manifest"

// Find returns the Manifests at paths: a file is itself, whatever its name; a directory is every regular file in its tree
// called Manifest or ending in .manifest, in order of their paths. Left out are hidden folders, template folders, whose
// Manifests are not filled in yet, and scripts/Manifest, which in kURL's tree holds shell assignments (kURL §1.1). A directory
// without any is an error; nothing is returned twice.
func Find(paths ...string) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	add := func(path string) {
		if path = filepath.Clean(path); !seen[path] {
			seen[path] = true
			found = append(found, path)
		}
	}
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("find manifests: %w", err)
		}
		switch {
		case info.Mode().IsRegular():
			add(root)
		case info.IsDir():
			below, err := walk(root)
			if err != nil {
				return nil, fmt.Errorf("find manifests: %w", err)
			}
			if len(below) == 0 {
				return nil, fmt.Errorf("find manifests: no file called %s in %s", FileName, root)
			}
			for _, path := range below {
				add(path)
			}
		default:
			return nil, fmt.Errorf("find manifests: %s is neither a file nor a directory", root)
		}
	}
	return found, nil
}

func walk(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name() == "template" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir() || !isManifestName(entry.Name()):
			return nil
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if filepath.Base(filepath.Dir(absolute)) == "scripts" {
			return nil
		}
		if info, err := os.Stat(path); err != nil {
			return err
		} else if info.Mode().IsRegular() {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

func isManifestName(name string) bool {
	return name == FileName || strings.HasSuffix(name, ".manifest")
}
