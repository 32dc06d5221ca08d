package cluster

import "testing"

func TestAddressIsSplitIntoHost(t *testing.T) {
	for address, want := range map[string]string{"": "", "lb": "lb", "lb:6443": "lb", "192.0.2.1:6443": "192.0.2.1", "[2001:db8::1]": "2001:db8::1", "2001:db8::1": "2001:db8::1"} {
		if got := HostOf(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
