package installer

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/hook"
	"github.com/sealift/sealift/installer/host"
)

// verbs are what hooks can ask for that needs the bundle or the host.
func (i *Install) verbs() map[string]hook.Verb {
	return map[string]hook.Verb{
		"apply":              i.apply,
		"load-images":        i.loadImagesOf,
		"host-packages":      i.installNamed,
		"host-package-files": i.installFiles,
	}
}

// apply applies a kustomization for an add-on: its name, the folder, and how long all of it is waited for.
func (i *Install) apply(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("apply: %d arguments given, 3 wanted", len(args))
	}
	wait, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, args[0], args[1], wait, i.log)
}

// loadImagesOf loads the images of an add-on, whose folder below the install root is given.
func (i *Install) loadImagesOf(ctx context.Context, args []string, _ io.Writer) error {
	for _, a := range i.addOns {
		if len(args) == 1 && path.Join(a.info.Dir(), "images") == path.Clean(args[0]) {
			_, err := i.loadImages(a)(ctx)
			return err
		}
	}
	return fmt.Errorf("the bundle has no images at %v", args)
}

// installNamed installs packages of the host out of the bundle's repositories.
func (i *Install) installNamed(ctx context.Context, names []string, _ io.Writer) error {
	_, err := i.installPackages(names)(ctx)
	return err
}

// installFiles installs the packages in a folder: the folder, and the names of which kURL's rpm packages are chosen by.
func (i *Install) installFiles(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no folder of host packages was given")
	}
	files := host.Files{Dir: args[0], Work: filepath.Join(i.options.Root, "host-packages"), Output: i.log}
	return files.Install(ctx, args[1:])
}
