package host_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// dialScript opens a connection with nothing but bash.
const dialScript = "timeout 5 bash -c 'exec 3<>/dev/tcp/203.0.113.7/443'; true"

func TestOutgoingPacketsAreDroppedAndCounted(t *testing.T) {
	h := lab.Host(t, host.Spec{Exit: true})
	before, err := h.Egress(t.Context())
	if err != nil || len(before) != 0 {
		t.Fatalf("a host that did nothing has sent %v, %v", before, err)
	}
	ended := make(chan error)
	go func() {
		_, err := h.Output(t.Context(), "bash", "-c", dialScript)
		ended <- err
	}()
	sender := ""
	for deadline := time.Now().Add(time.Minute); sender == "" && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		sender = h.Sender(host.Packets{Address: netip.MustParseAddr("203.0.113.7"), Protocol: "tcp", Port: 443})
	}
	if err := <-ended; err != nil || !strings.Contains(sender, "/dev/tcp/203.0.113.7/443") {
		t.Fatalf("the sender is %q; %v", sender, err)
	}
	after, err := h.Egress(t.Context())
	if err != nil || len(after) != 1 || after[0].Address.String() != "203.0.113.7" || after[0].Protocol != "tcp" || after[0].Port != 443 || after[0].Count < 1 {
		t.Fatalf("after a connection: %+v, %v", after, err)
	}
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := h.Output(t.Context(), "bash", "-c", "timeout 1 bash -c 'echo >/dev/udp/203.0.113.9/53'; true"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if after, err = h.Egress(t.Context()); err != nil || len(after) != 2 {
		t.Errorf("after a reboot and a datagram: %+v, %v", after, err)
	}
}

// TestHostsWithEgressReachEachOther cuts the network of one of two hosts and mends it, and counts nothing.
func TestHostsWithEgressReachEachOther(t *testing.T) {
	a, b := lab.Host(t, host.Spec{Exit: true}), lab.Host(t, host.Spec{Exit: true})
	knock := func() error {
		_, err := a.Output(t.Context(), "timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/"+b.Address().String()+"/9")
		return err
	}
	refused := func(err error) bool { return err != nil && strings.Contains(err.Error(), "refused") }
	if err := knock(); !refused(err) {
		t.Fatalf("the other host does not answer: %v", err)
	}
	restore, err := b.CutNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := knock(); refused(err) || err == nil {
		t.Errorf("a host without a network answers: %v", err)
	}
	if err := restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !refused(knock()); {
		if time.Now().After(deadline) {
			t.Fatal("the host does not come back")
		}
	}
	for _, h := range []*host.Host{a, b} {
		if got, err := h.Egress(t.Context()); err != nil || len(got) > 0 {
			t.Errorf("host %s: %v, %v", h.Name(), got, err)
		}
	}
}

func TestIPv6OnlyHostsReachEachOther(t *testing.T) {
	a, b := lab.Host(t, host.Spec{Exit: true, IPv6: true}), lab.Host(t, host.Spec{Exit: true, IPv6: true})
	if out, err := a.Output(t.Context(), "ip", "-4", "-brief", "address", "show", "scope", "global"); err != nil || out != "" {
		t.Errorf("IPv4 addresses: %s, %v", out, err)
	}
	_, err := a.Output(t.Context(), "timeout", "2", "bash", "-c", "exec 3<>/dev/tcp/"+b.Address().String()+"/9")
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the other host does not answer: %v", err)
	}
	if got, err := a.Egress(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("to the other host, it has sent %v, %v", got, err)
	}
	if out, err := a.Output(t.Context(), "bash", "-c", "timeout 1 bash -c 'exec 3<>/dev/tcp/2001:db8::7/443'; true"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	got, err := a.Egress(t.Context())
	if err != nil || len(got) != 1 || got[0].Address.String() != "2001:db8::7" || got[0].Port != 443 {
		t.Errorf("after a connection to the outside: %+v, %v", got, err)
	}
}

func TestRemovedHostLeavesNoRules(t *testing.T) {
	short.Root(t, "rules of the firewall")
	const name = "no-rules-left" // other tests may take the name of a removed host at once
	t.Run("host", func(t *testing.T) { lab.Host(t, host.Spec{Name: name, Exit: true}) })
	out, err := exec.Command("nft", "list", "tables").CombinedOutput()
	if err != nil || strings.Contains(string(out), strings.ReplaceAll(name, "-", "_")) {
		t.Errorf("%s, %v", out, err)
	}
}
