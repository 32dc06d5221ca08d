package comparison

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/difference"
	"github.com/sealift/sealift/spec"
)

// The bounds of the files of an add-on that are read for its objects and options.
const (
	maxFile  = 4 << 20  // bytes of one
	maxFiles = 64 << 20 // bytes of all in a bundle
)

// facts are descriptions by name.
type facts struct {
	settings, options, objects map[string]string
	unknown                    []string
}

// factsOf reads the Installer of a bundle, and the options and objects of its add-ons.
func factsOf(ctx context.Context, a *bundle.Archive, public func(map[string]any) map[string]any) (facts, error) {
	f := facts{settings: make(map[string]string), options: make(map[string]string), objects: make(map[string]string)}
	if err := f.installer(a, public); err != nil {
		return f, err
	}
	dir, err := os.MkdirTemp("", "sealift-comparison-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	if err := extract(a, dir); err != nil {
		return f, err
	}
	for _, p := range a.Index.Packages {
		read, err := difference.Read(ctx, path.Join(dir, path.Dir(path.Dir(p.Dir()))), p.Name, p.Version)
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		if err != nil {
			// The folder's name is another one each time.
			f.unknown = append(f.unknown, fmt.Sprintf("objects and options of %s %s: %s", p.Name, p.Version, strings.ReplaceAll(err.Error(), dir+"/", "")))
			continue
		}
		// A bundle for an upgrade has several versions of an add-on, and the last one stays.
		for name, text := range read.Objects {
			f.objects[p.Name+": "+name] = text
		}
		for name, text := range read.Options {
			f.options[p.Name+"."+name] = text
		}
	}
	return f, nil
}

// installer reads the settings of the Installer of a bundle. A package has none.
func (f *facts) installer(a *bundle.Archive, public func(map[string]any) map[string]any) error {
	if _, ok := a.Entry(bundle.InstallerName); !ok {
		return nil
	}
	text, err := a.ReadFile(bundle.InstallerName, maxFile)
	if err != nil {
		return err
	}
	i, err := spec.Parse(bundle.InstallerName, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if text, err = i.Canonical(); err != nil {
		return err
	}
	var settings struct {
		Spec map[string]any `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return fmt.Errorf("%s: %w", bundle.InstallerName, err)
	}
	if public != nil {
		settings.Spec = public(settings.Spec)
	}
	flat(f.settings, "", settings.Spec)
	return nil
}

// extract writes the add-ons' own files, without images, packages and assets, below a folder.
func extract(a *bundle.Archive, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	total := int64(0)
	for _, p := range a.Index.Packages {
		for _, e := range a.Below(p.Dir()) {
			folder, _, _ := strings.Cut(strings.TrimPrefix(e.Path, p.Dir()+"/"), "/")
			if folder == "images" || folder == "packages" || folder == "assets" || e.Size > maxFile {
				continue
			}
			if total += e.Size; total > maxFiles {
				return fmt.Errorf("the files of its add-ons have more than %d MiB", maxFiles>>20)
			}
			data, err := a.ReadFile(e.Path, maxFile)
			if err != nil {
				return err
			}
			if err := root.MkdirAll(path.Dir(e.Path), 0o755); err != nil {
				return err
			}
			if err := root.WriteFile(e.Path, data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
