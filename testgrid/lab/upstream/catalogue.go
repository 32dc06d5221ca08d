package upstream

import (
	"cmp"
	"slices"

	"github.com/sealift/sealift/internal/releases"
)

// Releases lists the Kubernetes versions that the lab has, such as v1.36.3.
func Releases() []string {
	var list []string
	for _, r := range releases.Of("kubernetes", releases.Lab) {
		list = append(list, "v"+r.Version)
	}
	return list
}

// selected lists the versions of add-ons that the lab makes or serves: of each add-on the chosen ones, or what 'make test' makes of it if none
// is chosen. A choice is a Kubernetes version such as v1.36.3, or an add-on's folder such as containerd/2.4.2.
func selected(chosen []string) []releases.Release {
	isChosen := func(r releases.Release) bool {
		return slices.Contains(chosen, r.Name+"/"+r.Version) || r.Name == "kubernetes" && slices.Contains(chosen, "v"+r.Version)
	}
	return slices.DeleteFunc(releases.All(), func(r releases.Release) bool {
		if slices.ContainsFunc(releases.Of(r.Name, releases.Lab), isChosen) {
			return !isChosen(r)
		}
		return r.Use < releases.Tested
	})
}

// AddOns lists the versions of add-ons that the lab can make, such as containerd/2.4.2.
func AddOns() (list []string) {
	for _, r := range releases.All() {
		if r.Use != releases.Tool && len(programsOf(r)) > 0 {
			list = append(list, r.Name+"/"+r.Version)
		}
	}
	return list
}

// allReleases lists all versions, those that 'make test' makes first: releases may share a component, such as pause, and what is made every
// day must not depend on the other releases.
func allReleases() []releases.Release {
	list := releases.All()
	slices.SortStableFunc(list, func(a, b releases.Release) int {
		return cmp.Compare(min(b.Use, releases.Tested), min(a.Use, releases.Tested))
	})
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

// MachineDebian12ARM is the same for arm64.
const MachineDebian12ARM = MachineDebian12 + "-" + arm64

// current is the component of the version that the README and the demo install, or of a tool.
func current(name string) string { return name + "-v" + releases.Current(name).Version }

// Program is a program of the current releases: of Kubernetes and its etcd, of containerd, or a tool. The tools are registry, which is the
// registry itself; versitygw, an S3 server that keeps objects as files, to publish to; crane and oras, peers to be measured against;
// and oci-conformance, the tests of the OCI distribution protocol.
func Program(name string) FileOf {
	switch name {
	case "etcd", "etcdctl", "etcdutl":
		return FileOf{name + "-v" + etcdVersion(releases.Current("kubernetes")), name}
	case "containerd", "ctr":
		return FileOf{current("containerd"), name}
	case "registry":
		return FileOf{name + "-v" + releases.Current("distribution").Version, name}
	case "versitygw", "crane", "oras", "oci-conformance":
		return FileOf{current(name), name}
	}
	return FileOf{current("kubernetes"), name}
}

// Components lists everything that the lab can make.
func Components() []Component {
	all := allReleases()
	return slices.Concat(components(all, slices.Concat(ImagesOf(all...), KurlImages())), hostLayers(), machineComponents(), conformanceComponents(), peerComponents())
}

// Everyday lists the ids of the components that the lab makes by default.
func Everyday() []string {
	var ids []string
	for _, c := range components(selected(nil), Images()) {
		ids = append(ids, c.ID())
	}
	return ids
}

func components(addOns []releases.Release, images []Image) []Component {
	var list []Component
	for _, r := range addOns {
		list = append(list, programsOf(r)...)
	}
	list = slices.Concat(list, toolComponents(), systemComponents(), kurlComponents())
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

// hostPackages are the packages of a host: those of a minimal server, so that anything else that an add-on needs has to come from its
// package.
func hostPackages() []string { return []string{"systemd", "systemd-sysv", "dbus", "iproute2"} }

// machineDisk is the size of a virtual machine's disk in bytes, most of which is a hole.
const machineDisk = 24 << 30

func machineComponents() []Component {
	disk := SystemDisk{Suite: "bookworm", Packages: hostPackages(), Size: machineDisk}
	foreign := disk
	foreign.Arch = arm64
	return []Component{{Name: "machine-debian", Version: "12", Recipe: disk}, {Name: "machine-debian", Version: "12", Arch: arm64, Recipe: foreign}}
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
		{Name: "image-base-busybox", Version: busyboxVersion, Recipe: BusyboxLayer{
			Binary: FileOf{netBase, "busybox"}, Folders: []string{"etc", "root", "tmp", "usr"},
		}},
	}
}
