package approver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
)

// serving reads a request for a kubelet's serving certificate: a node of the cluster requests its own name and addresses. A node
// writes its addresses into its status itself, so addresses with another owner are refused.
func (f facts) serving(r certificatesv1.CertificateSigningRequestSpec) (q question, err error) {
	party, name := partyOf(r)
	q = question{party: party, right: identity.ServeOwn, node: name}
	asked, err := parseRequest(r.Request)
	if err != nil {
		return q, err
	}
	if party != identity.Worker {
		q.node = ""
		q.right, err = f.served(asked, name)
		return q, errors.Join(fmt.Errorf("%s is not a node", r.Username), err)
	}
	own, there := f.nodes[name]
	switch {
	case !there:
		return q, fmt.Errorf("the cluster has no node %s", name)
	case f.removed[name].Gone():
		return q, fmt.Errorf("node %s was removed from the cluster, and has not joined again", name)
	}
	if err := checkUsages(r, certificatesv1.UsageServerAuth); err != nil {
		return q, err
	}
	if subject, err := nodeOf(asked); err != nil || subject != name {
		return q, fmt.Errorf("its subject is %q, but %s requested it", asked.Subject, r.Username)
	}
	if len(asked.EmailAddresses)+len(asked.URIs) > 0 || len(asked.DNSNames)+len(asked.IPAddresses) == 0 {
		return q, errors.New("it has to be for names or addresses of the node, and nothing else")
	}
	if !own.ControlPlane {
		if q.right, err = f.served(asked, name); err != nil {
			return q, err
		}
	}
	return q, f.checkOwn(own, asked)
}

// served returns what a request is for: to serve at a name or an address of the API, or at others. The error names the first one of
// the API.
func (f facts) served(asked *x509.CertificateRequest, node string) (identity.Right, error) {
	names := append([]string{node}, asked.DNSNames...) // anyone with a join token chooses the name of a node
	for _, ip := range asked.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range names {
		what, taken := f.api.name(name)
		if !taken && !f.nodes[node].served(name) {
			what, taken = f.choice(name)
		}
		if taken {
			return identity.ServeAPI, fmt.Errorf("%s is %s", name, what)
		}
	}
	return identity.ServeOwn, nil
}

// choice returns the Service for which a user chose an address; taken is false for other texts.
func (f facts) choice(text string) (what string, taken bool) {
	address, _ := parseAddress(text)
	what, taken = f.chosen[address]
	return what, taken
}

// served reports whether a text is an address of the node's first serving certificate.
func (n node) served(text string) bool {
	address, ok := parseAddress(text)
	return ok && slices.Contains(n.Served, address)
}

func addressesOf(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if address, ok := parseAddress(text); ok {
			all = append(all, address)
		}
	}
	return all
}

// remember notes the addresses of a node's first serving certificate. Who may make Services could take them from the node otherwise, by
// a Service that has them as externalIPs. Later addresses are not noted: a node that is taken over must not keep those of Services.
func (f facts) remember(ctx context.Context, client kubernetes.Interface, node string, r certificatesv1.CertificateSigningRequestSpec) error {
	asked, err := parseRequest(r.Request)
	if err != nil || len(asked.IPAddresses) == 0 || len(f.nodes[node].Served) > 0 {
		return err
	}
	var texts []string
	for _, ip := range asked.IPAddresses {
		texts = append(texts, ip.String())
	}
	return cluster.SetApproverConfig(ctx, client, cluster.ServedPrefix+node, strings.Join(texts, " "))
}

// checkOwn requires all names and addresses of a request to belong to a node, and to nobody else.
func (f facts) checkOwn(own node, asked *x509.CertificateRequest) error {
	for _, name := range asked.DNSNames {
		if name != own.Name { // as it joined: neither in capitals, nor with a trailing dot
			return fmt.Errorf("it is for the name %s, not only for %s", name, own.Name)
		}
		if isServiceName(name) {
			return fmt.Errorf("%s is the name of a Service", name)
		}
	}
	for _, ip := range asked.IPAddresses {
		address, ok := netip.AddrFromSlice(ip)
		if !ok {
			return fmt.Errorf("%s is not an address", ip)
		}
		if err := f.checkAddress(own, address.Unmap()); err != nil {
			return err
		}
	}
	return nil
}

func (f facts) checkAddress(own node, address netip.Addr) error {
	if !address.IsGlobalUnicast() || !own.has(address) {
		return fmt.Errorf("node %s does not have the address %s", own.Name, address)
	}
	if _, taken := f.chosen[address]; f.services[address] || taken && !slices.Contains(own.Served, address) {
		return fmt.Errorf("%s is the address of a Service", address)
	}
	for _, other := range f.nodes {
		if other.Name != own.Name && other.has(address) {
			return fmt.Errorf("%s is also the address of node %s", address, other.Name)
		}
	}
	return nil
}
