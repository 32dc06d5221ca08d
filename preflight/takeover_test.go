package preflight_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sealift/sealift/preflight"
)

const unit = "etc/systemd/system/containerd.service.d/10-site.conf"

// TestNodeTakeoverRisksAreFound has leftovers of other programs on hosts: flannel-io/flannel#1437 is a node whose pods had the
// addresses of 10-containerd-net.conflist. want is the check and its status, or "" if no check complains, then words of the answer.
func TestNodeTakeoverRisksAreFound(t *testing.T) {
	chains := func(names ...string) func(*preflight.Host) {
		return func(h *preflight.Host) { h.Chains = func(context.Context) []string { return names } }
	}
	for name, row := range map[string]struct {
		files map[string]string
		host  func(*preflight.Host)
		want  string
		words []string
	}{
		"containerd's own bridge":         {files: map[string]string{"etc/cni/net.d/10-containerd-net.conflist": "{}"}, want: "pod network: fail", words: []string{"/etc/cni/net.d/10-containerd-net.conflist", "mv /etc/cni/net.d/10-containerd-net.conflist /etc/cni/"}},
		"Calico's":                        {files: map[string]string{"etc/cni/net.d/10-calico.conflist": "{}", "etc/cni/net.d/calico-kubeconfig": "x"}, want: "pod network: fail", words: []string{"/etc/cni/net.d/10-calico.conflist:"}},
		"Cilium's":                        {files: map[string]string{"etc/cni/net.d/05-cilium.conflist": "{}"}, want: "pod network: fail"},
		"CRI-O's, which sorts later":      {files: map[string]string{"etc/cni/net.d/100-crio-bridge.conflist": "{}"}, want: "pod network: fail"},
		"podman's, and one that is JSON":  {files: map[string]string{"etc/cni/net.d/87-podman-bridge.conflist": "{}", "etc/cni/net.d/99-lo.json": "{}"}, want: "pod network: fail", words: []string{"87-podman-bridge.conflist, /etc/cni/net.d/99-lo.json"}},
		"an old one, of one plugin":       {files: map[string]string{"etc/cni/net.d/10-bridge.conf": "not JSON"}, want: "pod network: fail"},
		"our own, which kubeadm left":     {files: map[string]string{"etc/cni/net.d/10-flannel.conflist": "{}"}},
		"some that are switched off":      {files: map[string]string{"etc/cni/net.d/05-cilium.conflist.bak": "{}", "etc/cni/net.d/whereabouts.d/x.conf": "{}"}},
		"k3s before its first start":      {files: map[string]string{"etc/systemd/system/k3s-agent.service": "x"}, want: "other cluster: fail", words: []string{"/etc/systemd/system/k3s-agent.service"}},
		"rke2 of a package":               {files: map[string]string{"usr/lib/systemd/system/rke2-server.service": "x"}, want: "other cluster: fail"},
		"k0s":                             {files: map[string]string{"etc/systemd/system/k0sworker.service": "x"}, want: "other cluster: fail"},
		"Kubernetes of a snap":            {files: map[string]string{"var/snap/k8s/current/x": "x"}, want: "other cluster: fail"},
		"a kubelet of nobody":             {files: map[string]string{"sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs": "1\n"}, want: "other cluster: fail", words: []string{"systemctl disable --now kubelet"}},
		"CRI-O that runs":                 {files: map[string]string{"sys/fs/cgroup/system.slice/crio.service/cgroup.procs": "1\n"}, want: "container runtime: warn", words: []string{"CRI-O runs"}},
		"Docker of a snap":                {files: map[string]string{"sys/fs/cgroup/system.slice/snap.docker.dockerd.service/cgroup.procs": "1\n"}, want: "container runtime: warn"},
		"Cilium's interfaces":             {files: map[string]string{"sys/class/net/cilium_host/address": "x", "sys/class/net/eth0/address": "x"}, want: "leftovers: fail", words: []string{"interfaces: cilium_host", "ip link delete cilium_host", "start the host again"}},
		"addresses of kube-proxy":         {files: map[string]string{"sys/class/net/kube-ipvs0/address": "x"}, want: "leftovers: fail"},
		"bridges of LXD and Docker":       {files: map[string]string{"sys/class/net/lxdbr0/address": "x", "sys/class/net/docker0/address": "x", "sys/class/net/calibration0/address": "x"}},
		"Calico's rules":                  {host: chains("cali-FORWARD", "cali-INPUT", "KUBE-SERVICES"), want: "leftovers: fail", words: []string{"packets: cali-FORWARD, cali-INPUT"}},
		"many rules":                      {host: chains("CILIUM_1", "CILIUM_2", "CILIUM_3", "CILIUM_4", "CILIUM_5", "CILIUM_6"), want: "leftovers: fail", words: []string{"CILIUM_5, and 1 more"}},
		"rules that kube-proxy replaces":  {host: chains("KUBE-SERVICES", "DOCKER", "ufw-user-input")},
		"a unit that starts another one":  {files: map[string]string{unit: "[Service]\nExecStart=\nExecStart=/usr/bin/containerd\n"}, want: "container runtime: fail", words: []string{"/" + unit, "it sets ExecStart", "systemctl daemon-reload"}},
		"a unit of another user":          {files: map[string]string{unit: "[Service]\nUser = nobody\n"}, want: "container runtime: fail", words: []string{"User"}},
		"a condition":                     {files: map[string]string{"usr/lib/systemd/system/kubelet.service.d/10-x.conf": "[Unit]\nConditionPathExists=/etc/x\n"}, want: "container runtime: fail", words: []string{"the kubelet of the install", "ConditionPathExists"}},
		"an environment without its file": {files: map[string]string{unit: "[Service]\nEnvironmentFile=/etc/sysconfig/containerd\n"}, want: "container runtime: fail", words: []string{"EnvironmentFile=/etc/sysconfig/containerd, which does not exist"}},
		"a proxy":                         {files: map[string]string{unit: "# mine\n[Service]\nEnvironment=HTTPS_PROXY=http://10.0.0.1:3128 \\\n  NO_PROXY=localhost\nEnvironmentFile=-/etc/x\n"}, want: "container runtime: warn", words: []string{"it sets Environment, EnvironmentFile"}},
		"one file in two folders":         {files: map[string]string{unit: "[Service]\nLimitNOFILE=1\n", "usr/lib/systemd/system/containerd.service.d/10-site.conf": "[Service]\nExecStart=/x\n"}, want: "container runtime: warn"},
		"kubeadm's drop-in of a package":  {files: map[string]string{"usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet\nEnvironmentFile=-/etc/default/kubelet\n"}},
		"settings that cannot be read":    {files: map[string]string{"etc/containerd/conf.d/site.toml": "version = \n"}, want: "container runtime: fail", words: []string{"/etc/containerd/conf.d/site.toml", "mend it"}},
		"settings without the kubelet's":  {files: map[string]string{"etc/containerd/conf.d/site.toml": "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n"}, want: "container runtime: fail", words: []string{"disables plugins"}},
		"other settings":                  {files: map[string]string{"etc/containerd/conf.d/site.toml": "version = 3\n[debug]\nlevel = 'debug'\n"}, want: "container runtime: warn"},
	} {
		t.Run(name, func(t *testing.T) {
			host, needs := goodHost(), goodNeeds()
			needs.AddOns = []string{"containerd", "kubernetes", "flannel"}
			for file, text := range row.files {
				with(&host, file, text)
			}
			if row.host != nil {
				row.host(&host)
			}
			expectOne(t, host, needs, row.want, row.words)
			if row.want == "" || strings.Contains(row.want, "other") {
				return
			}
			needs.Resumed = true // by then, it may be this cluster's
			expectOne(t, host, needs, "", nil)
		})
	}
}

