package commands

import (
	"slices"
	"strings"

	"github.com/sealift/sealift/manifest"
)

// basePrograms are the programs of a bare host on every supported system, and bash's builtins.
const basePrograms = `
	. : [ alias bg bind break builtin caller cd command compgen complete continue declare dirs disown echo enable eval exec exit export
	false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set
	shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait

	arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd df dir dircolors dirname
	du env expand expr factor fmt fold groups head hostid id install join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl
	nohup nproc numfmt od paste pathchk pinky pr printenv ptx readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum
	sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee timeout touch tr truncate tsort tty uname unexpand uniq
	unlink users vdir wc who whoami yes

	awk bash cmp diff diff3 egrep fgrep find getent gunzip gzip grep hostname iconv ldconfig ldd locale login mount nsenter sed sdiff sh
	su tar umount unshare xargs zcat zgrep

	blkid blockdev chrt dmesg fallocate findfs findmnt flock fsck fsfreeze getopt hwclock ionice ipcrm ipcs kill logger losetup lsblk
	lscpu lsipc lsns mkfs mkswap mountpoint partx pivot_root prlimit renice rev script setpriv setsid swapoff swapon switch_root taskset
	wipefs

	addgroup adduser chage chpasswd groupadd groupdel groupmod nologin passwd useradd userdel usermod
	free pgrep pidof pkill ps pmap slabtop sysctl top uptime vmstat watch
	busctl hostnamectl journalctl localectl loginctl networkctl systemctl systemd-analyze systemd-cat systemd-run systemd-tmpfiles
	timedatectl udevadm
`

// packageManagers exist on the systems of their family. Hooks use them to distinguish the families. docker is here because
// kURL's add-ons migrate away from it.
const packageManagers = `apt apt-cache apt-get apt-mark dpkg dpkg-query dnf rpm yum yum-config-manager docker`

// clusterPrograms come with Kubernetes and its container runtime, and with the packages that they need on every node.
const clusterPrograms = `
	containerd ctr kubeadm kubectl kubelet runc
	conntrack ethtool ip bridge ss tc ip6tables ip6tables-restore ip6tables-save iptables iptables-restore iptables-save
	depmod insmod lsmod modinfo modprobe rmmod socat
`

// Package is an operating system package whose programs have other names.
type Package struct {
	Apt, Dnf string // its name in each family, "" for a program that its project publishes as a file
	programs string
}

func packages() []Package {
	return []Package{
		{"", "", "crictl kustomize"},
		{"debianutils", "which", "which"},
		{"e2fsprogs", "e2fsprogs", "mkfs.ext4"},
		{"lvm2", "lvm2", "lvs vgs pvs lvcreate vgcreate pvcreate vgchange lvm"},
		{"nfs-common", "nfs-utils", "mount.nfs showmount nfsstat"},
		{"open-iscsi", "iscsi-initiator-utils", "iscsiadm"},
		{"pciutils", "pciutils", "lspci"},
		{"procps", "procps-ng", "ps"},
		{"util-linux", "util-linux", "lsblk"},
		{"xfsprogs", "xfsprogs", "xfs_info mkfs.xfs"},
	}
}

// PackageOf returns the package with a program. Most packages have the name of their program.
func PackageOf(program string) Package {
	for _, p := range packages() {
		if slices.Contains(strings.Fields(p.programs), program) {
			return p
		}
	}
	return Package{Apt: program, Dnf: program, programs: program}
}

// Brought reports whether a host package or an asset of the add-on brings a program.
func Brought(program string, packages []manifest.HostPackage, assets []manifest.Asset) bool {
	from := PackageOf(program)
	return slices.ContainsFunc(packages, func(p manifest.HostPackage) bool {
		return slices.Contains([]string{program, from.Apt, from.Dnf}, p.Name)
	}) || slices.ContainsFunc(assets, func(a manifest.Asset) bool {
		stem, _, _ := strings.Cut(a.Name, ".")
		return stem == program
	})
}

// Known returns the programs and builtins that hooks find on every node without help from add-ons.
func Known() []string {
	return strings.Fields(basePrograms + " " + packageManagers + " " + clusterPrograms)
}
