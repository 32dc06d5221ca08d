package restore

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

// endpointOf is where the nodes of a snapshot reach the API, host:port. It is "" if the snapshot does not contain it.
func endpointOf(from *snapshot.Content) string {
	text, _ := from.File(strings.TrimPrefix(kubeadm.AdminKubeconfig, "/"))
	config, err := clientcmd.Load(text)
	if err != nil {
		return ""
	}
	for _, c := range config.Clusters {
		if server, err := url.Parse(c.Server); err == nil {
			return server.Host
		}
	}
	return ""
}

// reached reports whether the other nodes can reach the API on this host. Their balancers know the addresses of all control planes. Where a
// load balancer passes connections on is not known here.
func (n *NewHost) reached(address string) bool {
	var old []string
	for _, p := range append([]peer{n.was.peer()}, n.others...) {
		old = append(old, p.hosts()...)
	}
	at, _, err := net.SplitHostPort(n.endpoint)
	switch {
	case err != nil, balancer.Serves(n.endpoint):
		return slices.Contains(old, address)
	case slices.Contains(old, at): // kubeadm's, without a load balancer
		return at == address
	}
	return true
}
