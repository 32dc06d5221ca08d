package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// badHost is a host with peculiarities that preflight reports before the first change.
type badHost struct {
	name    string
	setup   string // creates the peculiarities, in the namespaces of apart
	words   string // of the install
	answers []answer
	code    int    // of the install that says refusal
	refusal string // of the install, if it ends before it checks the host
}

// fails returns the messages with which an install must refuse the host.
func (s badHost) fails() (messages []string) {
	for _, a := range s.answers {
		if a.Status == "fail" {
			messages = append(messages, a.Message)
		}
	}
	return messages
}

// uplink gives a network namespace an interface with a default route, like a host's.
const uplink = `ip link set lo up
ip link add eth0 type veth peer name far0
ip address add 10.90.0.77/16 dev eth0
ip link set eth0 up
ip link set far0 up
ip route add default via 10.90.0.1
`

// apart runs a script in separate mount, UTS and network namespaces, after it has created the peculiarities. They end with it.
func (s badHost) apart(script string) string {
	return "exec unshare --mount --uts --net --propagation private bash -c " + shellword.Quote("set -e\n"+uplink+s.setup+"\nset +e\n("+script+"\n); code=$?; kill $(jobs -p) 2>/dev/null; exit $code")
}

// says replaces a file that programs read with a text.
func says(file, text string) string {
	return "file=$(mktemp /run/says.XXXX) && printf '%b' " + shellword.Quote(text) + " >$file && mount --bind $file " + file + " && rm $file\n"
}

// listed adds packages to the database of dpkg.
func listed(stanzas ...string) string {
	text := `\n` + strings.Join(stanzas, `\n\n`) + `\n\n`
	return "file=$(mktemp /run/says.XXXX) && { cat /var/lib/dpkg/status; printf '%b' " + shellword.Quote(text) + "; } >$file && mount --bind $file /var/lib/dpkg/status && rm $file\n"
}

// listensOn lets another program listen.
func listensOn(address string) string {
	return "systemd-socket-activate -l " + address + " /bin/true 2>/dev/null &\nfor i in $(seq 100); do ss -ltn | grep -qF '" + address + " ' && break; sleep 0.1; done\n"
}

