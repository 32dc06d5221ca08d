package upstream

import "slices"

// busyboxBase is the layer with a shell and coreutils.
const busyboxBase = "image-base-busybox-1.35.0"

// defaultPath is the PATH of upstream's images, in which Kubernetes' static pods find their commands.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Images lists the images that the lab serves, by their upstream names: those of the catalogue's add-ons and of the given
// Kubernetes releases. Without releases, it lists those of all releases that need not be named, and of kURL's add-ons.
func Images(kubernetes ...string) []Image {
	var list []Image
	for _, r := range chosen(kubernetes) {
		list = append(list, releaseImages(r)...)
	}
	if len(kubernetes) == 0 {
		list = append(list, KurlImages()...)
	}
	return append(list,
		Image{
			Ref: "ghcr.io/flannel-io/flannel:v0.26.7", Base: []string{netBase}, OCI: true,
			Files:      []Placed{{FileOf{"flannel-v0.26.7", "flanneld"}, "opt/bin/flanneld"}},
			Entrypoint: []string{"/opt/bin/flanneld"},
		},
		// Its manifest copies the plugin out of the image with cp.
		Image{
			Ref: "ghcr.io/flannel-io/flannel-cni-plugin:v1.6.2-flannel1", Base: []string{busyboxBase}, OCI: true,
			Files: []Placed{{FileOf{"flannel-cni-plugin-v0.9.1", "flannel"}, "flannel"}},
		},
		Image{
			Ref: "docker.io/rancher/local-path-provisioner:v0.0.30", Base: []string{busyboxBase}, OCI: true,
			Files: []Placed{{FileOf{"local-path-provisioner-v0.0.30", "local-path-provisioner"}, "usr/bin/local-path-provisioner"}},
			Cmd:   []string{"local-path-provisioner"},
		},
		Image{
			Ref:        "registry.k8s.io/metrics-server/metrics-server:v0.9.0",
			Files:      []Placed{{FileOf{"metrics-server-v0.9.0", "metrics-server"}, "metrics-server"}},
			Entrypoint: []string{"/metrics-server"}, User: "65534",
		},
		Image{Ref: "docker.io/library/busybox:1.35.0", Base: []string{busyboxBase}, OCI: true, Cmd: []string{"sh"}},
	)
}

// chosen returns the named releases, or all that need not be named if none is.
func chosen(kubernetes []string) []release {
	return slices.DeleteFunc(releases(), func(r release) bool {
		if len(kubernetes) == 0 {
			return r.named
		}
		return !slices.Contains(kubernetes, r.kubernetes)
	})
}

// ComponentsOf lists the components of images and downloads without repetitions.
func ComponentsOf(images []Image, downloads []Download) []string {
	var ids []string
	for _, image := range images {
		ids = append(ids, image.layers()...)
	}
	for _, download := range downloads {
		ids = append(ids, download.Source.Component)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func releaseImages(r release) []Image {
	binaries := "kubernetes-" + r.kubernetes
	var list []Image
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		list = append(list, Image{
			Ref:   "registry.k8s.io/" + name + ":" + r.kubernetes,
			Files: filesOf(binaries, "usr/local/bin", name),
		})
	}
	return append(list,
		Image{
			Ref: "registry.k8s.io/kube-proxy:" + r.kubernetes, Base: []string{netBase},
			Files: filesOf(binaries, "usr/local/bin", "kube-proxy"),
		},
		Image{
			Ref: "registry.k8s.io/etcd:" + r.etcd + "-0",
			Files: slices.Concat(
				filesOf("etcd-v"+r.etcd, "usr/local/bin", "etcd"),
				filesOf("etcdctl-v"+r.etcd, "usr/local/bin", "etcdctl"),
				filesOf("etcdutl-v"+r.etcd, "usr/local/bin", "etcdutl")),
		},
		Image{
			Ref:        "registry.k8s.io/coredns/coredns:" + r.coredns,
			Files:      filesOf("coredns-"+r.coredns, "", "coredns"),
			Entrypoint: []string{"/coredns"},
		},
		Image{
			Ref:        "registry.k8s.io/pause:" + r.pause,
			Files:      filesOf("pause-"+r.pause, "", "pause"),
			Entrypoint: []string{"/pause"}, User: "65535:65535",
		},
	)
}

// Download is one file that the lab serves.
type Download struct {
	URL    string // without its scheme: dl.k8s.io/v1.36.3/…
	Source FileOf
	// Checksum is the suffix of a second file with the SHA-256 of the first. Empty if upstream has none.
	Checksum string
}

// Downloads lists the files that the lab serves: those of the container runtime and of the given Kubernetes releases.
// Without releases, it lists those of all releases and of kURL's add-ons.
func Downloads(kubernetes ...string) []Download {
	const github = "github.com/"
	list := []Download{
		{github + "containerd/containerd/releases/download/v2.2.1/containerd-2.2.1-linux-amd64.tar.gz",
			FileOf{"containerd-release-v2.2.1", "containerd-2.2.1-linux-amd64.tar.gz"}, ".sha256sum"},
		{github + "opencontainers/runc/releases/download/v1.3.4/runc.amd64", FileOf{"runc-v1.3.4", "runc"}, ""},
		{github + "containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz",
			FileOf{"cni-plugins-release-v1.9.1", "cni-plugins-linux-amd64-v1.9.1.tgz"}, ".sha256"},
	}
	for _, r := range chosen(kubernetes) {
		for _, name := range []string{"kubeadm", "kubelet", "kubectl"} {
			list = append(list, Download{"dl.k8s.io/" + r.kubernetes + "/bin/linux/amd64/" + name, FileOf{"kubernetes-" + r.kubernetes, name}, ".sha256"})
		}
	}
	if len(kubernetes) == 0 {
		list = append(list, KurlDownloads()...)
	}
	return list
}
