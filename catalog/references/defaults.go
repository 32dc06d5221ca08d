package references

import (
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// starter is a program that starts pods of images that its own code names, so that no file of an add-on does.
type starter struct {
	program string   // path of its image's repository, without the registry
	images  []string // patterns of such paths (path.Match)
}

// starters lists programs with the images that they use by default, as their documentation names them.
func starters() []starter {
	return []starter{
		{"rook/ceph", []string{"cephcsi/cephcsi", "sig-storage/csi-*", "k8scsi/csi-*", "csiaddons/*", "ceph/ceph", "rook/nfs"}},
		{"velero/velero", []string{"velero/velero-*restore-helper"}},
		{"jetstack/cert-manager-controller", []string{"jetstack/cert-manager-acmesolver"}},
		{"prometheus-operator/prometheus-operator", []string{"prometheus-operator/prometheus-config-reloader", "prometheus/prometheus", "prometheus/alertmanager", "thanos/thanos"}},
		{"coreos/prometheus-operator", []string{"coreos/prometheus-config-reloader", "coreos/configmap-reload", "jimmidyson/configmap-reload", "prometheus/prometheus", "prometheus/alertmanager"}},
		{"longhornio/longhorn-manager", []string{"longhornio/*", "sig-storage/csi-*", "sig-storage/livenessprobe"}},
		{"openebs/provisioner-localpv", []string{"openebs/linux-utils", "openebs/*-utils"}},
		{"openebs/m-apiserver", []string{"openebs/*"}},
		{"projectcontour/contour", []string{"envoyproxy/envoy"}},
		{"sonobuoy/sonobuoy", []string{"sonobuoy/systemd-logs", "conformance"}},
		{"kotsadm/kotsadm", []string{"kotsadm/*", "replicatedhq/*", "minio/*", "rqlite/rqlite", "library/postgres", "schemahero/schemahero"}},
		{"istio/pilot", []string{"istio/proxyv2", "istio/install-cni"}},
		{"kubevirt/virt-operator", []string{"kubevirt/*"}},
		{"minio/operator", []string{"minio/*"}},
		{"conformance", []string{"e2e-test-images/*"}},
		{"tigera/operator", []string{"calico/*", "tigera/*"}},
	}
}

// kubeadmImages are the images that kubeadm starts a control plane with.
func kubeadmImages() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns/coredns", "coredns", "etcd"}
}

// startedByDefault reports whether a program uses an image that no file of the add-on names. Every container runtime starts pods with
// the pause image; Sonobuoy, another add-on, starts that of the conformance tests.
func (c *checker) startedByDefault(image carried) bool {
	name := repositoryPath(image.name)
	switch {
	case path.Base(name) == "pause", name == "conformance":
		return true
	case slices.Contains(c.assets, "kubeadm") && slices.Contains(kubeadmImages(), name):
		return true
	}
	return slices.ContainsFunc(starters(), func(s starter) bool {
		starts := slices.ContainsFunc(s.images, func(pattern string) bool { ok, err := path.Match(pattern, name); return err == nil && ok })
		return starts && name != s.program && slices.ContainsFunc(c.carried, func(other carried) bool { return repositoryPath(other.name) == s.program })
	})
}

// repositoryPath returns the repository of a reference without its registry: rook/ceph.
func repositoryPath(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return strings.TrimPrefix(ref, "/")
	}
	return reference.Path(named)
}
