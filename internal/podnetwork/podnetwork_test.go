package podnetwork_test

import (
	"testing"

	"github.com/sealift/sealift/internal/podnetwork"
)

func TestNamesOfAdministratorsAreTheirs(t *testing.T) {
	for name, want := range map[string]bool{
		"cni0": true, "flannel.1": true, "cali0123456789a": true, "vethwe-bridge": true, "antrea-gw0": true, "wireguard.cali": true,
		"cni": false, "flannel": false, "flannel.site": false, "cali-lan": false, "weave0": false, "eth0": false, "wg0": false,
	} {
		if got := podnetwork.IsLink(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
