package upstream

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/manifest"
)

func TestLabServesKurlAddOns(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(upstreamcases.KurlAddOns(t), "addons/*/*/"+manifest.FileName))
	if err != nil || len(found) != 11 {
		t.Fatalf("found %q: %v", found, err)
	}
	var offered []string
	for _, image := range Images() {
		offered = append(offered, image.Ref)
	}
	for _, download := range Downloads() {
		offered = append(offered, "https://"+download.URL)
	}
	for _, name := range found {
		file, err := manifest.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var wanted []string
		for _, image := range file.Images() {
			full, err := reference.ParseNormalizedNamed(image.Ref)
			if err != nil {
				t.Fatal(err)
			}
			wanted = append(wanted, full.String())
		}
		for _, asset := range file.Assets() {
			wanted = append(wanted, asset.Source)
		}
		for _, want := range wanted {
			if !slices.Contains(offered, want) {
				t.Errorf("%s: the lab does not offer %s", name, want)
			}
		}
	}
	for _, id := range ComponentsOf(Images(conformanceVersion()), Downloads(conformanceVersion())) {
		if strings.Contains(id, "minio") || id == "image-flannel-v0.28.7" {
			t.Errorf("a lab for one release has %s", id)
		}
	}
}
