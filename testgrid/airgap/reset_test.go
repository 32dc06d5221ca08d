package airgap_test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// looks is what a host is, as an administrator would compare it: packages, files with their rights and content, units, what
// runs, mounts, interfaces, routes, settings of the kernel. Each line begins with what it is about.
const looks = `
dpkg-query -W -f 'package ${db:Status-Abbrev} ${binary:Package} ${Version}\n'
find /etc /usr/local /opt /root /usr/lib/systemd/system -xdev -printf 'file %M %u %g %p %l\n'
find /etc /usr/local -xdev -type f -exec sha256sum {} + | sed 's/^/content /'
find / /var /var/lib /var/log /usr/libexec -mindepth 1 -maxdepth 1 -printf 'name %p\n'
systemctl list-unit-files --no-legend --no-pager | awk '{ print "unit", $1, $2 }'
systemctl list-units --type=service --state=running --plain --no-legend --no-pager | awk '{ print "running", $1 }'
cut -d' ' -f5 /proc/self/mountinfo | sed 's/^/mount /'
ls /sys/class/net | sed 's/^/link /'
sed 's/^/route /' /proc/net/route
for f in net/ipv4/ip_forward net/ipv4/conf/all/route_localnet net/bridge/bridge-nf-call-iptables; do echo "sysctl $f $(cat /proc/sys/$f)"; done
`

// state gives the lines of looks, and the firewall's rules as this machine's own program reads them out of the host.
func (n node) state() []string {
	n.t.Helper()
	lines := strings.Split(strings.TrimSpace(n.must(looks)), "\n")
	var rules bytes.Buffer
	if err := n.Exec(n.t.Context(), host.Command{Args: []string{"iptables-save"}, Stdout: &rules, NetworkOnly: true}); err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(rules.String()) {
		if strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":") && strings.Contains(line, " - ") {
			lines = append(lines, "rule "+strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

// differences lists what is in one state alone, but what the explanations end with.
func differences(before, after []string, explained ...string) (lines []string) {
	for sign, both := range map[string][2][]string{"- ": {before, after}, "+ ": {after, before}} {
		for _, line := range both[0] {
			if !slices.Contains(both[1], line) && !slices.ContainsFunc(explained, func(end string) bool { return strings.HasSuffix(line, end) }) {
				lines = append(lines, sign+line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// notTakenBack are the logs of the install and of the package manager.
func notTakenBack() []string {
	return []string{"/var/log/sealift", "/var/log/alternatives.log", "/var/log/dpkg.log"}
}

// takeBack is a reset with a program that outlives it.
const takeBack = "exec /var/tmp/sealift reset --yes"

// reset takes the install back, once killed on the way, with two things that someone else changed: they are named and kept.
func reset(n node, before []string) {
	n.refuses("sealift reset", 2, "--yes")
	n.must("sealift reset --plan >/dev/null; sealift status; systemctl stop kubelet")
	n.refuses("sealift status", 1, "systemctl start kubelet.service")
	n.must("systemctl start kubelet; sealift status")
	n.must("echo '# mine' >>/etc/sysctl.d/99-sealift-kubernetes.conf; mkdir -p /usr/local/share/mine; touch /usr/local/share/mine/file")
	n.must("cp /usr/local/bin/sealift /var/tmp/sealift")
	n.interrupt(interruption{command: takeBack, step: "reset/packages", record: "started", signal: "KILL"})
	n.refuses("/var/tmp/sealift status", 1, "go on    sudo sealift reset")
	n.refuses(install, 1, "run 'sealift reset' first")
	out := n.must(takeBack + " 2>&1")
	for _, want := range []string{"/etc/sysctl.d/99-sealift-kubernetes.conf", "changed by someone else after step kubernetes/pre-init", "/var/log/sealift", "this host is reset"} {
		if !strings.Contains(out, want) {
			n.t.Errorf("reset does not say %q:\n%s", want, out)
		}
	}
	n.must("rm /etc/sysctl.d/99-sealift-kubernetes.conf; rm -r /usr/local/share/mine")
	if diff := differences(before, n.state(), append(notTakenBack(), " transient", "running systemd-timedated.service")...); len(diff) > 0 {
		n.t.Errorf("the host is not what it was:\n%s\nreset said:\n%s", strings.Join(diff, "\n"), out)
	}
	if out := n.must("/var/tmp/sealift reset --yes 2>&1"); !strings.Contains(out, "nothing to reset") {
		n.t.Errorf("second reset:\n%s", out)
	}
	n.refuses("/var/tmp/sealift status", 1, "not installed")
}