// badHosts are hosts from users' reports, with preflight's report on each.
func badHosts() []badHost {
	longest := strings.Repeat("n", 64)
	return []badHost{
		{
			name: "a small board", // raspberrypi/linux#3644, k3s-io/k3s#2067: memory is switched off, and swap is on zram
			setup: "hostname " + longest + "\n" +
				says("/proc/cgroups", `#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t1\t1\t1\ncpu\t2\t1\t1\ncpuacct\t2\t1\t1\nmemory\t0\t1\t0\ndevices\t4\t1\t1\nfreezer\t5\t1\t1\npids\t6\t1\t1\n`) +
				"if [ -e /sys/fs/cgroup/cgroup.controllers ]; then " + says("/sys/fs/cgroup/cgroup.controllers", `cpuset cpu io pids\n`) + "fi\n" +
				says("/proc/swaps", `Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram0                              partition\t1000\t\t0\t\t100\n`) +
				says("/proc/meminfo", `MemTotal:        1024000 kB\nMemFree:          900000 kB\nMemAvailable:     900000 kB\n`) +
				says("/etc/resolv.conf", `nameserver 127.0.0.53\n`),
			answers: []answer{
				{"hostname", "fail", `hostname "` + longest + `" has 64 characters; a node name has at most 63`, "hostnamectl set-hostname"},
				{"cgroups", "fail", "lacks the controllers memory", "cgroup_enable"},
				{"memory", "fail", "1000 MiB; a control plane needs at least 1700", "add memory"},
				{"swap", "warn", "swap is on (/dev/zram0)", "zram"},
				{"name servers", "warn", "127.0.0.53 is a loopback address", "upstream name servers"},
			},
		},
		{
			name: "a hardened server",
			setup: "echo node-1. >/proc/sys/kernel/hostname\n" + listensOn("127.0.0.1:10250") + listensOn("[::1]:2379") +
				"ip link add other type vxlan id 7 dstport 8472 dev eth0 && ip link set other up\n" +
				"mkdir /run/sysfs && mount --rbind /sys/fs /run/sysfs && mount -t tmpfs none /sys/fs && mkdir /sys/fs/cgroup /sys/fs/selinux && mount --rbind /run/sysfs/cgroup /sys/fs/cgroup && umount -l /run/sysfs && rmdir /run/sysfs && echo 1 >/sys/fs/selinux/enforce\n" +
				"mount --bind /usr /usr && mount -o remount,bind,ro /usr\n" +
				"mount -t tmpfs -o nr_inodes=50 none /var/lib/containerd\n",
			answers: []answer{
				{"hostname", "fail", `hostname "node-1." cannot be a node name`, "hostnamectl set-hostname"},
				{"selinux", "warn", "enforcing; it may deny pods", "container-selinux"},
				{"ports", "fail", "port 10250 is in use", "ss -ltnp 'sport = :10250'"},
				{"ports", "fail", "port 2379 is in use", "ss -ltnp 'sport = :2379'"},
				{"flannel: Port of the pod network", "fail", "UDP port 8472 is in use", ""},
				{"disk", "fail", "on a file system that is mounted read-only", "remount,rw"},
				{"disk", "fail", " inodes needed, ", "df -i shows them"},
			},
		},
		{
			name: "packages of the site",
			setup: "hostname localhost.localdomain\n" + listed(
				`Package: site-conntrack\nStatus: install ok installed\nVersion: 1.0\nArchitecture: all\nMaintainer: Site <site@example.org>\nConflicts: conntrack\nDescription: a tool of the site`,
				`Package: nft-only\nStatus: install ok installed\nVersion: 1.0\nArchitecture: all\nMaintainer: Site <site@example.org>\nProvides: iptables\nConflicts: iptables\nDescription: rules without iptables`,
				`Package: ethtool\nStatus: hold ok installed\nVersion: 1:0.1\nArchitecture: amd64\nMaintainer: Site <site@example.org>\nDescription: an old one that is held`),
			answers: []answer{
				{"hostname", "fail", `hostname "localhost.localdomain" is not unique`, "hostnamectl set-hostname"},
				{"host packages", "fail", "conntrack: cannot be installed beside site-conntrack", "apt-get remove site-conntrack"},
				{"host packages", "fail", "iptables: cannot be installed beside nft-only", "apt-get remove nft-only"},
				{"host packages", "fail", "ethtool: ethtool would change, and is held", "apt-mark unhold ethtool"},
			},
		},
		{
			name:    "everything is read-only",
			setup:   "mount --bind /var /var && mount -o remount,bind,ro /var\n",
			answers: []answer{{"disk", "fail", "on a file system that is mounted read-only", "remount,rw"}},
			code:    3, refusal: "install.sh: nothing can be written below /var/lib/sealift: mount its file system for writing",
		},
		{
			name:  "a VPN takes everything", // without a default route
			setup: "ip route delete default\nip route add 0.0.0.0/1 via 10.90.0.1\nip route add 128.0.0.0/1 via 10.90.0.1\nip route add 10.32.0.0/16 via 10.90.0.1\nip route add 10.96.0.0/12 via 10.90.0.1\n",
			answers: []answer{
				{"address", "pass", "10.90.0.77 (eth0): a route to most addresses leaves through it", ""},
				{"networks", "pass", "10.0.", ""},
			},
		},
		{
			name:  "a site that routes all private networks",
			setup: "ip route add 10.0.0.0/8 via 10.90.0.1\nip route add 172.16.0.0/12 via 10.90.0.1\nip route add 192.168.0.0/16 via 10.90.0.1\n",
			answers: []answer{
				{"networks", "pass", "100.64.", ""},
			},
		},
		{
			name:  "two networks and no default route",
			setup: "ip route delete default\nip link add eth1 type veth peer name far1\nip address add 10.20.0.5/24 dev eth1\nip link set eth1 up\nip link set far1 up\n",
			answers: []answer{
				{"address", "warn", "10.90.0.77 (eth0): no default route decides, and it is the first one; it could also be 10.20.0.5 (eth1)", "private-address=10.20.0.5"},
			},
		},
		{
			name:  "a second network where the Installer wants its pods",
			setup: "ip link add eth1 type veth peer name far1\nip address add 10.20.0.5/24 dev eth1\nip link set eth1 up\nip link set far1 up\n",
			words: "flannel.podCIDR=10.20.0.0/20",
			code:  3, refusal: `the Installer's flannel.podCIDR is "10.20.0.0/20": overlaps 10.20.0.`,
		},
		{
			name:  "IPv6 alone",
			setup: "ip address flush dev eth0 && ip address add fd00:9::77/64 dev eth0 nodad && ip route add default via fd00:9::1\n",
			answers: []answer{
				{"address", "fail", "this host has no IPv4 address, only IPv6 such as fd00:9::77", "set kurl.ipv6 in the Installer, or add the word ipv6 to the command"},
			},
			code: 3, refusal: "this host has no IPv4 address, only IPv6 such as fd00:9::77; set kurl.ipv6 in the Installer, or add the word ipv6 to the command",
		},
		{
			name: "a site that demands a verdict about vulnerabilities",
			setup: "mount -t tmpfs none /mnt && cp -a /etc /mnt/etc && mount --bind /mnt/etc /etc && mkdir /etc/sealift && printf %s " + shellword.Quote(`vulnerabilities: {keys: ["-----BEGIN PUBLIC KEY-----\n`+
				`MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMcczqmhWJbNZvTU5nNvhsbXNObzkR2oDva8JiMzKrja8+1n86Em+3h3GI27IIu9oNEtVUbb2M2yaWVdANmu8sQ==\n-----END PUBLIC KEY-----\n"]}`) +
				" >/etc/sealift/vulnerabilities.yaml\n",
			code: 3, refusal: "/etc/sealift/vulnerabilities.yaml demands a verdict about vulnerabilities, and the bundle came without one (",
		},
		{
			name:  "a proxy without its kind",
			words: "kurl.proxyAddress=proxy.example.com:3128",
			code:  3, refusal: "kurl.proxyAddress is not an address such as http://proxy.example.com:3128",
		},
	}
}

