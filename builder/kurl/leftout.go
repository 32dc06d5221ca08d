package kurl

import "strings"

// NoAddOnError reports an archive of kURL's that has no add-on, such as a package of Kubernetes, or the archive that kURL's server makes
// of the Kubernetes releases between two versions.
type NoAddOnError struct {
	LeftOut []string // what it has instead; empty if nothing in it is kURL's
}

func (e *NoAddOnError) Error() string {
	if len(e.LeftOut) == 0 {
		return "has no add-on: a package or a bundle of kURL has folders addons/<name>/<version>"
	}
	return "has no add-on, only " + strings.Join(e.LeftOut, ", ") + KubernetesHint(e.LeftOut)
}

// KubernetesHint says what to do about kURL's Kubernetes among what was left out, or nothing if it is not among it.
func KubernetesHint(leftOut []string) string {
	var versions []string
	for _, dir := range leftOut {
		if version, ok := strings.CutPrefix(dir, "packages/kubernetes/"); ok {
			versions = append(versions, version)
		}
	}
	if len(versions) == 0 {
		return ""
	}
	return "; Sealift has Kubernetes of its own: 'sealift addon new-version kubernetes " + versions[len(versions)-1] + "' writes it, and 'sealift build' makes its package"
}

// roots are the folders and files of kURL's archives besides add-ons (kURL §1.5, §6.1).
func roots() []string {
	return []string{"assets", "bin", "helm", "image-overrides", "krew", "kurlkinds", "kustomize", "manifests", "packages", "shared",
		"install.sh", "join.sh", "upgrade.sh", "tasks.sh"}
}
