package install

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// extractKubernetes extracts the files of Kubernetes, and puts some of them into the folder of kURL's package of Kubernetes: its
// containerd reads there which sandbox image the pods get, and imports that image (kURL §1.5).
func (i *Install) extractKubernetes(k addOn) func(context.Context) (lifecycle.State, error) {
	return func(ctx context.Context) (lifecycle.State, error) {
		state, err := i.extract(k)(ctx)
		if err != nil {
			return nil, err
		}
		folder := filepath.Join(i.options.Root, "packages", "kubernetes", k.info.Version)
		if err := files.MkdirAll(filepath.Join(folder, "images"), 0o755); err != nil {
			return nil, err
		}
		text, err := i.archive.ReadFile(path.Join(k.info.Dir(), "Manifest"), maxScriptSize)
		if err != nil {
			return nil, err
		}
		if err := files.WriteMode(filepath.Join(folder, "Manifest"), 0o644, text); err != nil {
			return nil, err
		}
		ref := k.sandboxImage()
		if ref == "" {
			return state, nil
		}
		err = files.Fill(filepath.Join(folder, "images", catalog.SandboxID+".tar.gz"), 0o644, func(w *os.File) error {
			return k.layout.Export(ctx, ref, w)
		})
		if err != nil {
			return nil, fmt.Errorf("the sandbox image: %w", err)
		}
		return state, nil
	}
}

// sandboxImage is the one that the Kubernetes of this package uses.
func (a addOn) sandboxImage() string {
	for _, image := range a.manifest.Images() {
		if image.ID == catalog.SandboxID {
			return image.Ref
		}
	}
	return ""
}