// TestUnsupportedHostsAreRefusedBeforeFirstChange checks each of the strangers, lets an install refuse what cannot work, and checks that
// the host is unchanged.
func TestUnsupportedHostsAreRefusedBeforeFirstChange(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(unpackSealift)
	before := n.lines(unchanged)
	for _, s := range badHosts() {
		t.Run(s.name, func(t *testing.T) {
			n := node{n.Host, t}
			if len(s.answers) > 0 {
				n.answered(s)
			}
			if s.refusal != "" {
				n.refuses(s.apart(install+" "+s.words+" 2>&1"), s.code, s.refusal)
			} else if messages := s.fails(); len(messages) > 0 {
				n.refusesFor(s, messages)
			}
			if changed := scenario.Differences(before, n.lines(unchanged)); len(changed) > 0 {
				t.Errorf("the host changed:\n%s", strings.Join(changed, "\n"))
			}
		})
	}
}

// refusesFor checks that an install refuses the host for all of the messages, with the exit code of a refusal.
func (n node) refusesFor(s badHost, messages []string) {
	n.t.Helper()
	out, code := n.run(s.apart(install + " 2>&1"))
	for _, message := range append(messages, "nothing was changed") {
		if !strings.Contains(out, message) {
			n.t.Errorf("the install does not say %q", message)
		}
	}
	if code != 3 || n.t.Failed() {
		n.t.Errorf("the install: exit %d\n%s", code, out)
	}
}

// lines runs a script and returns its output, line by line.
func (n node) lines(script string) []string {
	n.t.Helper()
	return strings.Split(strings.TrimSpace(n.must(script)), "\n")
}

// answered checks the host and expects the answers of a stranger.
func (n node) answered(s badHost) {
	n.t.Helper()
	code := 0
	if len(s.fails()) > 0 {
		code = 3
	}
	found := n.answers(s.apart(look), code)
	for _, want := range s.answers {
		wants(n.t, found, want.Check, want.Status, want.Message, want.Hint)
	}
}
