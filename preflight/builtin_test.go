package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/preflight"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// goodHost passes every check of goodNeeds.
func goodHost() preflight.Host {
	return preflight.Host{
		Root: fstest.MapFS{
			"proc/meminfo":                           file("MemTotal:        8000000 kB\nMemBytes: 1 kB\n"),
			"proc/swaps":                             file("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
			"sys/fs/cgroup/cgroup.controllers":       file("cpuset cpu io memory hugetlb pids rdma misc\n"),
			"proc/sys/kernel/osrelease":              file("6.1.0-18-amd64\n"),
			"lib/modules/6.1.0-18-amd64/modules.dep": file("kernel/fs/overlayfs/overlay.ko:\nkernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge/bridge.ko.xz\n"),
			"etc/resolv.conf":                        file("nameserver 10.0.0.53\n"),
		},
		UID: 0, Platform: "linux/amd64", Target: "debian-12", Hostname: "node-1.example.com", CPUs: 4,
		Now: func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) },
		Disk: func(string) (diskspace.Space, error) {
			return diskspace.Space{Device: 1, Bytes: 50e9}, nil
		},
		PortError:   func(context.Context, int) error { return nil },
		Dial:        func(context.Context, string) error { return nil },
		ClockSynced: func() (bool, error) { return true, nil },
	}
}

func goodNeeds() preflight.Needs {
	return preflight.Needs{
		Platforms: []string{"linux/amd64"}, Targets: []string{"debian-12", "debian-13"}, Role: preflight.ControlPlane, Ports: preflight.ControlPlanePorts(),
		Space: []preflight.Space{{Path: "/var/lib/containerd", Bytes: 3e9}},
	}
}

// with sets a file of the host, or removes it when text is "".
func with(h *preflight.Host, name, text string) {
	root := h.Root.(fstest.MapFS)
	delete(root, name)
	if text != "" {
		root[name] = file(text)
	}
}

const v1Cgroups = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t1\t1\t1\ncpu\t2\t1\t1\ncpuacct\t2\t1\t1\nmemory\t3\t1\t%d\n" +
	"devices\t4\t1\t1\nfreezer\t5\t1\t1\npids\t6\t1\t1\n"

