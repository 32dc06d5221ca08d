package install

import (
	"path"
	"slices"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// nodeImages returns the images of an add-on that a node with the role of this host runs. A worker runs no control plane.
func (j *job) nodeImages(a addOn) *runtime.Layout {
	if j.ControlPlane() || !a.provides(kubernetesCapability) {
		return a.layout
	}
	return withoutImages(a.layout, func(name string) bool { return slices.Contains(kubeadm.StaticPods(), name) })
}

// imageParts returns the images of nodeImages in the order in which they are needed: of Kubernetes, on a control plane, first those with
// which its API starts, then those of pods that only this API starts.
func (j *job) imageParts(a addOn) []*runtime.Layout {
	all := j.nodeImages(a)
	if !j.ControlPlane() || !a.provides(kubernetesCapability) {
		return []*runtime.Layout{all}
	}
	later := func(name string) bool { return slices.Contains(kubeadm.AddOns(), name) }
	return []*runtime.Layout{withoutImages(all, later), withoutImages(all, func(name string) bool { return !later(name) })}
}

// withoutImages returns a layout without the images with some names.
func withoutImages(l *runtime.Layout, left func(name string) bool) *runtime.Layout {
	own := *l
	own.Images = slices.DeleteFunc(slices.Clone(own.Images), func(i runtime.Image) bool { return left(imageName(i.Ref)) })
	return &own
}

// imageInputs returns the inputs of the step that loads an add-on's images. They name the images that a worker leaves out, so that a
// host that becomes a control plane later loads these. A worker that has loaded all of them, by an earlier Sealift, loads none again.
func (j *job) imageInputs(a addOn, id string) string {
	all := lifecycle.Digest(a.info.Index, j.facts.Target())
	if len(j.nodeImages(a).Images) == len(a.layout.Images) {
		return all
	}
	if rec, finished := j.past.Last(id); finished && rec.Inputs == all {
		return all
	}
	return lifecycle.Digest(a.info.Index, j.facts.Target(), "without", kubeadm.StaticPods())
}

// imageName returns the last part of the repository of an image: etcd for registry.k8s.io/etcd:3.7.0-0.
func imageName(ref string) string {
	return path.Base(ocilayout.Repository(ref))
}
