package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/spec"
)

func TestProxyIsPlannedWhenInstallerHasOne(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	for _, row := range []struct {
		address string
		none    bool
		planned bool
	}{{"", false, false}, {"http://proxy:3128", false, true}, {"http://proxy:3128", true, false}} {
		i.spec.Sections = []spec.Section{{Key: "kurl", Options: spec.Options{"proxyAddress": row.address, "noProxy": row.none}}}
		i.settings = i.newSettings()
		plan := i.makePlan()
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
		i.settings.proxy.address = address
		if err := i.checkProxy(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestClusterTrafficBypassesProxy(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	i.settings.address, i.facts.Hostname = "192.0.2.7", "node-1"
	i.settings.loadBalancer, i.settings.endpoint = "before.example.com:6443", "lb.example.com:6443" // the cluster got another one
	i.settings.proxy.exceptions = []string{".example.org", " 192.0.2.7", "198.51.100.0/24"}
	i.hooks.state = hook.Variables{"POD_CIDR": "10.32.0.0/20", "SERVICE_CIDR": "10.96.0.0/22"}
	const want = "localhost,127.0.0.1,::1,.svc,.cluster.local,node-1,192.0.2.7,10.32.0.0/20,10.96.0.0/22,lb.example.com,.example.org,198.51.100.0/24"
	if got := i.noProxy(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestProxyChangesStepInputs(t *testing.T) {
	inputs := func(address, exceptions string) string {
		i := made(t, with(t, "kubernetes", ""))
		i.settings.proxy = proxy{address, strings.Fields(exceptions)}
		plan := i.makePlan()
		return plan[slices.Index(ids(plan), proxyStep)].Inputs
	}
	base := inputs("http://a", "")
	if base == inputs("http://b", "") || base == inputs("http://a", ".example.org") || base != inputs("http://a", "") {
		t.Error("the step is not run again when, and only when, its settings change")
	}
}

func TestEnvironmentValuesStayText(t *testing.T) {
	const value = "http://u:\"$(id)`x`\\@proxy"
	got := environmentValue(value)
	if want := "\"http://u:\\\"\\$(id)\\`x\\`\\\\@proxy\""; got != want || strings.ContainsRune(got, '\n') {
		t.Errorf("got %s, want %s", got, want)
	}
}
