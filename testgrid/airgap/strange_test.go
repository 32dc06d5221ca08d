package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// unusualHost gives a host peculiarities of real ones, without leftovers that an install refuses: a bridge as uplink beside a storage
// network, a hostname in capitals, a /tmp that runs no programs, and files that switch forwarding off.
const unusualHost = `set -e
hostname STRANGE-1 && echo STRANGE-1 >/etc/hostname
address=$(ip -4 -oneline address show dev host0 | awk '{ print $4; exit }')
ip link add br-ex type bridge
ip link set host0 master br-ex
ip address del "$address" dev host0
ip address add "$address" dev br-ex
ip link set br-ex up
ip route replace default via 10.90.0.1 dev br-ex
ip link add eth1 type veth peer name storage0
ip address add 10.20.0.5/24 dev eth1
ip link set eth1 up
ip link set storage0 up
mount -t tmpfs -o noexec,mode=1777 none /tmp
echo net.ipv4.ip_forward = 0 >>/etc/sysctl.conf
printf 'net.bridge.bridge-nf-call-iptables = 0\nnet.ipv4.conf.default.forwarding = 0\n' >/etc/sysctl.d/99-zz-hardening.conf
echo 0 >/proc/sys/net/ipv4/ip_forward
echo "${address%/*}"`

// makeUnusual runs a script with the PATH of RHEL's sudo and with a proxy that no longer exists.
func makeUnusual(script string) string {
	return "umask 077; exec env -i PATH=/usr/bin:/bin HOME=/root http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 ALL_PROXY=socks5://127.0.0.1:9 bash -c " + shellword.Quote(script)
}

// leftBehind puts onto a host what two other distributions and other programs leave.
const leftBehind = `set -e
mkdir -p /etc/cni/net.d /etc/containerd/conf.d /etc/systemd/system/containerd.service.d /etc/systemd/system/kubelet.service.d /var/lib/rancher/rke2/agent
echo '{"cniVersion":"1.0.0","name":"containerd-net","plugins":[{"type":"bridge","bridge":"cni1","ipam":{"type":"host-local","subnet":"10.88.0.0/16"}}]}' >/etc/cni/net.d/10-containerd-net.conflist
cp /etc/cni/net.d/10-containerd-net.conflist /etc/cni/net.d/87-podman-bridge.conflist
echo broken >/etc/cni/net.d/99-x.conf
printf '[Service]\nExecStart=\nExecStart=/usr/bin/containerd --config /etc/other.toml\n' >/etc/systemd/system/containerd.service.d/override.conf
printf '[Service]\nEnvironmentFile=/etc/sysconfig/kubelet\n' >/etc/systemd/system/kubelet.service.d/20-env.conf
echo 'version = ' >/etc/containerd/conf.d/registry.toml
printf '[Service]\nExecStart=/usr/local/bin/k3s server\n' >/etc/systemd/system/k3s.service
ip link add cilium_host type veth peer name cilium_net`

// guarded loads the rules of an nftables.service that only admits ssh.
const guarded = `dpkg -i /media/usb2/*.deb >/dev/null 2>&1 && cat >/etc/nftables.conf <<'EOF' && nft -f /etc/nftables.conf
table inet filter {
	chain input {
		type filter hook input priority 0; policy drop;
		iif lo accept
		ct state established,related accept
		tcp dport 22 accept
	}
	chain forward {
		type filter hook forward priority 0; policy drop;
	}
}
EOF`

// unchanged is inventory without the folders of the service that is asked for the clock, which systemd makes.
const unchanged = "{ " + inventory + "; } | grep -v -e /systemd-private- -e '^/tmp 1777 '"

