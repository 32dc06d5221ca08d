package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host/packages"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/regularfile"
)

// verbs are the requests of hooks that need the bundle or the host.
func (i *Install) verbs() map[string]hook.Verb {
	return map[string]hook.Verb{
		"apply":              i.apply,
		"modules":            i.giveModules,
		"certificate":        i.certificate,
		"load-images":        i.loadImagesOf,
		"host-packages":      i.installNamed,
		"host-package-files": i.installFiles,
	}
}

// apply applies a kustomization for an add-on: its name, the folder, and how long a fast host would wait for all of it.
func (i *Install) apply(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("apply: %d arguments given, 3 wanted", len(args))
	}
	wait, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, i.applied(args[0]), args[1], speed.Patience(wait), i.Log)
}

// loadImagesOf loads the images in a folder: those of an add-on from the bundle, others from existing files.
func (i *Install) loadImagesOf(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("load images: %d arguments given, 1 wanted", len(args))
	}
	dir := filepath.Clean(args[0])
	for _, a := range i.addOns {
		if dir == filepath.Join(i.options.Root, a.info.Dir(), "images") {
			_, err := i.loadImages(a)(ctx)
			return err
		}
	}
	return i.importImages(ctx, dir)
}

// importImages loads every file below a folder.
func (i *Install) importImages(ctx context.Context, dir string) error {
	r, err := runtime.Connect(ctx, i.socket)
	if err != nil {
		return err
	}
	defer r.Close()
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("load images: %w", err)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		file, err := regularfile.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		loaded, err := r.Import(ctx, file)
		if err != nil {
			return fmt.Errorf("load images of %s: %w", name, err)
		}
		fmt.Fprintf(i.Log, "%s: loaded %s\n", name, strings.Join(loaded, ", "))
		return allowImages(ctx, r, i.socket, loaded...)
	})
}

// installNamed installs packages of the host out of the bundle's repositories.
func (i *Install) installNamed(ctx context.Context, names []string, _ io.Writer) error {
	if i.settings.skipPackages {
		return errors.New("the Installer says that no package is to be installed: kurl.skipSystemPackageInstall")
	}
	_, err := i.installPackages(names)(ctx)
	return err
}

// installFiles installs the packages in a folder. Its arguments are the folder, and the names by which kURL chooses rpm packages.
func (i *Install) installFiles(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) == 0 {
		return errors.New("no folder of host packages was given")
	}
	files := packages.Files{Dir: args[0], Work: filepath.Join(i.options.Root, "host-packages"), Output: i.Log}
	return files.Install(ctx, args[1:])
}
