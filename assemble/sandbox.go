package assemble

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/packages"
)

// sandboxImage matches the pod sandbox image in a containerd configuration. It does not match variables that a hook fills
// in.
var sandboxImage = regexp.MustCompile(`(?m)^\s*sandbox(?:_image)?\s*=\s*["']([^"'$]+)["']`)

// maxRuntimeConfig is the largest configuration file that is checked, in bytes.
const maxRuntimeConfig = 256 << 10

// checkSandbox refuses a bundle whose container runtime needs a sandbox image that no package has, or that it does not start pods with.
// Without a registry, no pod would start.
func checkSandbox(archives []*bundle.Archive) error {
	carried := map[string]bool{}
	var kubernetes []string // images that containerd's hook fills in
	for _, a := range archives {
		for _, image := range a.Index.Packages[0].Images {
			carried[image.Ref] = true
			if image.ID == catalog.SandboxID {
				kubernetes = append(kubernetes, image.Ref)
			}
		}
	}
	for _, a := range archives {
		info := a.Index.Packages[0]
		if err := startsPods(info, kubernetes...); err != nil {
			return err
		}
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
				} else if err := startsPods(info, ref); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// startsPods fails if a package is a version of containerd that does not start pods with one of these sandbox images.
func startsPods(info bundle.PackageInfo, images ...string) error {
	if info.Name != "containerd" {
		return nil
	}
	for _, ref := range images {
		if err := catalog.CheckSandboxImage(info.Version, ref); err != nil {
			return &packages.UnusableError{Message: err.Error()}
		}
	}
	return nil
}
