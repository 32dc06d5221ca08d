package pki

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

// Readdressing changes an address in the certificates of this host that have it. The keys stay.
type Readdressing struct {
	host host
	all  []renewal
}

// NewReaddressing finds the certificates that name from, and the CAs that sign new ones. It changes nothing. With both, the new
// certificates also name from. The kubelet's own certificates are left out: the kubelet requests new ones. rootfs is the folder with
// the host's files; empty means /.
func NewReaddressing(rootfs string, from, to netip.Addr, both bool, now time.Time) (*Readdressing, error) {
	return newReaddressing(rootfs, now, func(file string, c *x509.Certificate) (changed bool) {
		if !strings.HasPrefix(file, kubeletFolder) {
			c.IPAddresses, changed = readdress(c.IPAddresses, from, to, both)
		}
		return changed
	})
}

// newReaddressing asks edit for the certificates that change, and finds the CAs that sign new ones. edit gets a copy of each, and
// reports whether it has changed that.
func newReaddressing(rootfs string, now time.Time, edit func(file string, c *x509.Certificate) (changed bool)) (*Readdressing, error) {
	r := &Readdressing{host: host{files.Host{Rootfs: rootfs}}}
	entries, err := r.host.list(now)
	if err != nil {
		return nil, err
	}
	var authorities []Entry
	for _, e := range entries {
		if e.Kind == CA {
			authorities = append(authorities, e)
			continue
		}
		if e.cert == nil {
			continue
		}
		if cert := *e.cert; edit(e.File, &cert) {
			e.cert = &cert
			r.all = append(r.all, renewal{Entry: e})
		}
	}
	for i := range r.all {
		if err := r.host.findCA(&r.all[i], authorities, now); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readdress replaces an address in a list, or adds the new one. changed is false if the list is right already.
func readdress(addresses []net.IP, from, to netip.Addr, both bool) (list []net.IP, changed bool) {
	names, hasNew := false, false
	for _, ip := range addresses {
		a, _ := netip.AddrFromSlice(ip)
		a = a.Unmap()
		names, hasNew = names || a == from, hasNew || a == to
		if a != from || both {
			list = append(list, ip)
		}
	}
	if names && !hasNew {
		list = append(list, to.AsSlice())
	}
	return list, names && (!hasNew || !both)
}

// findCA finds the CA that signed a certificate.
func (h host) findCA(r *renewal, authorities []Entry, now time.Time) error {
	for _, ca := range authorities {
		// the signature is that of the certificate on disk, which the copy with other addresses keeps in its raw bytes
		if r.cert.CheckSignatureFrom(ca.cert) != nil {
			continue
		}
		signer, err := h.issuer(ca, now)
		if err != nil {
			return fmt.Errorf("change the address of %s: %w", r.File, err)
		}
		r.ca = signer
		return nil
	}
	return fmt.Errorf("%s names the address, and no CA in %s/pki signed it; make a certificate with both addresses where it came from, and try again", r.File, kubeadm.Folder)
}

// Files are the files that get a new certificate.
func (r *Readdressing) Files() []string { return filesOf(r.all) }

// Issue writes the new certificates. It may be interrupted: a new Readdressing finds the rest.
func (r *Readdressing) Issue(now time.Time) error { return r.host.issue(r.all, now) }
