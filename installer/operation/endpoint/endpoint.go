// Package endpoint gives the API of a cluster another load balancer: on all nodes, one after the other, while the old one may still
// work.
//
// Every API server first gets a certificate for both load balancers, and every node tries the new one. Then each node changes its
// kubeconfigs; one that does not reach the API through the new load balancer takes that back. The certificates keep the old name
// until a person confirms that nobody needs it. The load balancers themselves are managed by others.
package endpoint

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/installer/cluster"
)

// numeric ends a mistyped address, which is not a name.
var numeric = regexp.MustCompile(`(^|\.)[0-9]+$`)

// Parse reads the address of a load balancer as a person writes it: an address or a name, with a port or without. The result has the
// port.
func Parse(text string) (string, error) {
	wrong := func(why string) (string, error) {
		return "", fmt.Errorf("%q is not an address of a load balancer: %s; give one such as 10.0.0.9:6443 or api.example.com", text, why)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), cluster.APIPort
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return wrong("the port is not between 1 and 65535")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.Zone() != "" {
			return wrong("other hosts cannot reach it through a network")
		}
		return net.JoinHostPort(a.Unmap().String(), port), nil
	}
	host = strings.ToLower(host)
	if numeric.MatchString(host) || len(validation.IsDNS1123Subdomain(host)) > 0 {
		return wrong("the host is neither an IP address nor a name")
	}
	return net.JoinHostPort(host, port), nil
}

// setField replaces the old value of a field in a YAML text wherever it is alone on a line, and counts the places.
func setField(text, key, was, is string) (out string, places int) {
	line := regexp.MustCompile(`(?m)^([ \t]*(?:- )?` + regexp.QuoteMeta(key) + `:[ \t]*(["']?))` + regexp.QuoteMeta(was) + `(["']?[ \t]*)$`)
	out = line.ReplaceAllStringFunc(text, func(found string) string {
		places++
		parts := line.FindStringSubmatch(found)
		return parts[1] + is + parts[3]
	})
	return out, places
}

// setServer sets another endpoint in the clusters of a kubeconfig.
func setServer(text, was, is string) (string, int) {
	return setField(text, "server", "https://"+was, "https://"+is)
}

// setInstaller gives an Installer another load balancer. It may name the old one without the usual port.
func setInstaller(text, was, is string) (out string, places int) {
	out, places = setField(text, "loadBalancerAddress", was, is)
	if places == 0 && was == net.JoinHostPort(cluster.HostOf(was), cluster.APIPort) {
		return setField(text, "loadBalancerAddress", cluster.HostOf(was), is)
	}
	return out, places
}

// setExceptions replaces an entry in the list of hosts that are reached without a proxy.
func setExceptions(text, was, is string) (out string, places int) {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		name, value, found := strings.Cut(line, "=")
		if found && strings.EqualFold(name, "NO_PROXY") {
			items := strings.Split(strings.Trim(value, `"`), ",")
			for i, item := range items {
				if item == was {
					items[i] = is
					places++
				}
			}
			line = name + `="` + strings.Join(items, ",") + `"`
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), places
}
