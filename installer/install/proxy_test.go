package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/hook"
)

func TestProxyIsPlannedWhenTheInstallerHasOne(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	for _, row := range []struct {
		address, none string
		planned       bool
	}{{"", "", false}, {"http://proxy:3128", "", true}, {"http://proxy:3128", "1", false}} {
		i.hooks.variables["PROXY_ADDRESS"], i.hooks.variables["NO_PROXY"] = row.address, row.none
		plan, err := i.makePlan()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(ids(plan), proxyStep); got != row.planned {
			t.Errorf("%+v: planned %t", row, got)
		}
	}
}

func TestProxyAddressIsChecked(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	for address, ok := range map[string]bool{
		"": true, "http://proxy.example.com:3128": true, "https://user:p%40ss@[2001:db8::1]:443": true,
		"proxy:3128": false, "socks5://proxy": false, "http://": false, "http://proxy\nEVIL=1": false, "$(id)": false,
	} {
		i.hooks.variables["PROXY_ADDRESS"] = address
		if err := i.checkProxy(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestProxyIsNotAskedForTheClusterItself(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	i.hooks.variables["PRIVATE_ADDRESS"], i.hooks.variables["NODE_NAME"] = "192.0.2.7", "node-1"
	i.hooks.variables["LOAD_BALANCER_ADDRESS"] = "lb.example.com:6443"
	i.hooks.variables["ADDITIONAL_NO_PROXY_ADDRESSES"] = ".example.org, 192.0.2.7,198.51.100.0/24"
	i.hooks.state = hook.Variables{"POD_CIDR": "10.32.0.0/20", "SERVICE_CIDR": "10.96.0.0/22"}
	const want = "localhost,127.0.0.1,::1,.svc,.cluster.local,node-1,192.0.2.7,10.32.0.0/20,10.96.0.0/22,lb.example.com,.example.org,198.51.100.0/24"
	if got := i.noProxy(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestProxyChangesWhatItsStepDependsOn(t *testing.T) {
	inputs := func(address, exceptions string) string {
		i := made(t, with(t, "kubernetes", ""))
		i.hooks.variables["PROXY_ADDRESS"], i.hooks.variables["ADDITIONAL_NO_PROXY_ADDRESSES"] = address, exceptions
		plan, err := i.makePlan()
		if err != nil {
			t.Fatal(err)
		}
		return plan[slices.Index(ids(plan), proxyStep)].Inputs
	}
	base := inputs("http://a", "")
	if base == inputs("http://b", "") || base == inputs("http://a", ".example.org") || base != inputs("http://a", "") {
		t.Error("the step is not run again when, and only when, its settings change")
	}
}

func TestHostOfAnAddress(t *testing.T) {
	for address, want := range map[string]string{"": "", "lb": "lb", "lb:6443": "lb", "192.0.2.1:6443": "192.0.2.1", "[2001:db8::1]": "2001:db8::1", "2001:db8::1": "2001:db8::1"} {
		if got := hostOf(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}

func TestEnvironmentValuesStayText(t *testing.T) {
	const value = "http://u:\"$(id)`x`\\@proxy"
	got := environmentValue(value)
	if want := "\"http://u:\\\"\\$(id)\\`x\\`\\\\@proxy\""; got != want || strings.ContainsRune(got, '\n') {
		t.Errorf("got %s, want %s", got, want)
	}
}
