package upstream

import (
	"slices"

	"github.com/sealift/sealift/internal/releases"
)

// busyboxVersion is that of Debian 12, and busyboxBase the layer with a shell and coreutils.
const (
	busyboxVersion = "1.35.0"
	busyboxBase    = "image-base-busybox-" + busyboxVersion
)

// defaultPath is the PATH of upstream's images, in which Kubernetes' static pods find their commands.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Images lists the images that the lab serves, by their upstream names, for a choice of Kubernetes versions such as v1.36.3 and of other
// add-ons' versions such as containerd/2.4.2. Of an add-on without a choice, it lists what 'make test' makes; without any choice, also those
// of kURL's add-ons.
func Images(chosen ...string) []Image {
	list := ImagesOf(selected(chosen)...)
	if len(chosen) == 0 {
		list = append(list, KurlImages()...)
	}
	return list
}

// ImagesOf lists the images of these versions of add-ons, each image once.
func ImagesOf(addOns ...releases.Release) []Image {
	var list []Image
	for _, r := range addOns {
		for _, image := range imagesOf(r) {
			if !slices.ContainsFunc(list, func(i Image) bool { return i.Ref == image.Ref }) {
				list = append(list, image)
			}
		}
	}
	return list
}

func imagesOf(r releases.Release) []Image {
	version := "v" + r.Version
	switch r.Name {
	case "kubernetes":
		return kubernetesImages(r)
	case "flannel":
		return []Image{
			{
				Ref: "ghcr.io/flannel-io/flannel:" + version, Base: []string{netBase}, OCI: true,
				Files:      filesOf("flannel-"+version, "opt/bin", "flanneld"),
				Entrypoint: []string{"/opt/bin/flanneld"},
			},
			// Its manifest copies the plugin out of the image with cp.
			{
				Ref: "ghcr.io/flannel-io/flannel-cni-plugin:" + r.With["cni-plugin"], Base: []string{busyboxBase}, OCI: true,
				Files: filesOf(flannelPluginProgram, "", "flannel"),
			},
		}
	case "local-path-provisioner":
		return []Image{
			{
				Ref: "docker.io/rancher/local-path-provisioner:" + version, Base: []string{busyboxBase}, OCI: true,
				Files: filesOf("local-path-provisioner-"+version, "usr/bin", "local-path-provisioner"),
				Cmd:   []string{"local-path-provisioner"},
			},
			{Ref: "docker.io/library/busybox:" + r.With["busybox"], Base: []string{busyboxBase}, OCI: true, Cmd: []string{"sh"}},
		}
	case "metrics-server":
		return []Image{{
			Ref:        "registry.k8s.io/metrics-server/metrics-server:" + version,
			Files:      filesOf("metrics-server-"+version, "", "metrics-server"),
			Entrypoint: []string{"/metrics-server"}, User: "65534",
		}}
	case "cert-manager":
		return certManagerImages(version)
	case "descheduler":
		return deschedulerImages(version)
	case "gatekeeper":
		return gatekeeperImages(version)
	case "kube-network-policies":
		return networkPoliciesImages(r)
	case "metallb":
		return metallbImages(version)
	case "node-local-dns":
		return nodeLocalDNSImages(r.Version)
	case "object-store":
		return objectStoreImages(r)
	case "prometheus":
		return monitoringImages(r)
	case "registry":
		return []Image{{
			Ref: "docker.io/library/registry:" + r.Version, Base: []string{busyboxBase}, OCI: true,
			Files:      filesOf("registry-"+version, "bin", "registry"),
			Entrypoint: []string{"/bin/registry"}, Cmd: []string{"serve", "/etc/distribution/config.yml"},
		}}
	case "traefik":
		return traefikImages(version)
	case "velero":
		return veleroImages(r)
	case "volume-snapshots":
		return volumeSnapshotsImages(version)
	}
	return nil
}

func objectStoreImages(r releases.Release) []Image {
	version := "v" + r.Version
	return []Image{
		{
			Ref: "ghcr.io/versity/versitygw:" + version, Base: []string{busyboxBase}, OCI: true,
			Files: slices.Concat(filesOf("versitygw-"+version, "usr/local/bin", "versitygw"),
				filesOf("versitygw-source-"+version, "usr/local/bin", "docker-entrypoint.sh")),
			Entrypoint: []string{"/usr/local/bin/docker-entrypoint.sh"},
		},
		{
			Ref:   versitygwChart + ":" + r.With["chart"],
			Chart: FileOf{"chart-versitygw-" + r.With["chart"], "versitygw:" + r.With["chart"]},
		},
	}
}

