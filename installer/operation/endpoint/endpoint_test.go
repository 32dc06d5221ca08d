package endpoint

import (
	"net"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
)

func TestAddressesOfLoadBalancers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.9": "10.0.0.9:6443", "10.0.0.9:443": "10.0.0.9:443", "fd00::9": "[fd00::9]:6443", "[fd00::9]:443": "[fd00::9]:443", "[fd00::9]": "[fd00::9]:6443",
		"api.example.com": "api.example.com:6443", "API.example.com:8443": "api.example.com:8443", "127.0.0.1:8443": "127.0.0.1:8443",
		// none
		"": "", "10.0.0.300": "", "10.0.0": "", "api_1": "", "https://10.0.0.9:6443": "", "10.0.0.9:0": "", "10.0.0.9:99999": "", "10.0.0.9:x": "", "0.0.0.0": "",
		"224.0.0.1": "", "169.254.1.1": "", "fe80::1%eth0": "", "a b": "", "10.0.0.9\nserver: x": "",
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("10.0.0.9:6443")
	f.Add("[fd00::9]")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(got); err != nil || again != got || strings.ContainsAny(got, " \n\"'/") {
			t.Errorf("%q is %q, and that is %q, %v", text, got, again, err)
		}
		if _, _, err := net.SplitHostPort(got); err != nil {
			t.Errorf("%q is %q: %v", text, got, err)
		}
	})
}

// TestOnlyOldLoadBalancerIsReplaced checks what files and ConfigMaps have.
func TestOnlyOldLoadBalancerIsReplaced(t *testing.T) {
	t.Parallel()
	const old, renewed = "10.0.0.1:6443", "api.example.com:443"
	for _, row := range []struct {
		name       string
		set        func(text, was, is string) (string, int)
		text, want string // "" for no change
	}{
		{"a kubeconfig", setServer, "clusters:\n- cluster:\n    server: https://10.0.0.1:6443\n  name: a\n", "clusters:\n- cluster:\n    server: https://api.example.com:443\n  name: a\n"},
		{"a quoted one", setServer, "    server: \"https://10.0.0.1:6443\"\n", "    server: \"https://api.example.com:443\"\n"},
		{"another port", setServer, "    server: https://10.0.0.1:64430\n", ""},
		{"another host", setServer, "    server: https://110.0.0.1:6443\n", ""},
		{"a dot that is one", setServer, "    server: https://10x0.0.1:6443\n", ""},
		{"an Installer", setInstaller, "  kubernetes:\n    loadBalancerAddress: 10.0.0.1:6443\n", "  kubernetes:\n    loadBalancerAddress: api.example.com:443\n"},
		{"an Installer without a port", setInstaller, "    loadBalancerAddress: 10.0.0.1\n", "    loadBalancerAddress: api.example.com:443\n"},
		{"another option", setInstaller, "    privateAddress: 10.0.0.1\n", ""},
		{"exceptions", func(text, was, is string) (string, int) {
			return setExceptions(text, cluster.HostOf(was), cluster.HostOf(is))
		},
			"HTTP_PROXY=\"http://10.0.0.1:3128\"\nNO_PROXY=\"localhost,10.0.0.1,10.0.0.11\"\n", "HTTP_PROXY=\"http://10.0.0.1:3128\"\nNO_PROXY=\"localhost,api.example.com,10.0.0.11\"\n"},
	} {
		want, places := row.want, 1
		if want == "" {
			want, places = row.text, 0
		}
		if got, n := row.set(row.text, old, renewed); got != want || n != places {
			t.Errorf("%s: %q, %d places", row.name, got, n)
		}
	}
}
