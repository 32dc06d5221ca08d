package upstream

import (
	"context"
	"fmt"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is one image that the lab serves: a tag for an index with a manifest for each platform.
type Image struct {
	Ref        string   // the full pulled name: host, repository and tag
	Base       []string // components that are layers, lowest first
	Files      []Placed // the image's own layer, on top
	Entrypoint []string
	Cmd        []string
	User       string
	// StandIn is the reason why another program replaces the image's own. Empty if the image has its real program.
	StandIn string
	OCI     bool // OCI media types instead of Docker's, as upstream has them
	// Archs are the architectures of its manifests; none means amd64. See On.
	Archs []string
	// Chart is the archive of a Helm chart. Such a reference has a chart, and none of the above but its name.
	Chart FileOf
}

// mediaTypes are the media types of Docker's or the OCI's format.
type mediaTypes struct{ index, manifest, config, layer types.MediaType }

func (i Image) mediaTypes() mediaTypes {
	if i.OCI {
		return mediaTypes{types.OCIImageIndex, types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer}
	}
	return mediaTypes{types.DockerManifestList, types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer}
}

// ownLayer is the component with the image's own files, if it has any.
func (i Image) ownLayer() []Component {
	if len(i.Files) == 0 {
		return nil
	}
	name, tag, _ := strings.Cut(path.Base(i.Ref), ":")
	return []Component{{Name: "image-" + name, Version: tag, Recipe: FileLayer{Files: i.Files}}}
}

// layers lists the components of the image's layers, lowest first.
func (i Image) layers() []string {
	list := append([]string(nil), i.Base...)
	for _, own := range i.ownLayer() {
		list = append(list, own.ID())
	}
	if i.Chart.Component != "" {
		list = append(list, i.Chart.Component)
	}
	return list
}

// Image assembles an image and builds missing layers. It reads the bytes of layers only when they are needed.
func (w *Workshop) Image(ctx context.Context, i Image) (v1.ImageIndex, error) {
	kind := i.mediaTypes()
	index := mutate.IndexMediaType(empty.Index, kind.index)
	for _, arch := range archsOf(i) {
		img, err := w.imageOn(ctx, i, arch)
		if err != nil {
			return nil, fmt.Errorf("make image %s for %s: %w", i.Ref, arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{MediaType: kind.manifest, Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// imageOn assembles an image for one architecture.
func (w *Workshop) imageOn(ctx context.Context, i Image, arch string) (v1.Image, error) {
	kind := i.mediaTypes()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, kind.manifest), kind.config)
	for _, id := range i.layers() {
		id = idOn(w.components, arch, id)
		dir, err := w.Path(ctx, id)
		if err != nil {
			return nil, err
		}
		l, err := openLayer(dir, kind.layer)
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: kind.layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "sealift lab: " + id}})
		if err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: epoch}
	config.Config = v1.Config{Entrypoint: i.Entrypoint, Cmd: i.Cmd, User: i.User, Env: []string{defaultPath}, WorkingDir: "/"}
	return mutate.ConfigFile(img, config)
}
