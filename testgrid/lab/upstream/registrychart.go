package upstream

import (
	"context"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The media types of a chart in a registry: https://helm.sh/docs/topics/registries/
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Chart assembles what a registry has of a chart.
func (w *Workshop) Chart(ctx context.Context, i Image) (v1.Image, error) {
	archive, err := w.File(ctx, i.Chart)
	if err != nil {
		return nil, fmt.Errorf("make chart %s: %w", i.Ref, err)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), chartConfig)
	return mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(content, chartContent), MediaType: chartContent})
}
