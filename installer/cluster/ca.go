package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

// KnownCAs returns the CAs of the cluster that a host knows, and the file that has them. rootfs is the folder with the host's files; empty
// means /. A host that knows no cluster returns none.
func KnownCAs(rootfs string) (all []*x509.Certificate, file string, err error) {
	for _, name := range []string{clusterCA, kubeadm.KubeletKubeconfig, kubeadm.AdminKubeconfig} {
		path := files.Host{Rootfs: rootfs}.Path(name)
		whole, err := hasContent(path)
		if err != nil {
			return nil, "", err
		}
		if !whole {
			continue
		}
		read := kubeconfigCAs
		if name == clusterCA {
			read = identity.ReadCAs
		}
		if all, err = read(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
		if len(all) > 0 {
			return all, name, nil
		}
	}
	return nil, "", nil
}

// kubeconfigCAs returns the CAs in a kubeconfig: none if it names a file instead.
func kubeconfigCAs(name string) ([]*x509.Certificate, error) {
	config, err := clientcmd.LoadFromFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, c := range config.Clusters {
		if len(c.CertificateAuthorityData) > 0 {
			return identity.ParseCAs(c.CertificateAuthorityData)
		}
	}
	return nil, nil
}

// checkClock refuses to wait for a cluster none of whose CAs is valid yet by the clock of the host: nothing answers before the clock is set.
// A CA that cannot be read says nothing about the clock.
func checkClock(rootfs string, now time.Time) error {
	all, file, err := KnownCAs(rootfs)
	if err != nil || len(all) == 0 || slices.ContainsFunc(all, func(ca *x509.Certificate) bool { return !now.Before(ca.NotBefore) }) {
		return nil //nolint:nilerr // the wait reports it
	}
	return fmt.Errorf("the CA of the cluster in %s begins on %s, and the clock of this host says %s; set the clock, for instance with timedatectl set-time, "+
		"and run the command again; if the clock is right, it was ahead when the cluster was made: run 'sealift reset', and install again",
		file, all[0].NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

// checkOwn refuses a certificate in a file of this host that is not valid now: programs of the cluster would refuse it without a reason.
func checkOwn(file string, now time.Time) error {
	all, err := identity.ReadCAs(file)
	if err != nil || !now.Before(all[0].NotBefore) && !now.After(all[0].NotAfter) {
		return err
	}
	return fmt.Errorf("%s is valid from %s to %s, and the clock of this host says %s; set the clock, for instance with timedatectl set-time, if it is wrong; "+
		"else run 'sealift certs renew'", file, all[0].NotBefore.UTC().Format(time.RFC3339), all[0].NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}
