package install

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/spec"
)

func TestSettingsFollowInstallerAndHost(t *testing.T) {
	none := map[firewall.Firewall]firewallOptions{firewall.Firewalld: {}, firewall.UFW: {}}
	for name, row := range map[string]struct {
		text string
		join *Join
		want settings
	}{
		"nothing": {"", nil, settings{address: "192.0.2.7", endpoint: balancer.Endpoint, clusterName: "kubernetes", airGap: true, firewalls: none}},
		"all": {`  kubernetes: {version: 1.36.3, clusterName: blue, loadBalancerAddress: lb, serviceCIDR: 10.1.0.0/20, serviceCidrRange: /22, useStandardNodePortRange: true}
  containerd: {version: 2.2.1, preserveConfig: true}
  antrea: {version: "1", podCIDR: 10.2.0.0/16, podCidrRange: "20"}
  kurl: {privateAddress: 192.0.2.8, publicAddress: 198.51.100.1, hostnameCheck: one, skipSystemPackageInstall: true, proxyAddress: "http://p:1", additionalNoProxyAddresses: [a, b], caCertificates: pem}
  selinuxConfig: {disableSelinux: true}
  firewalldConfig: {disableFirewalld: true}
  ufwConfig: {bypassUFWWarning: true}
`, nil, settings{
			address: "192.0.2.8", publicAddress: "198.51.100.1", loadBalancer: "lb", endpoint: "lb:6443", clusterName: "blue", airGap: true, onlyHost: "one", skipPackages: true,
			keepRuntime: true, standardPorts: true, certificates: "pem", selinux: "permissive", proxy: proxy{"http://p:1", []string{"a", "b"}},
			firewalls: map[firewall.Firewall]firewallOptions{firewall.Firewalld: {disable: true}, firewall.UFW: {leave: true}},
			pods:      subnet{"10.2.0.0/16", "20"}, services: subnet{"10.1.0.0/20", "/22"},
		}},
		"firewalld that is kept is not disabled": {"  firewalldConfig: {preserveConfig: true, disableFirewalld: true}\n", nil, settings{
			address: "192.0.2.7", endpoint: balancer.Endpoint, clusterName: "kubernetes", airGap: true, firewalls: map[firewall.Firewall]firewallOptions{firewall.Firewalld: {leave: true}, firewall.UFW: {}},
		}},
		"no proxy after all": {"  kurl: {proxyAddress: \"http://p:1\", noProxy: true}\n", nil, settings{
			address: "192.0.2.7", endpoint: balancer.Endpoint, clusterName: "kubernetes", airGap: true, firewalls: none,
		}},
		"a load balancer with a port": {"  kubernetes: {version: 1.36.3, loadBalancerAddress: \"lb:443\"}\n", nil, settings{
			address: "192.0.2.7", loadBalancer: "lb:443", endpoint: "lb:443", clusterName: "kubernetes", airGap: true, firewalls: none,
		}},
		"a host that joins": {"  kubernetes: {version: 1.36.3, clusterName: blue}\n", &Join{Cluster: share.Cluster{Name: "green", Endpoint: "lb:6443"}}, settings{
			address: "192.0.2.7", endpoint: "lb:6443", clusterName: "green", airGap: true, firewalls: none,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text := row.text
			if !strings.Contains(text, "kubernetes:") {
				text += "  kubernetes: {version: 1.36.3}\n"
			}
			s, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n"+text))
			if err != nil {
				t.Fatal(err)
			}
			i := &job{contents: contents{spec: s}, options: Options{Join: row.join}, address: chosen(netip.MustParseAddr("192.0.2.7"))}
			got := i.newSettings()
			if diff := cmp.Diff(row.want, got, cmp.AllowUnexported(settings{}, proxy{}, firewallOptions{}, subnet{})); diff != "" {
				t.Error(diff)
			}
			i.settings = got
			for name, want := range map[string]string{"PRIVATE_ADDRESS": got.address, "KUBERNETES_API_ENDPOINT": got.endpoint, "KUBERNETES_CLUSTER_NAME": got.clusterName, "AIRGAP": "1"} {
				if has := i.variables()[name]; has != want {
					t.Errorf("hooks see %s as %q, want %q", name, has, want)
				}
			}
		})
	}
}
