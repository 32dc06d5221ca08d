package pki

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/regularfile"
)

// serverCertificate is the one that an API server presents.
const serverCertificate = kubeadm.PKI + "/apiserver.crt"

// ServerNames lists the names and addresses in the certificates with which this host serves the API and etcd. A host that serves
// neither has none. rootfs is the folder with the host's files; empty means /.
func ServerNames(rootfs string) (names []string, err error) {
	h := host{files.Host{Rootfs: rootfs}}
	for _, file := range []string{serverCertificate, kubeadm.PKI + "/etcd/server.crt", kubeadm.PKI + "/etcd/peer.crt"} {
		text, err := regularfile.ReadFile(h.Path(file))
		if errors.Is(err, fs.ErrNotExist) { // etcd may run elsewhere
			continue
		}
		if err != nil {
			return nil, err
		}
		c, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		names = append(names, c.DNSNames...)
		for _, ip := range c.IPAddresses {
			names = append(names, ip.String())
		}
	}
	return names, nil
}

// NewServerNames adds a name or address to the certificate of this host's API server, and removes one. Either may be empty. It changes
// nothing, and finds nothing to do if the certificate is right. An API server rereads a changed certificate on its own, within a
// minute. rootfs is the folder with the host's files; empty means /.
func NewServerNames(rootfs, add, drop string, now time.Time) (*Readdressing, error) {
	return newReaddressing(rootfs, now, func(file string, c *x509.Certificate) bool {
		return file == serverCertificate && rename(c, add, drop)
	})
}

// rename adds a name or an address to a certificate, and drops one.
func rename(c *x509.Certificate, add, drop string) (changed bool) {
	c.DNSNames, c.IPAddresses = slices.Clone(c.DNSNames), slices.Clone(c.IPAddresses)
	if ip := net.ParseIP(add); ip != nil && !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
		c.IPAddresses, changed = append(c.IPAddresses, ip), true
	} else if ip == nil && add != "" && !slices.Contains(c.DNSNames, add) {
		c.DNSNames, changed = append(c.DNSNames, add), true
	}
	had := len(c.IPAddresses) + len(c.DNSNames)
	c.IPAddresses = slices.DeleteFunc(c.IPAddresses, func(ip net.IP) bool { return ip.Equal(net.ParseIP(drop)) })
	c.DNSNames = slices.DeleteFunc(c.DNSNames, func(name string) bool { return name == drop })
	return changed || len(c.IPAddresses)+len(c.DNSNames) != had
}

// RestartUsers restarts the static pods of this host whose manifests name one of the changed files, in sequence, and waits for each. The
// same generation again restarts nothing.
func RestartUsers(ctx context.Context, rootfs string, changed []string, generation string) error {
	h := host{files.Host{Rootfs: rootfs}}
	manifests, err := h.manifests()
	if err != nil {
		return err
	}
	entries, err := h.list(time.Now())
	if err != nil {
		return err
	}
	for _, pod := range podsOf(changed, manifests) {
		if err := h.restart(pod, generation); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, speed.Patience(podTime))
		err := h.waitPod(bounded, pod, nodeName(entries), generation)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
