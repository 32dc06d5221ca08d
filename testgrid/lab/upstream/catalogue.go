package upstream

import (
	"path"
	"slices"
	"strings"
)

// release is one Kubernetes version and the versions that its kubeadm asks for by default (constants.go of kubeadm), which
// `kubeadm config images list` prints.
type release struct {
	kubernetes, etcd, coredns, pause string
	// named means that the lab builds it only on request: an upgrade over several minor versions begins with it.
	named bool
}

func releases() []release {
	return []release{
		{kubernetes: "v1.35.4", etcd: "3.6.6", coredns: "v1.13.1", pause: "3.10.1"},
		{kubernetes: "v1.36.3", etcd: "3.6.8", coredns: "v1.14.2", pause: "3.10.2"},
		{kubernetes: "v1.34.4", etcd: "3.6.5", coredns: "v1.12.1", pause: "3.10.1", named: true},
	}
}

// Releases lists the Kubernetes versions that the lab has.
func Releases() []string {
	var list []string
	for _, r := range releases() {
		list = append(list, r.kubernetes)
	}
	return list
}

// Debian releases of lab hosts, and the one of images with a distribution in them.
const (
	HostDebian12 = "host-debian-12"
	HostDebian13 = "host-debian-13"
	netBase      = "image-base-debian-12"
)

// MachineDebian12 is the disk and the kernel of hosts that are virtual machines. Only such a host needs it.
const MachineDebian12 = "machine-debian-12"

// RegistryServer is the registry itself, the file registry in its component.
const RegistryServer = "registry-v3.1.2"

// ObjectServer is an S3 server that keeps objects as files, the file versitygw in its component. It is not an upstream of any
// add-on, but a store to publish to.
const ObjectServer = "versitygw-v1.8.0"

// Crane is go-containerregistry's command, a peer to be measured against.
const Crane = "crane-v0.22.1"

// Containerd is the release that the catalogue ships, with its own client.
const Containerd = "containerd-v2.2.1"

// Components lists everything that the lab can make.
func Components() []Component {
	return slices.Concat(components(releases(), slices.Concat(Images(Releases()...), KurlImages())), hostLayers(), machineComponents(), conformanceComponents())
}

// Everyday lists the ids of the components that the lab makes by default.
func Everyday() []string {
	var ids []string
	for _, c := range components(chosen(nil), Images()) {
		ids = append(ids, c.ID())
	}
	return ids
}

func components(kubernetes []release, images []Image) []Component {
	list := slices.Concat(kubernetesComponents(kubernetes), runtimeComponents(), addOnComponents(), systemComponents(), kurlComponents())
	for _, image := range images {
		list = append(list, image.ownLayer()...)
	}
	return once(list)
}

// once drops the output of an earlier component of the same name: releases may share one, such as pause.
func once(list []Component) []Component {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(c Component) bool {
		was := seen[c.ID()]
		seen[c.ID()] = true
		return was
	})
}

func goModule(name, version string, m GoModule) Component {
	m.Version = version
	return Component{Name: name, Version: version, Recipe: m}
}

func kubernetesComponents(releases []release) []Component {
	var list []Component
	for _, r := range releases {
		etcd := "v" + r.etcd
		list = append(list,
			kubernetes(r.kubernetes),
			goModule("etcd", etcd, GoModule{Path: "go.etcd.io/etcd/server/v3", Commands: []GoCommand{{Name: "etcd"}}}),
			goModule("etcdctl", etcd, GoModule{Path: "go.etcd.io/etcd/etcdctl/v3", Commands: []GoCommand{{Name: "etcdctl"}}}),
			goModule("etcdutl", etcd, GoModule{Path: "go.etcd.io/etcd/etcdutl/v3", Commands: []GoCommand{{Name: "etcdutl"}}}),
			goModule("coredns", r.coredns, GoModule{Path: "github.com/coredns/coredns", Commands: []GoCommand{{Name: "coredns"}}}),
			goModule("pause-source", r.kubernetes, GoModule{Path: "k8s.io/kubernetes", Files: []string{"build/pause/linux/pause.c"}}),
			Component{Name: "pause", Version: r.pause, Recipe: CProgram{
				Name:   "pause",
				Source: FileOf{"pause-source-" + r.kubernetes, "pause.c"},
				Define: []string{"VERSION=v" + r.pause},
			}},
		)
	}
	return list
}

// kubernetes makes the seven commands of one release.
func kubernetes(version string) Component {
	m := kubernetesModule(version)
	for _, name := range []string{"kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		m.Commands = append(m.Commands, GoCommand{Package: "cmd/" + name, Name: name})
	}
	return goModule("kubernetes", version, m)
}

// kubernetesModule is the module of one release without its commands. Its staging modules are published as v0.<minor>.<patch>.
func kubernetesModule(version string) GoModule {
	minor, patch, _ := strings.Cut(strings.TrimPrefix(version, "v1."), ".")
	return GoModule{
		Path:     "k8s.io/kubernetes",
		Siblings: "v0." + minor + "." + patch,
		Set: []string{
			"k8s.io/component-base/version.gitVersion=" + version,
			"k8s.io/component-base/version.gitMajor=1",
			"k8s.io/component-base/version.gitMinor=" + minor,
			"k8s.io/component-base/version.gitTreeState=clean",
		},
	}
}

