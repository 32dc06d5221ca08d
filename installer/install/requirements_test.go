package install

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// TestUnmetRequirementsAreNamedWithWayOut has requirements that preflight must report, and that an install must refuse before its
// first change.
func TestUnmetRequirementsAreNamedWithWayOut(t *testing.T) {
	four, six := chosen(netip.MustParseAddr("192.0.2.7")), chosen(netip.MustParseAddr("fd00::7"))
	attached := netip.MustParsePrefix("10.20.0.0/24")
	everything := netip.MustParsePrefix("0.0.0.0/0")
	for name, row := range map[string]struct {
		spec    string // more of the Installer
		six     bool   // the host has only IPv6
		used    []netip.Prefix
		joined  bool
		want    preflight.Result
		nothing bool // is invalid
	}{
		"nothing":                {nothing: true},
		"IPv6 alone":             {six: true, want: preflight.Result{Check: "address", Message: "this host has no IPv4 address, only IPv6 such as fd00::7", Hint: "set kurl.ipv6 in the Installer"}},
		"a clash":                {spec: "  flannel: {version: 1.0.0, podCIDR: 10.20.0.0/20}\n", used: []netip.Prefix{attached}, want: preflight.Result{Check: "networks", Message: `flannel.podCIDR is "10.20.0.0/20": overlaps 10.20.0.0/24`, Hint: "name another network as flannel.podCIDR"}},
		"no free network":        {used: []netip.Prefix{everything}, want: preflight.Result{Check: "networks", Message: "POD_CIDR: ", Hint: "name one as flannel.podCIDR"}},
		"a public network":       {spec: "  flannel: {version: 1.0.0, podCIDR: 8.8.8.0/24}\n", want: preflight.Result{Check: "networks", Message: "not a private IPv4 network", Hint: "or leave it out"}},
		"a proxy without scheme": {spec: "  kurl: {proxyAddress: 'proxy.example.com:3128'}\n", want: preflight.Result{Check: "proxy", Message: "kurl.proxyAddress is not an address", Hint: "write it with http:// or https://"}},
		"no certificate":         {spec: "  kurl: {caCertificates: none}\n", want: preflight.Result{Check: "certificates", Message: "kurl.caCertificates", Hint: "change it in the Installer"}},
		"a wrong label":          {spec: "  kurl: {nodeLabels: ['a b=c']}\n", want: preflight.Result{Check: "node labels", Message: "kurl.nodeLabels", Hint: "change it in the Installer"}},
		"a wrong mode":           {spec: "  selinuxConfig: {selinux: maybe}\n", want: preflight.Result{Check: "SELinux", Message: `selinuxConfig.selinux is "maybe"`, Hint: "it can be enforcing, permissive, disabled"}},
		"no key for snapshots":   {spec: "  snapshots: {every: 1h}\n", want: preflight.Result{Check: "snapshots", Message: "snapshots.key", Hint: "change it in the Installer"}},
		"a relative folder":      {spec: "  metrics: {folder: here}\n", want: preflight.Result{Check: "metrics", Message: "metrics.folder", Hint: "change it in the Installer"}},
		"a node of a cluster":    {joined: true, want: preflight.Result{Check: "join", Message: "this host has joined a cluster", Hint: "sealift reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := made(t, with(t, "kubernetes", ""), with(t, "flannel", ""))
			i.options.Root = filepath.Join(t.TempDir(), "root")
			i.spec = parseSpec(t, row.spec)
			i.facts.Address, i.facts.Used, i.facts.Attached = four, row.used, row.used
			if row.six {
				i.facts.Address, i.facts.Address6 = network.Choice{}, six
			}
			if row.joined {
				finished(t, i, lifecycle.Step{ID: node.JoinStep}, nil)
			}
			if err := i.chooseAddress(); err != nil {
				t.Fatal(err)
			}
			i.settings = i.newSettings()
			i.vars = i.variables()
			i.refused = i.unmet(requirements())
			early, err := unmetByInstaller(i.spec, i.facts)
			if want := slices.DeleteFunc(slices.Clone(i.refused), func(r preflight.Result) bool { return !isEarly(r.Check) }); err != nil || !slices.Equal(early, want) {
				t.Errorf("without the bundle: %v, %v; want %v", early, err, want)
			}
			if row.nothing {
				if len(i.refused) > 0 {
					t.Errorf("refused: %v", i.refused)
				}
				return
			}
			if len(i.refused) != 1 {
				t.Fatalf("got %v, want %v alone", i.refused, row.want)
			}
			got := i.refused[0]
			if got.Check != row.want.Check || got.Status != preflight.Fail || !got.Final || !strings.Contains(got.Message, row.want.Message) || !strings.Contains(got.Hint, row.want.Hint) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
			refused := new(preflight.RefusedError)
			if _, err := i.Run(t.Context(), func(lifecycle.Event) {}); !errors.As(err, &refused) {
				t.Errorf("the run: %v", err)
			}
			if _, err := os.Stat(i.options.Root); err == nil {
				t.Error("the run changed the host")
			}
		})
	}
}

func TestRequirementsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, one := range requirements() {
		if one.name == "" || one.check == nil || seen[one.name] {
			t.Errorf("%+v", one)
		}
		seen[one.name] = true
	}
}

func isEarly(name string) bool {
	return slices.ContainsFunc(requirements(), func(q requirement) bool { return q.early && q.name == name })
}
