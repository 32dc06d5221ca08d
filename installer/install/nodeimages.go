package install

import (
	"path"
	"slices"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// nodeImages returns the images of an add-on that a node with the role of this host runs.
func (j *job) nodeImages(a addOn) *runtime.Layout {
	if j.leavesOutImages(a) {
		return ofWorker(a.layout)
	}
	return a.layout
}

// leavesOutImages reports whether a node with the role of this host runs some images of an add-on only. A worker runs no control plane.
func (j *job) leavesOutImages(a addOn) bool {
	return !j.ControlPlane() && a.provides(kubernetesCapability)
}

// ofWorker returns those of Kubernetes' images that a worker runs.
func ofWorker(kubernetes *runtime.Layout) *runtime.Layout {
	own := *kubernetes
	own.Images = slices.DeleteFunc(slices.Clone(own.Images), func(i runtime.Image) bool { return ofControlPlane(i.Ref) })
	return &own
}

func ofControlPlane(ref string) bool { return slices.Contains(kubeadm.StaticPods(), imageName(ref)) }

// imageSize returns the bytes that the images of add-ons take on a node with the role of this host.
func (j *job) imageSize(addOns ...addOn) (uint64, error) {
	var layouts []*runtime.Layout
	for _, a := range addOns {
		layout := j.nodeImages(a)
		if len(layout.Images) == 0 {
			continue
		}
		if j.leavesOutImages(a) {
			out, err := ocilayout.BlobsOfOnly(j.archive, a.info, ofControlPlane)
			if err != nil {
				return 0, err
			}
			foreign := layout.Skip
			layout.Skip = func(path string) bool { return out[path] || foreign(path) }
		}
		layouts = append(layouts, layout)
	}
	size, err := runtime.UnpackedSize(layouts...)
	return uint64(size), err
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