// TestUnusualHostBecomesNode has the peculiarities of real hosts, all at once: a short PATH (replicatedhq/kURL#2951, k3s-io/k3s#10175), an
// uplink called br-ex beside a second network (k0sproject/k0s#4775), umask 077, a /tmp without programs, a hostname in capitals, dead
// proxies, an nftables policy of drop, leftovers of two distributions (flannel-io/flannel#1437), and files that switch forwarding off
// (replicatedhq/kURL#2174). What cannot stay is named before the first change, with the way out, which the test goes.
func TestUnusualHostBecomesNode(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, r.tools(t)}}), t}
	address := strings.TrimSpace(n.must(unusualHost))
	n.must(leftBehind)
	n.must(guarded)
	n.must(strings.ReplaceAll(unpackSealift, "/tmp/tool", "/var/tmp/tool"))
	before := n.must(unchanged)
	bad := n.answers(makeUnusual(strings.ReplaceAll(look, "/tmp/tool", "/var/tmp/tool")), 3)
	for _, row := range []struct{ check, status, message, hint string }{
		{"pod network", "fail", "/etc/cni/net.d/10-containerd-net.conflist, /etc/cni/net.d/87-podman-bridge.conflist, /etc/cni/net.d/99-x.conf: ", "mv /etc/cni/net.d/10-containerd-net.conflist"},
		{"container runtime", "fail", "/etc/systemd/system/containerd.service.d/override.conf can keep the containerd of the install from starting: it sets ExecStart", "move it away"},
		{"container runtime", "fail", "/etc/systemd/system/kubelet.service.d/20-env.conf can keep the kubelet of the install from starting: it sets EnvironmentFile=/etc/sysconfig/kubelet, which does not exist", "move it away"},
		{"container runtime", "fail", "/etc/containerd/conf.d/registry.toml stops the containerd of the install", "mend it, or move it away"},
		{"other cluster", "fail", "/var/lib/rancher/rke2/agent", "uninstall it first"},
		{"leftovers", "fail", "left interfaces: cilium_host, cilium_net", "ip link delete cilium_host"},
		{"kernel settings", "warn", "/etc/sysctl.conf:", "take the line out"},
		{"kernel settings", "warn", "/etc/sysctl.d/99-zz-hardening.conf:1 sets net.bridge.bridge-nf-call-iptables = 0", "take the line out"},
		{"firewall rules", "fail", "nftables chain inet filter input drops what the cluster needs: TCP ", "nft insert rule inet filter input tcp dport"},
		{"firewall rules", "fail", "nftables chain inet filter forward drops what the cluster needs: from pods", "write the same rules into /etc/nftables.conf"},
		{"hostname", "pass", "strange-1", ""},
		{"address", "pass", address, ""},
	} {
		wants(t, bad, row.check, row.status, row.message, row.hint)
	}
	if after := n.must(unchanged); after != before {
		t.Errorf("looking changed the host:\nbefore\n%s\nafter\n%s", before, after)
	}
	for _, a := range bad { // as a person does who copies it
		if _, way, ok := strings.Cut(a.Hint, "move them away: "); ok && a.Check == "pod network" {
			n.must(way)
		}
		if way, _, ok := strings.Cut(a.Hint, "; and write"); ok && a.Check == "firewall rules" {
			n.must(way)
		}
	}
	n.must("rm -r /etc/systemd/system/containerd.service.d /etc/systemd/system/kubelet.service.d /etc/containerd /var/lib/rancher; ip link delete cilium_host; systemctl daemon-reload")
	k3s := n.answers(makeUnusual(strings.ReplaceAll(look, "/tmp/tool", "/var/tmp/tool")), 3)
	wants(t, k3s, "other cluster", "fail", "/etc/systemd/system/k3s.service", "uninstall it first")
	n.must("rm /etc/systemd/system/k3s.service; systemctl daemon-reload")

	if out := n.must(makeUnusual(install)); !strings.Contains(out, "done: ") {
		t.Errorf("the install ended without saying so:\n%s", out)
	}
	n.must(kubectl + "wait --for=condition=Ready node/strange-1 --timeout=180s")
	if got := n.must(kubectl + `get node strange-1 -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}'`); got != address {
		t.Errorf("the node has the address %s, want %s", got, address)
	}
	pods := n.must(kubectl + "--namespace kube-system get pods --selector k8s-app=kube-dns -o jsonpath='{.items[*].status.podIP}'")
	if strings.Contains(pods, "10.88.") || pods == "" {
		t.Errorf("CoreDNS has addresses of another network: %q", pods)
	}
	bootUnusual(n)
}

// bootUnusual applies all settings of the kernel as a boot does, and then as an administrator who wants to see them.
func bootUnusual(n node) {
	const forwards = "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/default/forwarding /proc/sys/net/bridge/bridge-nf-call-iptables | paste -sd ' '"
	n.must("systemctl restart systemd-sysctl")
	if got := strings.TrimSpace(n.must(forwards)); got != "1 1 1" {
		n.t.Errorf("after a boot the settings are %s", got)
	}
	if out := n.must("for i in $(seq 60); do sealift status && exit 0; sleep 2; done; exit 1"); !strings.Contains(out, "kernel   /etc/sysctl.conf:") {
		n.t.Errorf("status does not name the file that says no:\n%s", out)
	}
	n.must("echo 0 >/proc/sys/net/ipv4/ip_forward")
	n.refuses("sealift status", 1, "net.ipv4.ip_forward is 0")
	n.must("systemctl restart kubelet; for i in $(seq 60); do [ \"$(cat /proc/sys/net/ipv4/ip_forward)\" = 1 ] && exit 0; sleep 1; done; exit 1")
}
