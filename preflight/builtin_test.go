package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/preflight"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// goodHost passes every check of goodNeeds.
func goodHost() preflight.Host {
	return preflight.Host{
		Root: fstest.MapFS{
			"proc/meminfo":                     file("MemTotal:        8000000 kB\nMemFree: 1 kB\n"),
			"proc/swaps":                       file("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
			"sys/fs/cgroup/cgroup.controllers": file("cpuset cpu io memory hugetlb pids rdma misc\n"),
		},
		UID: 0, Platform: "linux/amd64", Target: "debian-12", Hostname: "node-1.example.com", CPUs: 4,
		Now:       func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) },
		Disk:      func(string) (preflight.Filesystem, error) { return preflight.Filesystem{ID: 1, Free: 50e9}, nil },
		PortError: func(context.Context, int) error { return nil },
	}
}

func goodNeeds() preflight.Needs {
	return preflight.Needs{
		Platforms: []string{"linux/amd64"}, Targets: []string{"debian-12", "debian-13"}, Ports: preflight.ControlPlanePorts(),
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
	fail := func(check, message, hint string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Fail, Message: message, Hint: hint}
	}
	const rename, unreadable = "set another with hostnamectl set-hostname NAME", "see why it cannot be read"
	tests := map[string]struct {
		change change
		want   []preflight.Result
	}{
		"root": {nil, []preflight.Result{pass("root", "running as root")}},
		"an ordinary user": {func(h *preflight.Host, _ *preflight.Needs) { h.UID = 1000 },
			[]preflight.Result{fail("root", "running as user 1000; an install changes packages and services", "run the command with sudo")}},

		"the bundle's architecture": {nil, []preflight.Result{pass("architecture", "linux/amd64")}},
		"another architecture": {func(h *preflight.Host, _ *preflight.Needs) { h.Platform = "linux/arm64" },
			[]preflight.Result{fail("architecture", "this host is linux/arm64; the bundle is for linux/amd64", "build the bundle with --platform linux/arm64")}},
		"no architecture asked for": {func(_ *preflight.Host, n *preflight.Needs) { n.Platforms = nil },
			[]preflight.Result{pass("architecture", "linux/amd64")}},

		"an operating system of the bundle": {nil, []preflight.Result{pass("operating system", "debian-12")}},
		"an operating system without packages": {func(h *preflight.Host, _ *preflight.Needs) { h.Target = "rhel-9" },
			[]preflight.Result{fail("operating system", "the bundle has no host packages for rhel-9, only for debian-12, debian-13", "build the packages with --target rhel-9")}},
		"a bundle without host packages": {func(h *preflight.Host, n *preflight.Needs) { h.Target, n.Targets = "rhel-9", nil },
			[]preflight.Result{pass("operating system", "rhel-9")}},

		"a good hostname": {nil, []preflight.Result{pass("hostname", "node-1.example.com")}},
		"a hostname in capitals, which kubeadm lowers": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "Node1" },
			[]preflight.Result{pass("hostname", "node1")}},
		"a hostname with an underscore": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "node_1" },
			[]preflight.Result{fail("hostname", `hostname "node_1" cannot name a node: it must be letters, digits and '-' (RFC 1123)`, rename)}},
		"a hostname that ends in a dot": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "node." },
			[]preflight.Result{fail("hostname", `hostname "node." cannot name a node: it must be letters, digits and '-' (RFC 1123)`, rename)}},
		"localhost": {func(h *preflight.Host, _ *preflight.Needs) { h.Hostname = "localhost.localdomain" },
			[]preflight.Result{fail("hostname", `hostname "localhost.localdomain" is what every host is called; nodes need names of their own`, rename)}},

		"cgroup v2": {nil, []preflight.Result{pass("cgroups", "v2")}},
		"cgroup v2 without memory": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
		},
			[]preflight.Result{fail("cgroups", "cgroup v2 lacks the controllers memory, pids", "boot a kernel with them switched on (cgroup_enable=…)")}},
		"cgroup v1": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/cgroup.controllers", "")
			with(h, "proc/cgroups", fmt.Sprintf(v1Cgroups, 1))
		}, []preflight.Result{warn("cgroups", "cgroup v1; Kubernetes is about to drop it", "boot with systemd.unified_cgroup_hierarchy=1 where that is possible")}},
		"cgroup v1 with memory switched off": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "sys/fs/cgroup/cgroup.controllers", "")
			with(h, "proc/cgroups", fmt.Sprintf(v1Cgroups, 0))
		}, []preflight.Result{fail("cgroups", "cgroup v1 lacks the controllers memory", "boot a kernel with them switched on (cgroup_enable=…)")}},
		"no cgroups to be seen": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "sys/fs/cgroup/cgroup.controllers", "") },
			[]preflight.Result{warn("cgroups", "cannot tell: open proc/cgroups: file does not exist", unreadable)}},

		"enough CPUs": {nil, []preflight.Result{pass("cpu", "4 CPUs")}},
		"one CPU": {func(h *preflight.Host, _ *preflight.Needs) { h.CPUs = 1 },
			[]preflight.Result{warn("cpu", "1 CPU; a control plane wants 2", "give the host more")}},

		"enough memory": {nil, []preflight.Result{pass("memory", "7812 MiB")}},
		"exactly enough memory": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/meminfo", "MemTotal: 1740800 kB\n") },
			[]preflight.Result{pass("memory", "1700 MiB")}},
		"too little memory": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/meminfo", "MemTotal: 1740799 kB\n") },
			[]preflight.Result{warn("memory", "1699 MiB of memory; a control plane wants 1700", "give the host more")}},
		"memory that is not told": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/meminfo", "MemFree: 1 kB\n") },
			[]preflight.Result{warn("memory", "cannot tell: /proc/meminfo has no MemTotal", unreadable)}},

		"swap off":              {nil, []preflight.Result{pass("swap", "off")}},
		"a kernel without swap": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "proc/swaps", "") }, []preflight.Result{pass("swap", "off")}},
		"swap on": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap.img file 1 0 -3\n")
		}, []preflight.Result{warn("swap", "swap is on (/dev/sda2, /swap.img); memory limits of pods will not hold", "switch it off with swapoff -a and take it out of /etc/fstab")}},

		"a sane clock": {nil, []preflight.Result{pass("clock", "2026-11-20T12:00:00Z")}},
		"a clock that lost its battery": {func(h *preflight.Host, _ *preflight.Needs) { h.Now = func() time.Time { return time.Unix(0, 0) } },
			[]preflight.Result{warn("clock", "the clock says 1970-01-01; certificates made now would not be valid elsewhere", "set the clock, for instance with timedatectl set-time")}},

		"enough space": {nil, []preflight.Result{pass("disk", "/var/lib/containerd: 3.0 GB needed, 50.0 GB free")}},
		"paths that share a file system and together need too much": {func(_ *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/a", Bytes: 30e9}, {Path: "/b", Bytes: 30e9}}
		}, []preflight.Result{fail("disk", "/a, /b: 60.0 GB needed, 50.0 GB free", "free 10.0 GB, or mount a larger disk there")}},
		"paths on file systems of their own": {func(h *preflight.Host, n *preflight.Needs) {
			n.Space = []preflight.Space{{Path: "/a", Bytes: 30e9}, {Path: "/b", Bytes: 999}}
			h.Disk = func(path string) (preflight.Filesystem, error) {
				return map[string]preflight.Filesystem{"/a": {ID: 1, Free: 30e9}, "/b": {ID: 2, Free: 998}}[path], nil
			}
		}, []preflight.Result{pass("disk", "/a: 30.0 GB needed, 30.0 GB free"), fail("disk", "/b: 999 B needed, 998 B free", "free 1 B, or mount a larger disk there")}},
		"a disk that does not answer": {func(h *preflight.Host, _ *preflight.Needs) {
			h.Disk = func(string) (preflight.Filesystem, error) { return preflight.Filesystem{}, errors.New("stale handle") }
		}, []preflight.Result{warn("disk", "cannot tell: stale handle", unreadable)}},

		"a node of no cluster": {nil, []preflight.Result{pass("other cluster", "a node of no cluster")}},
		"a node of another cluster": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/kubernetes/kubelet.conf", "clusters:\n- cluster:\n    server: https://10.0.0.1:6443\n")
		}, []preflight.Result{fail("other cluster", "this host is a node of the cluster at https://10.0.0.1:6443 (/etc/kubernetes/kubelet.conf)",
			"if that is the cluster that sealift made here, its journal is lost: put it back from a backup; to give the cluster up with all that is in it: kubeadm reset, and ip link delete cni0")}},
		"a node of a cluster of another distribution": {func(h *preflight.Host, _ *preflight.Needs) { with(h, "var/lib/rancher/k3s/agent/x", "x") },
			[]preflight.Result{fail("other cluster", "another Kubernetes distribution is installed (/var/lib/rancher/k3s/agent)", "uninstall it first")}},
		"a node of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "etc/kubernetes/kubelet.conf", "server: x")
			n.Resumed = true
		}, []preflight.Result{pass("other cluster", "a node of this cluster")}},

		"nothing left over": {nil, []preflight.Result{pass("leftovers", "none of an earlier cluster")}},
		"keys left over": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/kubernetes/pki/ca.crt", "x")
		}, []preflight.Result{fail("leftovers", "an earlier cluster left /etc/kubernetes/pki/ca.crt",
			"if nothing in them is needed, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes")}},
		"leftovers": {func(h *preflight.Host, _ *preflight.Needs) {
			with(h, "etc/kubernetes/manifests/etcd.yaml", "x")
			with(h, "etc/kubernetes/manifests/.kubelet-keep", "x")
			with(h, "var/lib/etcd/member/wal/0.wal", "x")
		}, []preflight.Result{fail("leftovers", "an earlier cluster left /etc/kubernetes/manifests/etcd.yaml, /var/lib/etcd/member/wal",
			"if nothing in them is needed, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes")}},
		"leftovers of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			with(h, "etc/kubernetes/manifests/etcd.yaml", "x")
			n.Resumed = true
		}, []preflight.Result{pass("leftovers", "not looked at: they are this cluster's")}},

		"free ports": {nil, []preflight.Result{pass("ports", "free: 6443, 2379, 2380, 10250, 10257, 10259")}},
		"ports in use": {func(h *preflight.Host, _ *preflight.Needs) {
			h.PortError = func(_ context.Context, port int) error {
				if port == 6443 || port == 10250 {
					return &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}
				}
				return nil
			}
		}, []preflight.Result{
			fail("ports", "port 6443 is in use", "stop what listens there; ss -ltnp 'sport = :6443' names it"),
			fail("ports", "port 10250 is in use", "stop what listens there; ss -ltnp 'sport = :10250' names it")}},
		"a port that may not be tried": {func(h *preflight.Host, n *preflight.Needs) {
			n.Ports = preflight.WorkerPorts()
			h.PortError = func(context.Context, int) error { return fs.ErrPermission }
		}, []preflight.Result{warn("ports", "cannot tell: port 10250: permission denied", unreadable)}},
		"no ports needed": {func(_ *preflight.Host, n *preflight.Needs) { n.Ports = nil }, []preflight.Result{pass("ports", "none are needed")}},
		"ports of this cluster": {func(h *preflight.Host, n *preflight.Needs) {
			n.Resumed = true
			h.PortError = func(context.Context, int) error { return syscall.EADDRINUSE }
		}, []preflight.Result{pass("ports", "not looked at: the cluster on this host may use them")}},
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
