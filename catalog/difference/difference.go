// Package difference compares two versions of an add-on by what clusters see of them, its objects and options, and finds objects that
// a version of Kubernetes does not serve. It reads files of the catalogue and changes nothing.
package difference

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/references"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/manifest"
)

// kubernetes is the add-on that serves the APIs of a cluster.
const kubernetes = "kubernetes"

// Of lists the changes of an add-on's objects and options from one version to another. dir is the folder of the add-ons. Without an
// earlier version ("") everything is new.
func Of(ctx context.Context, dir, name, before, now string) (objects, options []manifest.Change, err error) {
	var was, is Facts
	if before != "" {
		if was, err = Read(ctx, dir, name, before); err != nil {
			return nil, nil, err
		}
	}
	if is, err = Read(ctx, dir, name, now); err != nil {
		return nil, nil, err
	}
	return manifest.Changes("object ", was.Objects, is.Objects), manifest.Changes("option ", was.Options, is.Options), nil
}

// Facts are what clusters see of a version of an add-on: the APIs of its objects by kind and name, and its options with types and defaults.
type Facts struct{ Objects, Options map[string]string }

// Read reads the facts of a version of an add-on. dir is the folder of the add-ons.
func Read(ctx context.Context, dir, name, version string) (Facts, error) {
	objects, err := references.Objects(ctx, filepath.Join(dir, name, version))
	if err != nil {
		return Facts{}, err
	}
	f := Facts{map[string]string{}, map[string]string{}}
	for _, o := range objects {
		f.Objects[o.Kind+" "+o.Name] = o.APIVersion
	}
	meta, err := catalog.ReadDir(os.DirFS(dir), path.Join(name, version), name)
	if err != nil {
		return Facts{}, err
	}
	for key, option := range meta.Options {
		f.Options[key] = string(option.Type)
		if option.Default != nil {
			f.Options[key] += fmt.Sprintf(", default %v", option.Default)
		}
	}
	return f, nil
}

// RemovedAPIs lists the objects whose API the newest Kubernetes of the catalogue does not serve: those of one version of an add-on, or
// of the newest version of every add-on if that version is Kubernetes'.
func RemovedAPIs(ctx context.Context, dir, name, version string) ([]string, error) {
	release := version
	check := map[string]string{name: version}
	if name == kubernetes {
		var err error
		if check, err = newest(dir); err != nil {
			return nil, err
		}
	} else {
		versions, err := template.Versions(filepath.Join(dir, kubernetes))
		if err != nil || len(versions) == 0 {
			return nil, err
		}
		release = versions[len(versions)-1]
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(check)) {
		objects, err := references.Objects(ctx, filepath.Join(dir, name, check[name]))
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if removed := catalog.RemovedAPI(o.APIVersion, o.Kind); removed != "" && catalog.CompareVersions(release, removed) >= 0 {
				gone = append(gone, fmt.Sprintf("%s %s has %s %s of %s, which Kubernetes %s removed", name, check[name], o.Kind, o.Name, o.APIVersion, removed))
			}
		}
	}
	return gone, nil
}

// newest returns the newest version of each add-on.
func newest(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range entries {
		versions, err := template.Versions(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if len(versions) > 0 {
			all[e.Name()] = versions[len(versions)-1]
		}
	}
	return all, nil
}
