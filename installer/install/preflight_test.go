package install

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

func parseSpec(t *testing.T, text string) *spec.Installer {
	t.Helper()
	i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nmetadata: {name: x}\nspec:\n  kubernetes: {version: 1.36.3}\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestRoleSelectsChecks(t *testing.T) {
	hosts := func(n preflight.Node) preflight.Node {
		n.PrimaryHosts, n.SecondaryHosts = []string{"10.0.0.1", "fd00::1"}, []string{"10.0.0.9"}
		return n
	}
	tests := map[string]struct {
		node preflight.Node
		want preflight.Needs
	}{
		"the first control plane": {preflight.Node{Primary: true}, preflight.Needs{Role: preflight.ControlPlane, Firewall: preflight.HandlingDone, Ports: preflight.ControlPlanePorts()}},
		"a worker that joins reaches the API servers": {hosts(preflight.Node{Join: true}),
			preflight.Needs{Role: preflight.Worker, Firewall: preflight.HandlingDone, Ports: preflight.WorkerPorts(), Reach: []string{"10.0.0.1:6443", "[fd00::1]:6443"}}},
		"a control plane that joins reaches etcd and every kubelet, too": {hosts(preflight.Node{Join: true, Primary: true}),
			preflight.Needs{Role: preflight.ControlPlane, Firewall: preflight.HandlingDone, Ports: preflight.ControlPlanePorts(), Reach: []string{"10.0.0.1:6443", "[fd00::1]:6443",
				"10.0.0.1:2379", "10.0.0.1:2380", "10.0.0.1:10250", "[fd00::1]:2379", "[fd00::1]:2380", "[fd00::1]:10250", "10.0.0.9:10250"}}},
		"an upgrade finds its own ports in use": {preflight.Node{Primary: true, Upgrade: true},
			preflight.Needs{Role: preflight.ControlPlane, Firewall: preflight.HandlingDone, Ports: preflight.ControlPlanePorts(), Resumed: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := preflight.Needs{Role: preflight.ControlPlane}
			addRole(&got, tt.node, parseSpec(t, ""))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("a worker that gives images to other nodes", func(t *testing.T) {
		got := preflight.Needs{Role: preflight.ControlPlane}
		addRole(&got, preflight.Node{}, parseSpec(t, "  containerd: {version: 2.4.2, mirror: true}\n"))
		if !slices.Contains(got.Ports, 6445) {
			t.Errorf("the ports are %v", got.Ports)
		}
	})
	t.Run("pods with IPv6", func(t *testing.T) {
		for option, want := range map[string]bool{"ipv6: true": true, "dualStack: true": true, "ipv6: false": false} {
			got := preflight.Needs{Role: preflight.ControlPlane}
			addRole(&got, preflight.Node{Primary: true}, parseSpec(t, "  kurl: {"+option+"}\n"))
			if got.IPv6 != want {
				t.Errorf("%s: %t", option, got.IPv6)
			}
		}
	})
	t.Run("without Kubernetes, nothing", func(t *testing.T) {
		var got preflight.Needs
		addRole(&got, preflight.Node{Primary: true}, parseSpec(t, ""))
		if diff := cmp.Diff(preflight.Needs{Firewall: preflight.HandlingDone}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestInstallerConfiguresChecks(t *testing.T) {
	tests := map[string]struct {
		text              string
		given             PreflightOptions
		policy            preflight.Policy
		exclude           bool
		firewall, selinux preflight.Handling
	}{
		"nothing, with which the firewall is opened": {firewall: preflight.HandlingDone},
		"its options": {text: "  kurl: {hostPreflightIgnore: true, hostPreflightEnforceWarnings: true, excludeBuiltinHostPreflights: true}\n",
			policy: preflight.Policy{Ignore: true, EnforceWarnings: true}, exclude: true, firewall: preflight.HandlingDone},
		"flags, which an option that is false does not undo": {text: "  kurl: {hostPreflightIgnore: false}\n", given: PreflightOptions{Policy: preflight.Policy{Ignore: true}},
			policy: preflight.Policy{Ignore: true}, firewall: preflight.HandlingDone},
		"a firewall that nobody may touch":  {text: "  firewalldConfig: {preserveConfig: true}\n", firewall: preflight.HandlingWarn},
		"a firewall that must not be there": {text: "  ufwConfig: {bypassUFWWarning: true, hardFailOnUFW: true}\n", firewall: preflight.HandlingRefused},
		"SELinux that is seen to":           {text: "  selinuxConfig: {disableSelinux: true}\n", selinux: preflight.HandlingDone, firewall: preflight.HandlingDone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := parseSpec(t, tt.text)
			got := tt.given.with(s)
			if got.Policy != tt.policy || got.ExcludeBuiltin != tt.exclude || !got.Node.Primary {
				t.Errorf("got %+v", got)
			}
			if firewall, selinux := handling(s); firewall != tt.firewall || selinux != tt.selinux {
				t.Errorf("firewall %q, selinux %q", firewall, selinux)
			}
		})
	}
}

func TestUncheckableAddOnsAreReported(t *testing.T) {
	specs := []preflight.Specification{
		{Name: "good", Kind: preflight.HostPreflight, Text: []byte("spec: {}")},
		{Name: "bad", Kind: preflight.HostPreflight, Text: []byte("{{kurl if }}")},
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := fixture.WriteProgram(broken, "#!/bin/sh\nexit 1\n"); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		program string
		want    preflight.Status
	}{
		"no program, as in a bundle without it": {"", preflight.Warn},
		"a program that fails":                  {broken, preflight.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := askTroubleshoot(t.Context(), tt.program, nil, preflight.Node{}, parseSpec(t, ""), specs)
			if err != nil || len(got) != 2 || got[0].Check != "bad: specification" || got[0].Status != preflight.Fail || got[1].Status != tt.want {
				t.Errorf("%v, %+v", err, got)
			}
		})
	}
}

func TestChecksSeeAirGap(t *testing.T) {
	i := made(t, with(t, "flannel", ""))
	for _, airGap := range []bool{true, false} {
		i.settings.airGap = airGap
		if got := i.completed(PreflightOptions{}).Node.AirGap; got != airGap {
			t.Errorf("air gap: %t, want %t", got, airGap)
		}
	}
}

// TestDroppingRulesAreRefusedBeforeFirstChange uses a policy of drop as nftables.service sets it.
func TestDroppingRulesAreRefusedBeforeFirstChange(t *testing.T) {
	isolation.Network(t)
	i := made(t, with(t, "kubernetes", ""), with(t, "flannel", ""))
	i.settings.pods.network = "10.32.0.0/20"
	look := func(role preflight.Role, resumed bool) preflight.Result {
		t.Helper()
		report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "firewall rules", Probe: i.firewallRules(role, resumed)}})
		if err != nil || len(report.Results) != 1 {
			t.Fatal(report, err)
		}
		return report.Results[0]
	}
	if got := look(preflight.ControlPlane, false); got.Status != preflight.Pass {
		t.Errorf("without rules: %s", got)
	}
	isolation.Run(t, "table inet filter {\nchain input { type filter hook input priority 0; policy drop;\n}\n}\n", "nft", "-f", "-")
	if got := look(preflight.Worker, true); got.Status != preflight.Warn || !strings.Contains(got.Message, "TCP 10250; UDP 8472; from pods, 10.32.0.0/20") {
		t.Errorf("a worker that works: %+v", got)
	}
	got := look(preflight.ControlPlane, false)
	if got.Status != preflight.Fail || !strings.Contains(got.Message, "TCP 6443, 6445, 2379-2380, 10250") {
		t.Errorf("a control plane: %+v", got)
	}
	commands, _, _ := strings.Cut(got.Hint, "; and write the same rules into /etc/nftables.conf")
	isolation.Run(t, "", "sh", "-c", commands)
	if got := look(preflight.ControlPlane, false); got.Status != preflight.Pass {
		t.Errorf("after the commands: %s", got)
	}
}
