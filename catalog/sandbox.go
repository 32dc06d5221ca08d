package catalog

import (
	"fmt"
	"path"
	"strings"
)

// SandboxID is the ID of the sandbox image in Kubernetes' Manifest.
const SandboxID = "pause"

// CheckSandboxImage fails if a version of containerd starts no pod with this sandbox image. From 2.3.0 to 2.3.3, containerd stores an image
// that has a tag and a digest under one name and looks for it under another (https://github.com/containerd/containerd/issues/13529).
func CheckSandboxImage(containerd, ref string) error {
	name, _, pinned := strings.Cut(ref, "@")
	tagged := strings.Contains(path.Base(name), ":")
	if !pinned || !tagged || CompareVersions(containerd, "2.3.0") < 0 || CompareVersions(containerd, "2.3.4") >= 0 {
		return nil
	}
	return fmt.Errorf("containerd %s starts no pod with the sandbox image %s, which has a tag and a digest: use containerd 2.3.4 or later, or leave the digest out", containerd, ref)
}