// versitygwChart is the repository of the chart in a registry.
const versitygwChart = "ghcr.io/versity/versitygw/charts/versitygw"

// ComponentsOf lists the components of images and downloads without repetitions.
func ComponentsOf(images []Image, downloads []Download) []string {
	var ids []string
	known := byID(Components())
	for _, image := range images {
		for _, arch := range archsOf(image) {
			for _, id := range image.layers() {
				ids = append(ids, idOn(known, arch, id))
			}
		}
	}
	for _, download := range downloads {
		ids = append(ids, download.Source.Component)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func kubernetesImages(r releases.Release) []Image {
	version, etcd := "v"+r.Version, "v"+etcdVersion(r)
	binaries := "kubernetes-" + version
	var list []Image
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		list = append(list, Image{
			Ref:   "registry.k8s.io/" + name + ":" + version,
			Files: filesOf(binaries, "usr/local/bin", name),
		})
	}
	return append(list,
		Image{
			Ref: "registry.k8s.io/kube-proxy:" + version, Base: []string{netBase},
			Files: filesOf(binaries, "usr/local/bin", "kube-proxy"),
		},
		Image{
			Ref: "registry.k8s.io/etcd:" + r.With["etcd"],
			Files: slices.Concat(
				filesOf("etcd-"+etcd, "usr/local/bin", "etcd"),
				filesOf("etcdctl-"+etcd, "usr/local/bin", "etcdctl"),
				filesOf("etcdutl-"+etcd, "usr/local/bin", "etcdutl")),
		},
		Image{
			Ref:        "registry.k8s.io/coredns/coredns:" + r.With["coredns"],
			Files:      filesOf("coredns-"+r.With["coredns"], "", "coredns"),
			Entrypoint: []string{"/coredns"},
		},
		Image{
			Ref:        "registry.k8s.io/pause:" + r.With["pause"],
			Files:      filesOf("pause-"+r.With["pause"], "", "pause"),
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

// Downloads lists the files that the lab serves, for the same choice as Images.
func Downloads(chosen ...string) []Download {
	list := DownloadsOf(selected(chosen)...)
	if len(chosen) == 0 {
		list = append(list, KurlDownloads()...)
	}
	return list
}

// DownloadsOf lists the files of these versions of add-ons, each file once.
func DownloadsOf(addOns ...releases.Release) []Download {
	var list []Download
	for _, r := range addOns {
		for _, d := range downloadsOf(r) {
			if !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
	}
	return list
}

func downloadsOf(r releases.Release) []Download {
	version := "v" + r.Version
	switch r.Name {
	case "kubernetes":
		plugins := r.With["cni-plugins"]
		list := []Download{{"github.com/containernetworking/plugins/releases/download/" + plugins + "/" + pluginsArchive(plugins),
			FileOf{"cni-plugins-release-" + plugins, pluginsArchive(plugins)}, ".sha256"}}
		for _, name := range []string{"kubeadm", "kubelet", "kubectl"} {
			list = append(list, Download{"dl.k8s.io/" + version + "/bin/linux/amd64/" + name, FileOf{"kubernetes-" + version, name}, ".sha256"})
		}
		return list
	case "containerd":
		runc := r.With["runc"]
		return []Download{
			{"github.com/containerd/containerd/releases/download/" + version + "/" + containerdArchive(version),
				FileOf{"containerd-release-" + version, containerdArchive(version)}, ".sha256sum"},
			{"github.com/opencontainers/runc/releases/download/" + runc + "/runc.amd64", FileOf{"runc-" + runc, "runc"}, ""},
		}
	case "cert-manager":
		return certManagerDownloads(version)
	case "descheduler":
		return deschedulerDownloads(r)
	case "gatekeeper":
		return gatekeeperDownloads(version)
	case "metallb":
		return metallbDownloads(version)
	case "traefik":
		return traefikDownloads(r)
	case "velero":
		return veleroDownloads(version)
	case "volume-snapshots":
		return volumeSnapshotsDownloads(version)
	}
	return nil
}