func runtimeComponents() []Component {
	return []Component{
		goModule("containerd", "v2.2.1", GoModule{
			Path:     "github.com/containerd/containerd/v2",
			Commands: commandsIn("cmd", "containerd", "containerd-shim-runc-v2", "ctr"),
			Set:      []string{"github.com/containerd/containerd/v2/version.Version=v2.2.1"},
		}),
		{Name: "containerd-release", Version: "v2.2.1", Recipe: Tarball{
			File:  "containerd-2.2.1-linux-amd64.tar.gz",
			Files: filesOf(Containerd, "bin", "containerd", "containerd-shim-runc-v2", "ctr"),
		}},
		goModule("runc", "v1.3.4", GoModule{
			Path:     "github.com/opencontainers/runc",
			Commands: []GoCommand{{Name: "runc"}},
			CGO:      true,
			Tags:     []string{"seccomp", "netgo", "osusergo"},
			Packages: []string{"libseccomp-dev"},
		}),
		goModule("cni-plugins", "v1.9.1", GoModule{
			Path: "github.com/containernetworking/plugins",
			Commands: slices.Concat(
				commandsIn("plugins/main", "bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "tap", "vlan"),
				commandsIn("plugins/ipam", "dhcp", "host-local", "static"),
				commandsIn("plugins/meta", "bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf")),
			Set: []string{"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v1.9.1"},
		}),
		{Name: "cni-plugins-release", Version: "v1.9.1", Recipe: Tarball{
			File: "cni-plugins-linux-amd64-v1.9.1.tgz",
			Files: filesOf("cni-plugins-v1.9.1", "", "bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan",
				"loopback", "macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"),
		}},
		goModule("registry", "v3.1.2", GoModule{
			Path:     "github.com/distribution/distribution/v3",
			Commands: commandsIn("cmd", "registry"),
			Set:      []string{"github.com/distribution/distribution/v3/version.version=v3.1.2"},
		}),
		goModule("crane", "v0.22.1", GoModule{
			Path:     "github.com/google/go-containerregistry",
			Commands: commandsIn("cmd", "crane"),
		}),
		goModule("versitygw", "v1.8.0", GoModule{
			Path:     "github.com/versity/versitygw",
			Commands: commandsIn("cmd", "versitygw"),
			Set:      []string{"main.Version=v1.8.0"},
		}),
	}
}

func addOnComponents() []Component {
	return []Component{
		// The UDP backend is C, so that upstream builds flannel for amd64 with CGO.
		goModule("flannel", "v0.26.7", GoModule{
			Path:     "github.com/flannel-io/flannel",
			Commands: []GoCommand{{Name: "flanneld"}},
			CGO:      true,
			Set:      []string{"github.com/flannel-io/flannel/pkg/version.Version=v0.26.7"},
		}),
		// The plugin's own module is not on the Go proxy under its release; this is the code it was split off from.
		goModule("flannel-cni-plugin", "v0.9.1", GoModule{
			Path:     "github.com/containernetworking/plugins",
			Commands: commandsIn("plugins/meta", "flannel"),
			Set:      []string{"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v1.6.2-flannel1"},
		}),
		goModule("local-path-provisioner", "v0.0.30", GoModule{
			Path:     "github.com/rancher/local-path-provisioner",
			Commands: []GoCommand{{Name: "local-path-provisioner"}},
			Set:      []string{"main.VERSION=v0.0.30"},
		}),
		goModule("metrics-server", "v0.9.0", GoModule{
			Path:     "sigs.k8s.io/metrics-server",
			Commands: commandsIn("cmd", "metrics-server"),
			Set:      []string{"k8s.io/client-go/pkg/version.gitVersion=v0.9.0"},
		}),
	}
}

// hostPackages are what a host has: those of a minimal server and no more, so that what an add-on needs beyond that has to come out of its
// package.
func hostPackages() []string { return []string{"systemd", "systemd-sysv", "dbus", "iproute2"} }

// machineDisk is the size of a virtual machine's disk in bytes, most of which is a hole.
const machineDisk = 24 << 30

func machineComponents() []Component {
	return []Component{{Name: "machine-debian", Version: "12", Recipe: SystemDisk{Suite: "bookworm", Packages: hostPackages(), Size: machineDisk}}}
}

// systemComponents are made of Debian packages.
func systemComponents() []Component {
	return []Component{
		{Name: "host-debian", Version: "12", Recipe: SystemTree{Suite: "bookworm", Packages: hostPackages()}},
		// Since Debian 13 systemd only recommends the library that loads kernel modules.
		{Name: "host-debian", Version: "13", Recipe: SystemTree{Suite: "trixie", Packages: append(hostPackages(), "libkmod2")}},
		// What kube-proxy and flannel call, and busybox for the images that upstream builds on it or on Alpine.
		{Name: "image-base-debian", Version: "12", Recipe: SystemLayer{
			Suite:    "bookworm",
			Packages: []string{"iptables", "nftables", "iproute2", "ipset", "conntrack", "kmod", "ca-certificates", "busybox-static"},
			Keep:     []string{"usr/bin/busybox"},
		}},
		// Debian's build differs from the world's in one way that matters: wget -T crashes.
		{Name: "image-base-busybox", Version: "1.35.0", Recipe: BusyboxLayer{
			Binary: FileOf{netBase, "busybox"}, Folders: []string{"etc", "root", "tmp", "usr"},
		}},
	}
}

// commandsIn lists commands whose packages share a parent folder.
func commandsIn(parent string, names ...string) []GoCommand {
	var list []GoCommand
	for _, name := range names {
		list = append(list, GoCommand{Package: path.Join(parent, name), Name: name})
	}
	return list
}

// filesOf places files of one component in a folder of an archive or image, under their own names.
func filesOf(component, folder string, names ...string) []Placed {
	var list []Placed
	for _, name := range names {
		list = append(list, Placed{FileOf{component, name}, path.Join(folder, name)})
	}
	return list
}
