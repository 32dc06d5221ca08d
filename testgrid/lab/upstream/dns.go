package upstream

import "github.com/sealift/sealift/internal/releases"

// What answers names on nodes.

// nodeCacheScripts is the component with the program that replaces node-cache.
const nodeCacheScripts = "node-cache-stand-in-1"

// nodeCacheScript does what node-cache does with the arguments that the add-on gives it: it makes the interface with the addresses, and rules
// by which packets to them miss kube-proxy's; it starts CoreDNS; and it removes both when it is told to end. The comments of the rules are
// upstream's, because a reset knows the rules by them.
const nodeCacheScript = `#!/bin/sh
set -eu
while [ $# -gt 0 ]; do
    case $1 in
    -localip) addresses=$(echo "$2" | tr , ' ') ;;
    -conf) conf=$2 ;;
    -upstreamsvc) service=$2 ;;
    -health-port) health=$2 ;;
    *) echo "the lab's node-cache does not know $1" >&2; exit 2 ;;
    esac
    shift 2
done
upstream=$(printenv "$(echo "$service" | tr a-z- A-Z_)_SERVICE_HOST")

rules() { # rules -I or -D
    for address in $addresses; do
        for protocol in tcp udp; do
            iptables -w -t raw "$1" PREROUTING -p "$protocol" -d "$address" --dport 53 -m comment --comment 'NodeLocal DNS Cache: skip conntrack' -j NOTRACK
            iptables -w -t raw "$1" OUTPUT -p "$protocol" -d "$address" --dport 53 -m comment --comment 'NodeLocal DNS Cache: skip conntrack' -j NOTRACK
            iptables -w -t raw "$1" OUTPUT -p "$protocol" -s "$address" --sport 53 -m comment --comment 'NodeLocal DNS Cache: skip conntrack' -j NOTRACK
            iptables -w "$1" INPUT -p "$protocol" -d "$address" --dport 53 -m comment --comment 'NodeLocal DNS Cache: allow DNS traffic' -j ACCEPT
            iptables -w "$1" OUTPUT -p "$protocol" -s "$address" --sport 53 -m comment --comment 'NodeLocal DNS Cache: allow DNS traffic' -j ACCEPT
        done
        iptables -w -t raw "$1" OUTPUT -p tcp -d "$address" --dport "$health" -m comment --comment 'NodeLocal DNS Cache: skip conntrack' -j NOTRACK
        iptables -w -t raw "$1" OUTPUT -p tcp -s "$address" --sport "$health" -m comment --comment 'NodeLocal DNS Cache: skip conntrack' -j NOTRACK
    done
}
remove() {
    while rules -D 2>/dev/null; do :; done
    ip link delete dev nodelocaldns 2>/dev/null || true
}

remove # what a killed one left
sed "s/__PILLAR__CLUSTER__DNS__/$upstream/" /etc/coredns/Corefile.base >"$conf"
# The kernel of a lab host may lack dummy interfaces. A bridge without ports does the same.
ip link add nodelocaldns type dummy 2>/dev/null || ip link add nodelocaldns type bridge
for address in $addresses; do ip address add "$address/32" dev nodelocaldns; done
rules -I
/coredns -conf "$conf" &
coredns=$!
trap 'kill "$coredns"; wait "$coredns" || true; remove; exit 0' TERM INT
code=0
wait "$coredns" || code=$?
remove
exit "$code"
`

func nodeLocalDNS() []Component {
	return []Component{{Name: "node-cache-stand-in", Version: "1", Recipe: TextFiles{map[string]string{"node-cache": nodeCacheScript}}}}
}

func nodeLocalDNSImages(version string) []Image {
	return []Image{{
		Ref: "registry.k8s.io/dns/k8s-dns-node-cache:" + version, Base: []string{netBase},
		StandIn: "the Go proxy refuses its module, k8s.io/dns; it is CoreDNS, and a script for the interface and the rules",
		Files: []Placed{
			{FileOf{nodeCacheScripts, "node-cache"}, "node-cache"},
			{FileOf{"coredns-" + releases.Current("kubernetes").With["coredns"], "coredns"}, "coredns"},
		},
		Entrypoint: []string{"/node-cache"},
	}}
}