func TestBuiltin(t *testing.T) {
	type change func(h *preflight.Host, n *preflight.Needs)
	pass := func(check, message string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Pass, Message: message}
	}
	warn := func(check, message, hint string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Warn, Message: message, Hint: hint}
	}
	final := func(check, message, hint string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Fail, Message: message, Hint: hint, Final: true}
	}
	fail := func(check, message, hint string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Fail, Message: message, Hint: hint}
	}
	const rename, unreadable = "set another with hostnamectl set-hostname NAME", "find out why it cannot be read"
	const open = "open TCP 6443, 6445, 2379, 2380, 10250, 10257, 10259 and the ports of the pod network (flannel: UDP 8472) between the nodes, and allow the pod network; " +
		"then set firewalldConfig.bypassFirewalldWarning or ufwConfig.bypassUFWWarning"
	tests := map[string]struct {
		change change
		want   []preflight.Result
	}{
		"root": {nil, []preflight.Result{pass("root", "running as root")}},
		"a kernel in FIPS mode, for a program in it": {func(h *preflight.Host, _ *preflight.Needs) {
			h.FIPS = true
			with(h, "proc/sys/crypto/fips_enabled", "1\n")
		}, []preflight.Result{pass("FIPS mode", "on")}},
		"a kernel that is not in FIPS mode": {func(h *preflight.Host, _ *preflight.Needs) { h.FIPS = true },
			[]preflight.Result{warn("FIPS mode", "sealift works in FIPS mode, and the kernel does not", "boot it with fips=1")}},
		"an ordinary user": {func(h *preflight.Host, _ *preflight.Needs) { h.UID = 1000 },
			[]preflight.Result{final("root", "running as user 1000; an install changes packages and services", "run the command with sudo")}},

		"the bundle's architecture": {nil, []preflight.Result{pass("architecture", "linux/amd64")}},
		"another architecture": {func(h *preflight.Host, _ *preflight.Needs) { h.Platform = "linux/arm64" },
			[]preflight.Result{final("architecture", "this host is linux/arm64; the bundle is for linux/amd64", "build the bundle with --platform linux/arm64")}},
		"no architecture asked for": {func(_ *preflight.Host, n *preflight.Needs) { n.Platforms = nil },
			[]preflight.Result{pass("architecture", "linux/amd64")}},

		"an operating system of the bundle": {nil, []preflight.Result{pass("operating system", "debian-12")}},
		"an operating system without packages": {func(h *preflight.Host, _ *preflight.Needs) { h.Target = "rhel-9" },
			[]preflight.Result{fail("operating system", "the bundle has no host packages for rhel-9, only for debian-12, debian-13", "build the packages with --target rhel-9")}},
		"an operating system that is not a target": {func(h *preflight.Host, _ *preflight.Needs) { h.Target = "linuxmint-22" },
			[]preflight.Result{fail("operating system", "the bundle has no host packages for linuxmint-22, only for debian-12, debian-13",
				"Sealift has no target linuxmint-22: use one of these hosts, or define the target in sealift.yaml and build the packages with it")}},
		"a bundle without host packages": {func(h *preflight.Host, n *preflight.Needs) { h.Target, n.Targets = "rhel-9", nil },
			[]preflight.Result{pass("operating system", "rhel-9")}},

		"a good hostname": {nil, []preflight.Result{pass("hostname", "node-1.example.com")}},
		"a hostname in capitals, which kubeadm lowers": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "Node1" },
			[]preflight.Result{pass("hostname", "node1")}},
		"a hostname with an underscore": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "node_1" },
			[]preflight.Result{fail("hostname", `hostname "node_1" cannot be a node name: use letters, digits and '-' (RFC 1123)`, rename)}},
		"a hostname of 64 characters, which Linux allows": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = strings.Repeat("n", 64) },
			[]preflight.Result{fail("hostname", `hostname "`+strings.Repeat("n", 64)+`" has 64 characters; a node name has at most 63`, rename)}},
		"a hostname of 64 characters with a domain": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = strings.Repeat("n", 52) + ".example.com" },
			[]preflight.Result{fail("hostname", `hostname "`+strings.Repeat("n", 52)+`.example.com" has 64 characters; a node name has at most 63`, rename)}},
		"a hostname of 63 characters": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = strings.Repeat("N", 63) },
			[]preflight.Result{pass("hostname", strings.Repeat("n", 63))}},
		"no hostname": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "" },
			[]preflight.Result{fail("hostname", `hostname "" cannot be a node name: use letters, digits and '-' (RFC 1123)`, rename)}},
		"the hostname of IPv6's loopback": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "localhost6.localdomain6" },
			[]preflight.Result{fail("hostname", `hostname "localhost6.localdomain6" is not unique; each node needs its own name`, rename)}},
		"a hostname that ends in a dot": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "node." },
			[]preflight.Result{fail("hostname", `hostname "node." cannot be a node name: use letters, digits and '-' (RFC 1123)`, rename)}},
		"localhost": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "localhost.localdomain" },
			[]preflight.Result{fail("hostname", `hostname "localhost.localdomain" is not unique; each node needs its own name`, rename)}},

		"cgroup v2": {nil, []preflight.Result{pass("cgroups", "v2")}},
		"cgroup v2 without memory": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
		},
			[]preflight.Result{fail("cgroups", "cgroup v2 lacks the controllers memory, pids", "boot a kernel that enables them (cgroup_enable=…)")}},
		"cgroup v1": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/cgroup.controllers", "")
			with(h, "proc/cgroups", fmt.Sprintf(v1Cgroups, 1))
		}, []preflight.Result{warn("cgroups", "cgroup v1; Kubernetes is dropping support for it", "boot with systemd.unified_cgroup_hierarchy=1 if you can")}},
		"cgroup v1 with memory switched off": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/cgroup.controllers", "")
			with(h, "proc/cgroups", fmt.Sprintf(v1Cgroups, 0))
		}, []preflight.Result{fail("cgroups", "cgroup v1 lacks the controllers memory", "boot a kernel that enables them (cgroup_enable=…)")}},
		"no cgroups to be seen": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "sys/fs/cgroup/cgroup.controllers", "") },
			[]preflight.Result{warn("cgroups", "cannot tell: open proc/cgroups: file does not exist", unreadable)}},

		"enough CPUs": {nil, []preflight.Result{pass("cpu", "4")}},
		"one CPU": {func(h *preflight.Host, _ *preflight.Needs) { h.CPUs = 1 },
			[]preflight.Result{fail("cpu", "1 CPU; a control plane needs at least 2", "add CPUs, or make the host a worker")}},
		"one CPU for a worker": {func(h *preflight.Host, n *preflight.Needs) { h.CPUs, n.Role = 1, preflight.Worker },
			[]preflight.Result{pass("cpu", "1")}},

		"enough memory": {nil, []preflight.Result{pass("memory", "7812 MiB")}},
		"memory for a control plane and nothing else": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/meminfo", "MemTotal: 1740800 kB\n") },
			[]preflight.Result{warn("memory", "1700 MiB; a control plane uses most of it", "add memory before you run workloads here")}},
		"too little memory": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/meminfo", "MemTotal: 1740799 kB\n") },
			[]preflight.Result{fail("memory", "1699 MiB; a control plane needs at least 1700", "add memory, or make the host a worker")}},
		"little memory for a worker": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "proc/meminfo", "MemTotal: 1024000 kB\n")
			n.Role = preflight.Worker
		}, []preflight.Result{pass("memory", "1000 MiB")}},
		"memory that is not told": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/meminfo", "MemBytes: 1 kB\n") },
			[]preflight.Result{warn("memory", "cannot tell: /proc/meminfo has no MemTotal", unreadable)}},

		"swap off":              {nil, []preflight.Result{pass("swap", "off")}},
		"a kernel without swap": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/swaps", "") }, []preflight.Result{pass("swap", "off")}},
		"swap on": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap.img file 1 0 -3\n")
		}, []preflight.Result{warn("swap", "swap is on (/dev/sda2, /swap.img); memory limits of pods will not hold", "turn it off with swapoff -a, and remove it from /etc/fstab")}},

		"swap that nothing in fstab turns on": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "proc/swaps", "Filename Type Size Used Priority\n/dev/vda3 partition 1 0 -2\n")
			with(h, "etc/fstab", "# /dev/vda3 none swap sw 0 0\nUUID=1 / ext4 defaults 0 1\n")
		}, []preflight.Result{warn("swap", "swap is on (/dev/vda3); memory limits of pods will not hold",
			"turn it off with swapoff -a, and mask the units that 'systemctl list-units --type swap' lists, which systemd makes for swap partitions")}},
		"swap in memory": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100\n")
		}, []preflight.Result{warn("swap", "swap is on (/dev/zram0); memory limits of pods will not hold",
			"turn it off with swapoff -a, and uninstall what sets up zram at boot (zram-generator, zram-tools or zramswap)")}},
		"swap in memory and on a disk": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100\n/dev/vda3 partition 1 0 -2\n")
			with(h, "etc/fstab", "/dev/vda3\tnone\tswap\tsw\t0\t0\n")
		}, []preflight.Result{warn("swap", "swap is on (/dev/zram0, /dev/vda3); memory limits of pods will not hold",
			"turn it off with swapoff -a, and uninstall what sets up zram at boot (zram-generator, zram-tools or zramswap), and remove it from /etc/fstab")}},

		"a sane clock": {nil, []preflight.Result{pass("clock", "2026-11-20T12:00:00Z")}},
		"a clock that lost its battery": {func(h *preflight.Host, _ *preflight.Needs) { h.Now = func() time.Time { return time.Unix(0, 0) } },
			[]preflight.Result{warn("clock", "the clock says 1970-01-01; other machines would reject certificates made now", "set the clock, for instance with timedatectl set-time")}},

		"a clock that began when systemd was built": {func(_ *preflight.Host, n *preflight.Needs) {
			n.Written = time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
		},
			[]preflight.Result{warn("clock", "the clock says 2026-11-20, and the bundle was written on 2026-11-21; other machines would reject certificates made now", "set the clock, for instance with timedatectl set-time")}},
		"a bundle on a disk with local times": {func(_ *preflight.Host, n *preflight.Needs) { n.Written = time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC) },
			[]preflight.Result{pass("clock", "2026-11-20T12:00:00Z")}},
		"a clock that is years ahead of the bundle": {func(h *preflight.Host, n *preflight.Needs) {
			n.Written = h.Now()
			h.Now = func() time.Time { return time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC) }
		}, []preflight.Result{warn("clock", "the clock says 2031-05-01, and the bundle was written on 2026-11-20; if the clock is wrong, other machines would reject certificates made now",
			"set the clock, for instance with timedatectl set-time, or use a newer bundle")}},

		"a disk that nobody writes to": {func(h *preflight.Host, n *preflight.Needs) {
			h.Disk = func(path string) (diskspace.Space, error) {
				return diskspace.Space{Device: uint64(len(path)), Bytes: 30e9, ReadOnly: path != "/c"}, nil
			}
			n.Space = []preflight.Space{{Path: "/c", Bytes: 1e9}, {Path: "/var", Bytes: 1e9}, {Path: "/nothing"}}
		}, []preflight.Result{pass("disk", "/c: 953.7 MiB needed, 27.9 GiB free"),
			fail("disk", "/var: on a file system that is mounted read-only", "mount it for writing, for instance with 'mount -o remount,rw'"),
			pass("disk", "/nothing: 0 B needed, 27.9 GiB free")}},
		"enough space": {nil, []preflight.Result{pass("disk", "/var/lib/containerd: 2.8 GiB needed, 46.6 GiB free")}},
		"paths that share a file system and together need too much": {func(_ *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/a", Bytes: 30e9}, {Path: "/b", Bytes: 30e9}}
		}, []preflight.Result{fail("disk", "/a, /b: 55.9 GiB needed, 46.6 GiB free", "free 9.3 GiB, or mount a larger disk there")}},
		"paths on file systems of their own": {func(h *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/a", Bytes: 30e9}, {Path: "/b", Bytes: 999}}
			h.Disk = func(path string) (diskspace.Space, error) {
				return map[string]diskspace.Space{"/a": {Device: 1, Bytes: 30e9}, "/b": {Device: 2, Bytes: 998}}[path], nil
			}
		}, []preflight.Result{pass("disk", "/a: 27.9 GiB needed, 27.9 GiB free"), fail("disk", "/b: 999 B needed, 998 B free", "free 1 B, or mount a larger disk there")}},
		"one device, of which a part is mounted read-only": {func(h *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/usr", Bytes: 1e9}, {Path: "/var", Bytes: 2e9}}
			h.Disk = func(path string) (diskspace.Space, error) {
				return diskspace.Space{Device: 1, Bytes: 50e9, ReadOnly: path == "/usr"}, nil
			}
		}, []preflight.Result{fail("disk", "/usr: on a file system that is mounted read-only", "mount it for writing, for instance with 'mount -o remount,rw'"), pass("disk", "/var: 1.9 GiB needed, 46.6 GiB free")}},
		"a disk from which no programs run": {func(h *preflight.Host, _ *preflight.Needs) {
			h.Disk = func(path string) (diskspace.Space, error) {
				return diskspace.Space{Device: 1, Bytes: 50e9, NoExec: strings.HasPrefix(path, "/var/lib/sealift") || path == "/var/lib/containerd"}, nil
			}
		}, []preflight.Result{fail("disk", "/var/lib/sealift: on a file system that is mounted with noexec, and programs run from there",
			"mount it without that option, for instance with 'mount -o remount,exec'; change it in /etc/fstab, too"), pass("disk", "/var/lib/containerd: 2.8 GiB needed, 46.6 GiB free")}},
		"a disk without inodes": {func(h *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/a", Bytes: 1, Files: 600}, {Path: "/b", Bytes: 1, Files: 500}}
			h.Disk = func(string) (diskspace.Space, error) {
				return diskspace.Space{Device: 1, Bytes: 50e9, AllInodes: 2000, Inodes: 1000}, nil
			}
		}, []preflight.Result{fail("disk", "/a, /b: 1100 inodes needed, 1000 free", "remove small files that nobody needs, or mount a file system with more inodes there; df -i shows them")}},
		"a disk that counts no inodes, as btrfs": {func(h *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/a", Bytes: 1e9, Files: 600}}
			h.Disk = func(string) (diskspace.Space, error) { return diskspace.Space{Device: 1, Bytes: 50e9}, nil }
		}, []preflight.Result{pass("disk", "/a: 953.7 MiB needed, 46.6 GiB free")}},
		"a disk that does not answer": {func(h *preflight.Host, _ *preflight.Needs) {
			h.Disk = func(string) (diskspace.Space, error) { return diskspace.Space{}, errors.New("stale handle") }
		}, []preflight.Result{warn("disk", "cannot tell: stale handle", unreadable)}},

		"not a node of any cluster": {nil, []preflight.Result{pass("other cluster", "not a node of any cluster")}},
		"a node of another cluster": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/kubernetes/kubelet.conf", "clusters:\n- cluster:\n    server: https://10.0.0.1:6443\n")
		}, []preflight.Result{fail("other cluster", "this host is a node of the cluster at https://10.0.0.1:6443 (/etc/kubernetes/kubelet.conf)",
			"if sealift made that cluster, the journal is lost: restore it from a backup; to delete the cluster and its data: kubeadm reset, and ip link delete cni0")}},
		"a node of a cluster of another distribution": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "var/lib/rancher/k3s/agent/x", "x") },
			[]preflight.Result{fail("other cluster", "another Kubernetes distribution is installed (/var/lib/rancher/k3s/agent)", "uninstall it first")}},
		"a node of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "etc/kubernetes/kubelet.conf", "server: x")
			n.Resumed = true
		}, []preflight.Result{pass("other cluster", "a node of this cluster")}},

		"nothing left over": {nil, []preflight.Result{pass("leftovers", "no files of an earlier cluster")}},
		"keys left over": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/kubernetes/pki/ca.crt", "x")
		}, []preflight.Result{fail("leftovers", "an earlier cluster left /etc/kubernetes/pki/ca.crt",
			"if you do not need them, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes")}},
		"leftovers": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/kubernetes/manifests/etcd.yaml", "x")
			with(h, "etc/kubernetes/manifests/.kubelet-keep", "x")
			with(h, "var/lib/etcd/member/wal/0.wal", "x")
		}, []preflight.Result{fail("leftovers", "an earlier cluster left /etc/kubernetes/manifests/etcd.yaml, /var/lib/etcd/member/wal",
			"if you do not need them, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes")}},
		"leftovers of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "etc/kubernetes/manifests/etcd.yaml", "x")
			n.Resumed = true
		}, []preflight.Result{pass("leftovers", "not checked: they belong to this cluster")}},

		"free ports": {nil, []preflight.Result{pass("ports", "free: 6443, 6444, 6445, 2379, 2380, 2381, 10248, 10250, 10257, 10259")}},
		"ports in use": {func(h *preflight.Host, _ *preflight.Needs) {
			h.PortError = func(_ context.Context, port int) error {
				if port == 6443 || port == 10250 {
					return &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}
				}
				return nil
			}
		}, []preflight.Result{
			fail("ports", "port 6443 is in use", "stop the program that listens there; ss -ltnp 'sport = :6443' shows it"),
			fail("ports", "port 10250 is in use", "stop the program that listens there; ss -ltnp 'sport = :10250' shows it")}},
		"a port that may not be tried": {func(h *preflight.Host, n *preflight.Needs) {
			n.Ports = []int{10250}
			h.PortError = func(context.Context, int) error { return fs.ErrPermission }
		}, []preflight.Result{warn("ports", "cannot tell: port 10250: permission denied", unreadable)}},
		"no ports needed": {func(_ *preflight.Host, n *preflight.Needs) { n.Ports = nil }, []preflight.Result{pass("ports", "none are needed")}},
		"ports of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			n.Resumed = true
			h.PortError = func(context.Context, int) error { return syscall.EADDRINUSE }
		}, []preflight.Result{pass("ports", "not checked: the cluster on this host may use them")}},

		"modules that can be loaded, packed or not": {nil, []preflight.Result{pass("kernel modules", "overlay can be loaded"), pass("kernel modules", "br_netfilter can be loaded")}},
		"modules that are there": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "proc/filesystems", "nodev\toverlay\n\text4\n")
			with(h, "sys/module/br_netfilter/initstate", "live\n")
		}, []preflight.Result{pass("kernel modules", "overlay is there"), pass("kernel modules", "br_netfilter is there")}},
		"a kernel without one": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "lib/modules/6.1.0-18-amd64/modules.dep", "kernel/fs/overlayfs/overlay.ko:\n")
		}, []preflight.Result{pass("kernel modules", "overlay can be loaded"), fail("kernel modules", "the kernel has no module br_netfilter; pods cannot reach Services without it",
			"install the package with the kernel's modules, such as linux-modules-extra or kernel-modules-extra")}},
		"a container, which does not see the kernel's files": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "lib/modules/6.1.0-18-amd64/modules.dep", "")
			with(h, "proc/filesystems", "nodev\toverlay\n")
		}, []preflight.Result{pass("kernel modules", "overlay is there"), warn("kernel modules", "cannot tell whether the kernel has br_netfilter: /lib/modules has no modules of this kernel; pods cannot reach Services without it",
			"check whether modprobe br_netfilter works on the machine")}},

		"a clock that is kept": {nil, []preflight.Result{pass("time synchronisation", "the clock is synchronised")}},
		"a clock that nothing keeps": {func(h *preflight.Host, _ *preflight.Needs) {
			h.ClockSynced = func() (bool, error) { return false, nil }
		},
			[]preflight.Result{warn("time synchronisation", "the clock is not synchronised; nodes with different clocks reject each other's certificates",
				"synchronise all nodes with one time server, with chrony or systemd-timesyncd; a single node does not need it")}},

		"a name server": {nil, []preflight.Result{pass("name servers", "10.0.0.53")}},
		"no name server, as behind an air gap": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "etc/resolv.conf", "search example.com\n") },
			[]preflight.Result{pass("name servers", "none")}},
		"no resolv.conf": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "etc/resolv.conf", "") },
			[]preflight.Result{warn("name servers", "there is no /etc/resolv.conf; the kubelet needs it for pods", "create one; it may be empty if there is no name server")}},
		"a name server on loopback": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "etc/resolv.conf", "nameserver 127.0.0.1\n") },
			[]preflight.Result{warn("name servers", "the name server 127.0.0.1 is a loopback address; in a pod it means the pod, and CoreDNS would query itself forever",
				"put the upstream name servers into /etc/resolv.conf")}},
		"systemd-resolved, whose servers the kubelet knows": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/resolv.conf", "nameserver 127.0.0.53\n")
			with(h, "run/systemd/resolve/resolv.conf", "nameserver 10.0.0.53\n")
		}, []preflight.Result{pass("name servers", "127.0.0.53")}},

		"no SELinux": {nil, []preflight.Result{pass("selinux", "off")}},
		"SELinux that only tells": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "sys/fs/selinux/enforce", "0") },
			[]preflight.Result{pass("selinux", "permissive")}},
		"SELinux that enforces": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "sys/fs/selinux/enforce", "1") },
			[]preflight.Result{warn("selinux", "enforcing; it may deny pods access to files of the host",
				"install container-selinux, or set selinuxConfig in the Installer; 'ausearch -m avc' lists what was denied")}},
		"SELinux that the Installer sees to": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "sys/fs/selinux/enforce", "1")
			n.SELinux = preflight.HandlingDone
		}, []preflight.Result{pass("selinux", "enforcing; the Installer handles it")}},

		"no firewall": {nil, []preflight.Result{pass("firewall", "neither firewalld nor ufw is active")}},
		"ufw that is switched off": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/ufw/ufw.conf", "# ENABLED=yes\nENABLED=no\n")
		},
			[]preflight.Result{pass("firewall", "neither firewalld nor ufw is active")}},
		"ufw": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "etc/ufw/ufw.conf", "# ufw\nENABLED=yes\n") },
			[]preflight.Result{warn("firewall", "ufw is active; it may block traffic between nodes and pods", open)}},
		"firewalld, which the Installer does not want": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "sys/fs/cgroup/system.slice/firewalld.service/cgroup.procs", "1\n")
			n.Firewall = preflight.HandlingRefused
		}, []preflight.Result{fail("firewall", "firewalld is active, and the Installer requires it to be off", open)}},
		"firewalld that the Installer sees to, with cgroup v1": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "sys/fs/cgroup/systemd/system.slice/firewalld.service/cgroup.procs", "1\n")
			n.Firewall = preflight.HandlingDone
		}, []preflight.Result{pass("firewall", "firewalld; the install allows the cluster's traffic, unless the Installer forbids it")}},

		"no containers of others": {nil, []preflight.Result{pass("container runtime", "no other container runtime")}},
		"Docker": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/system.slice/docker.service/cgroup.procs", "1\n")
		}, []preflight.Result{warn("container runtime", "Docker runs on this host; Kubernetes does not use it",
			"move its workloads to the cluster, then uninstall it; until then Docker and the pod network share one table of firewall rules")}},
		"containerd that somebody else has set up": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "etc/containerd/config.toml", "version = 2\n") },
			[]preflight.Result{warn("container runtime", "containerd is already installed; the install will replace /etc/containerd/config.toml", "keep a copy of your settings")}},
		"containerd of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "etc/containerd/config.toml", "version = 2\n")
			n.Resumed = true
		}, []preflight.Result{pass("container runtime", "not checked")}},

		"other nodes that answer": {func(_ *preflight.Host, n *preflight.Needs) { n.Reach = []string{"10.0.0.1:6443"} },
			[]preflight.Result{pass("other nodes", "10.0.0.1:6443 answers")}},
		"another node behind a firewall": {func(h *preflight.Host, n *preflight.Needs) {
			n.Reach = []string{"10.0.0.1:6443", "10.0.0.1:2379"}
			h.Dial = func(_ context.Context, address string) error {
				if address == "10.0.0.1:2379" {
					return syscall.ETIMEDOUT
				}
				return nil
			}
		}, []preflight.Result{pass("other nodes", "10.0.0.1:6443 answers"), fail("other nodes", "cannot connect to 10.0.0.1:2379: connection timed out",
			"check that the node runs, and that no firewall blocks TCP between the two")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			host, needs := goodHost(), goodNeeds()
			if test.change != nil {
				test.change(&host, &needs)
			}
			report, err := preflight.Run(t.Context(), preflight.Builtin(host, needs))
			if err != nil {
				t.Fatal(err)
			}
			var got []preflight.Result
			for _, result := range report.Results {
				if result.Check == test.want[0].Check {
					got = append(got, result)
				} else if result.Status != preflight.Pass {
					t.Errorf("another check complains: %+v", result)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