// expectOne expects one complaint, "CHECK: STATUS" with words in its message and hint, or none.
func expectOne(t *testing.T, host preflight.Host, needs preflight.Needs, want string, words []string) {
	t.Helper()
	report, err := preflight.Run(t.Context(), preflight.Builtin(host, needs))
	if err != nil {
		t.Fatal(err)
	}
	var complaints []preflight.Result
	for _, result := range report.Results {
		if result.Status != preflight.Pass {
			complaints = append(complaints, result)
		}
	}
	if want == "" && len(complaints) == 0 {
		return
	}
	if len(complaints) != 1 || complaints[0].Check+": "+string(complaints[0].Status) != want {
		t.Fatalf("got %+v, want %q", complaints, want)
	}
	for _, word := range words {
		if text := complaints[0].String(); !strings.Contains(text, word) {
			t.Errorf("%s: lacks %q", text, word)
		}
	}
}

// TestFilesDisablingForwardingAreNamed follows sysctl.d(5): replicatedhq/kURL#2174 and moby/moby#47966 are hosts whose pods lost DNS
// with a later boot.
func TestFilesDisablingForwardingAreNamed(t *testing.T) {
	for name, row := range map[string]struct {
		files map[string]string
		words []string // of the complaint; none if there is none
	}{
		"the file of the host":                    {map[string]string{"etc/sysctl.conf": "# net.ipv4.ip_forward = 1\nnet.ipv4.ip_forward = 0\n"}, []string{"/etc/sysctl.conf:2 sets net.ipv4.ip_forward = 0"}},
		"a hardening profile":                     {map[string]string{"etc/sysctl.d/99-zzz-cis.conf": "net.ipv4.ip_forward=0"}, []string{"/etc/sysctl.d/99-zzz-cis.conf:1"}},
		"the other name of the setting":           {map[string]string{"usr/lib/sysctl.d/50-x.conf": "net.ipv4.conf.all.forwarding = 0\n"}, []string{"net.ipv4.conf.all.forwarding = 0"}},
		"new interfaces":                          {map[string]string{"run/sysctl.d/50-x.conf": "net/ipv4/conf/default/forwarding=0\n"}, []string{"/run/sysctl.d/50-x.conf:1"}},
		"libvirt's bridges":                       {map[string]string{"usr/lib/sysctl.d/bridge.conf": "-net.bridge.bridge-nf-call-iptables = 0\n"}, []string{"net.bridge.bridge-nf-call-iptables = 0"}},
		"a pattern":                               {map[string]string{"etc/sysctl.d/50-x.conf": "net.bridge.bridge-nf-call-iptable* = 0\n"}, []string{"net.bridge.bridge-nf-call-iptables = 0"}},
		"one that a later file sets again":        {map[string]string{"etc/sysctl.d/10-a.conf": "net.ipv4.ip_forward=0\n", "usr/lib/sysctl.d/20-b.conf": "net.ipv4.ip_forward = 1\n"}, nil},
		"one that is shadowed":                    {map[string]string{"etc/sysctl.d/10-a.conf": "# nothing\n", "usr/lib/sysctl.d/10-a.conf": "net.ipv4.ip_forward = 0\n"}, nil},
		"our own":                                 {map[string]string{"etc/sysctl.d/zz-sealift-kubernetes.conf": "net.ipv4.ip_forward = 0\n"}, nil},
		"a comment, a name alone, other settings": {map[string]string{"etc/sysctl.conf": ";net.ipv4.ip_forward=0\n-net.ipv4.ip_forward\nnet.ipv4.conf.eth0.rp_filter=0\nvm.swappiness = 0\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			host := goodHost()
			for file, text := range row.files {
				with(&host, file, text)
			}
			want := ""
			if row.words != nil {
				want = "kernel settings: warn"
			}
			expectOne(t, host, goodNeeds(), want, row.words)
		})
	}
}

