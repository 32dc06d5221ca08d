package firewall

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
)

const rulesOfTheHost = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:MINE - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "KUBE-LOOKALIKE -j KUBE-nothing" -j ACCEPT
-A FORWARD -j MINE
-A MINE -s 192.0.2.0/24 -j ACCEPT
COMMIT
`

const rulesOfTheCluster = `*filter
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
:FLANNEL-FWD - [0:0]
:ANTREA-FORWARD - [0:0]
:OLD_CILIUM_FORWARD - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -j KUBE-FIREWALL
-A FLANNEL-FWD -s 10.32.0.0/20 -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:CNI-0123456789abcdef - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -s 10.32.0.2/32 -m comment --comment "name: \"cbr0\" id: \"x\"" -j CNI-0123456789abcdef
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j RETURN
COMMIT
*raw
-A PREROUTING -d 169.254.20.10/32 -p udp -m udp --dport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK
COMMIT
`

func TestFirewallLosesClusterChainsOnly(t *testing.T) {
	isolation.Network(t)
	isolation.Run(t, rulesOfTheHost, "iptables-restore")
	before := Rules(t.Context())
	isolation.Run(t, rulesOfTheCluster, "iptables-restore", "--noflush")
	if with := Rules(t.Context()); len(with) != len(before)+16 {
		t.Fatalf("%d rules and chains, want %d:\n%s", len(with), len(before)+16, strings.Join(with, "\n"))
	}
	for range 2 {
		if err := RemoveChains(t.Context(), io.Discard, PodChains()); err != nil {
			t.Fatal(err)
		}
	}
	if after := Rules(t.Context()); !slices.Equal(after, before) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

func FuzzSavedRules(f *testing.F) {
	f.Add(rulesOfTheHost)
	f.Add(rulesOfTheCluster)
	f.Add("*nat\n-A \n:\n-A x -j")
	f.Fuzz(func(t *testing.T, text string) {
		prefixes := []string{"KUBE-"}
		script := removal(parseSaved(text), prefixes)
		for line := range strings.Lines(script) {
			if chain, ok := strings.CutPrefix(line, "-F "); ok && !strings.HasPrefix(chain, "KUBE-") {
				t.Errorf("%q is flushed for\n%s", chain, text)
			}
		}
	})
}
