//go:build grid

package machine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/machine"
)

// TestVirtualMachineKeepsTheContractOfAMachine uses a machine with a clock and a disk of its own, whose packages to other networks are counted.
func TestVirtualMachineKeepsTheContractOfAMachine(t *testing.T) {
	hosts, err := load(t, "systems: {x: {lab: debian-12, machine: vm}}\n")
	machines, err := kind(t, hosts, err).Make(t.Context(), machine.Request{System: "x", Count: 1, CPU: 2, Memory: 2 << 30, Airgap: true})
	if err != nil {
		t.Fatal(err)
	}
	m := machines[0]
	t.Cleanup(func() {
		if err := m.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	contract(t, m)
	if !m.(machine.ClockOwner).OwnsClock() {
		t.Error("it has no clock of its own")
	}
	must := func(script string) string {
		t.Helper()
		out, err := machine.Output(t.Context(), m, script)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("timeout 3 bash -c 'exec 3<>/dev/tcp/203.0.113.7/443' || true")
	left, err := m.(machine.EgressCounter).Egress(t.Context())
	if err != nil || !slices.ContainsFunc(left, func(c machine.Connection) bool { return c.Address == "203.0.113.7" && c.Port == 443 && c.Packets > 0 }) {
		t.Errorf("what left the machine: %v, %v", left, err)
	}
	must("date -s @$(($(date +%s) + 36000)); echo kept >/root/kept; sync /root/kept; echo lost >/root/lost")
	if here := time.Now(); strings.HasPrefix(must("date -u +%Y-%m-%dT%H"), here.UTC().Format("2006-01-02T15")) {
		t.Error("its clock cannot be set")
	}
	if err := m.(machine.PowerCycler).PowerCycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := must("cd /root; cat kept; cat lost 2>/dev/null || echo none"); got != "kept\nnone" {
		t.Errorf("after the loss of power there is %q", got)
	}
}
