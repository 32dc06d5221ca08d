package pki

import (
	"context"
	"crypto/x509"
	"net"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
)

// serverCertificate is the one that an API server shows.
const serverCertificate = cluster.PKI + "/apiserver.crt"

// NewServerNames gives the certificate of this host's API server another name or address, and takes one from it. Either may be empty.
// It changes nothing, and finds nothing to do if the certificate is right. An API server reads a changed certificate by itself, within
// a minute. rootfs is the folder with the host's files; empty means /.
func NewServerNames(rootfs, add, drop string, now time.Time) (*Readdressing, error) {
	r := &Readdressing{host: host{rootfs}}
	entries, err := r.host.list(now)
	if err != nil {
		return nil, err
	}
	var authorities []Entry
	for _, e := range entries {
		if e.Kind == CA {
			authorities = append(authorities, e)
		}
		if e.File != serverCertificate || e.cert == nil {
			continue
		}
		if changed, needed := rename(*e.cert, add, drop); needed {
			r.all = append(r.all, renewal{Entry: e})
			r.all[len(r.all)-1].cert = &changed
		}
	}
	for i := range r.all {
		if err := r.host.findCA(&r.all[i], authorities, now); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// rename adds a name or an address to a certificate, and drops one.
func rename(c x509.Certificate, add, drop string) (changed x509.Certificate, needed bool) {
	c.DNSNames, c.IPAddresses = slices.Clone(c.DNSNames), slices.Clone(c.IPAddresses)
	if ip := net.ParseIP(add); ip != nil && !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
		c.IPAddresses, needed = append(c.IPAddresses, ip), true
	} else if ip == nil && add != "" && !slices.Contains(c.DNSNames, add) {
		c.DNSNames, needed = append(c.DNSNames, add), true
	}
	had := len(c.IPAddresses) + len(c.DNSNames)
	c.IPAddresses = slices.DeleteFunc(c.IPAddresses, func(ip net.IP) bool { return ip.Equal(net.ParseIP(drop)) })
	c.DNSNames = slices.DeleteFunc(c.DNSNames, func(name string) bool { return name == drop })
	return c, needed || len(c.IPAddresses)+len(c.DNSNames) != had
}

// RestartUsers restarts the static pods of this host whose manifests name one of the files, one after the other, and waits for each. The
// same generation again restarts nothing.
func RestartUsers(ctx context.Context, rootfs string, files []string, generation string) error {
	h := host{rootfs}
	manifests, err := h.manifests()
	if err != nil {
		return err
	}
	entries, err := h.list(time.Now())
	if err != nil {
		return err
	}
	for _, pod := range podsOf(files, manifests) {
		if err := h.restart(pod, generation); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, podTime)
		err := h.waitPod(bounded, pod, nodeName(entries), generation)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
