package network

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
)

// TestAddressOfOtherHostIsClaimed asks through a pair of interfaces. The other end is in another network namespace.
func TestAddressOfOtherHostIsClaimed(t *testing.T) {
	isolation.Network(t)
	for _, args := range [][]string{
		{"link", "add", "here", "type", "veth", "peer", "name", "there"},
		{"link", "set", "here", "up"},
	} {
		isolation.Run(t, "", "ip", args...)
	}
	other := strings.TrimSpace(isolation.Run(t, "", "sh", "-c", `unshare --net sleep 60 >/dev/null 2>&1 &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link set there netns $!
nsenter --net=/proc/$!/ns/net sh -c 'ip address add 10.1.2.3/24 dev there; ip link set there up'
echo $!`))
	t.Cleanup(func() {
		if err := exec.Command("kill", other).Run(); err != nil {
			t.Error(err)
		}
	})
	isolation.Run(t, "", "ip", "address", "add", "10.1.2.4/24", "dev", "here")
	if mac, err := Claimed("here", netip.MustParseAddr("10.1.2.3")); err != nil || mac == nil {
		t.Errorf("the address of the other host: %v, %v", mac, err)
	}
	for _, free := range []string{"10.1.2.4", "10.1.2.5", "fd00::1"} {
		if mac, err := Claimed("here", netip.MustParseAddr(free)); err != nil || mac != nil {
			t.Errorf("%s: %v, %v", free, mac, err)
		}
	}
	if _, err := Claimed("nowhere", netip.MustParseAddr("10.1.2.3")); err == nil {
		t.Error("an interface that does not exist")
	}
}
