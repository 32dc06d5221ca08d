package assemble

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
)

// sandboxImage matches the pod sandbox image in a containerd configuration. It does not match variables that a hook fills
// in.
var sandboxImage = regexp.MustCompile(`(?m)^\s*sandbox(?:_image)?\s*=\s*["']([^"'$]+)["']`)

// maxRuntimeConfig is the largest configuration file that is checked, in bytes.
const maxRuntimeConfig = 256 << 10

// checkSandbox refuses a bundle whose container runtime needs a sandbox image that no package has. Without a registry, no
// pod would start.
func checkSandbox(archives []*bundle.Archive) error {
	carried := map[string]bool{}
	for _, a := range archives {
		for _, image := range a.Index.Packages[0].Images {
			carried[image.Ref] = true
		}
	}
	for _, a := range archives {
		info := a.Index.Packages[0]
		for _, e := range a.Below(info.Dir()) {
			if path.Ext(e.Path) != ".toml" || e.Size > maxRuntimeConfig {
				continue
			}
			text, err := a.ReadFile(e.Path, maxRuntimeConfig)
			if err != nil {
				return err
			}
			for _, found := range sandboxImage.FindAllSubmatch(text, -1) {
				if ref := string(found[1]); !carried[ref] {
					return &packages.UnusableError{Message: fmt.Sprintf("%s of package %s %s names the sandbox image %s, which no package of the bundle has: name the image of the Kubernetes that is carried, or add it to a Manifest",
						strings.TrimPrefix(e.Path, info.Dir()+"/"), info.Name, info.Version, ref)}
				}
			}
		}
	}
	return nil
}
