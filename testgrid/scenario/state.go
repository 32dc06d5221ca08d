package scenario

import (
	"slices"
	"strings"
)

// StateScript is a script that prints the state of a host for a comparison: packages, files with mode, owner and content, units,
// processes, mounts, interfaces, routes, settings of the kernel. Each line begins with its kind.
const StateScript = `
command -v dpkg-query >/dev/null || rpm -qa --qf 'package %{NAME} %{EVR}\n'
! command -v dpkg-query >/dev/null || dpkg-query -W -f 'package ${db:Status-Abbrev} ${binary:Package} ${Version}\n'
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

// Differences compares two lists of lines. A line that ends with an explained text may differ.
func Differences(before, after []string, explained ...string) (lines []string) {
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

// Kept returns the ends of lines about files that a reset leaves: the logs of the install and of the package manager.
func Kept() []string {
	return []string{"/var/log/sealift", "/var/log/alternatives.log", "/var/log/dpkg.log"}
}