func TestCurrentSettingsAreReported(t *testing.T) {
	root := fstest.MapFS{"proc/sys/net/ipv4/ip_forward": file("0\n"), "proc/sys/net/ipv4/conf/all/forwarding": file("1\n")}
	found, err := preflight.LiveSysctls(root)
	if err != nil || len(found) != 1 || found[0] != (preflight.Sysctl{Name: "net.ipv4.ip_forward", Is: "0"}) {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestForwardingOfIPv6IsWatchedWherePodsHaveIt(t *testing.T) {
	host, needs := goodHost(), goodNeeds()
	with(&host, "etc/sysctl.conf", "net.ipv6.conf.all.forwarding = 0\n")
	expectOne(t, host, needs, "", nil)
	needs.IPv6 = true
	expectOne(t, host, needs, "kernel settings: warn", []string{"/etc/sysctl.conf:1 sets net.ipv6.conf.all.forwarding = 0"})

	root := fstest.MapFS{
		"etc/sysctl.conf": file("net.ipv6.conf.all.forwarding = 0\nkernel.panic_on_oops = 0\n"), "proc/sys/net/ipv6/conf/all/forwarding": file("0\n"), "proc/sys/kernel/panic_on_oops": file("0\n"),
		"etc/sysctl.d/" + preflight.SysctlName: file("# ours\nnet.ipv4.ip_forward = 1\n-kernel.panic_on_oops = 1\nnet.ipv6.conf.all.forwarding = 1\n-net/ipv6/conf/eth0.5/accept_ra = 2\n"),
	}
	later, err := preflight.UnwantedSysctls(root, false)
	if want := (preflight.Sysctl{Name: "net.ipv6.conf.all.forwarding", Is: "0", From: "/etc/sysctl.conf:1"}); err != nil || len(later) != 1 || later[0] != want {
		t.Errorf("of files: %+v, %v", later, err)
	}
	live, err := preflight.LiveSysctls(root)
	if want := (preflight.Sysctl{Name: "net.ipv6.conf.all.forwarding", Is: "0"}); err != nil || len(live) != 1 || live[0] != want {
		t.Errorf("now: %+v, %v", live, err)
	}
}
