package airgap_test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/scenario"
)

// state returns the lines of looks, and the firewall's rules as this machine's own program reads them out of the host.
func (n node) state() []string {
	n.t.Helper()
	lines := strings.Split(strings.TrimSpace(n.must(scenario.StateScript)), "\n")
	for line := range strings.Lines(n.rules()) {
		if strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":") && strings.Contains(line, " - ") {
			lines = append(lines, "rule "+strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

// rules returns the firewall's rules. This machine's program cannot join the network of a virtual machine: that has one of its own in
// keptIPTables, or no rules yet.
func (n node) rules() string {
	n.t.Helper()
	if n.IsMachine() {
		return n.must("[ ! -e " + keptIPTables + " ] || LD_LIBRARY_PATH=" + keptIPTables + " XTABLES_LIBDIR=" + keptIPTables + "/xtables " + keptIPTables + "/xtables-nft-multi iptables-save")
	}
	var rules bytes.Buffer
	if err := n.Exec(n.t.Context(), host.Command{Args: []string{"iptables-save"}, Stdout: &rules, NetworkOnly: true}); err != nil {
		n.t.Fatal(err)
	}
	return rules.String()
}

// keptIPTables is the folder for the program that lists the rules of a virtual machine, with its libraries.
const keptIPTables = "/var/tmp/iptables"

// resetCommand is a reset with a program that outlives it.
const resetCommand = "exec /var/tmp/sealift reset --yes"

// reset reverts the install, with one kill on the way, with two foreign changes: they are named and kept.
func reset(n node, before []string) {
	n.refuses("sealift reset", 2, "--yes")
	n.must("sealift reset --plan >/dev/null; sealift status; systemctl stop kubelet")
	n.refuses("sealift status", 1, "systemctl start kubelet.service")
	n.must("systemctl start kubelet; sealift status")
	n.must("echo '# mine' >>/etc/sysctl.d/zz-sealift-kubernetes.conf; mkdir -p /usr/local/share/mine; touch /usr/local/share/mine/file")
	n.must("cp /usr/local/bin/sealift /var/tmp/sealift")
	n.interrupt(interruption{command: resetCommand, step: "reset/packages", record: "started", signal: "KILL"})
	n.refuses("/var/tmp/sealift status", 1, "go on    sudo sealift reset")
	n.refuses(install, 1, "run 'sealift reset' first")
	out := n.must(resetCommand + " 2>&1")
	for _, want := range []string{"/etc/sysctl.d/zz-sealift-kubernetes.conf", "changed by someone else after step kubernetes/pre-init", "/var/log/sealift", "this host is reset"} {
		if !strings.Contains(out, want) {
			n.t.Errorf("reset does not say %q:\n%s", want, out)
		}
	}
	n.must("rm /etc/sysctl.d/zz-sealift-kubernetes.conf; rm -r /usr/local/share/mine")
	if diff := scenario.Differences(before, n.state(), append(scenario.Kept(), " transient", "running systemd-timedated.service")...); len(diff) > 0 {
		n.t.Errorf("the host is not what it was:\n%s\nreset said:\n%s", strings.Join(diff, "\n"), out)
	}
	if out := n.must("/var/tmp/sealift reset --yes 2>&1"); !strings.Contains(out, "nothing to reset") {
		n.t.Errorf("second reset:\n%s", out)
	}
	n.refuses("/var/tmp/sealift status", 1, "not installed")
}
