package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/privatekey"
	"github.com/sealift/sealift/internal/regularfile"
)

// Exchange brings the keys and certificates of a control plane to the stage of a rotation, and returns the static pods to restart, in
// their order. It may be interrupted and run again. rootfs is the folder with the host's files; empty means /.
func Exchange(rootfs string, s authority.State, now time.Time) (pods []string, err error) {
	h := host{files.Host{Rootfs: rootfs}}
	files, err := h.exchange(s, now)
	if err != nil {
		return nil, err
	}
	manifests, err := h.manifests()
	return podsOf(files, manifests), err
}

// exchange brings the keys and certificates of a control plane to the stage of a rotation. It may be interrupted and run again.
// It returns the files that pods have to reread: the same ones each time, whatever was left to do.
func (h host) exchange(s authority.State, now time.Time) (files []string, err error) {
	entries, err := h.list(now)
	if err != nil {
		return nil, err
	}
	for _, p := range s.Parts {
		more, err := h.exchangePart(p, s.Stage, entries, now)
		if err != nil {
			return nil, fmt.Errorf("rotate the %s part: %w", p.Name, err)
		}
		files = append(files, more...)
	}
	return files, nil
}

func (h host) exchangePart(p authority.Part, stage authority.Stage, entries []Entry, now time.Time) (files []string, err error) {
	if p.IsCA() {
		leaves, err := h.exchangeLeaves(p, stage, entries, now)
		if err != nil {
			return nil, err
		}
		if stage != authority.Sign {
			files = append(files, leaves...)
		}
	}
	if err := h.keep(p.Trusted(), 0o644, p.Bundle(stage)); err != nil {
		return nil, err
	}
	if stage == authority.Trust {
		files = append(files, p.Trusted())
	} else if err := h.keep(p.Private(), 0o600, []byte(p.Key)); err != nil {
		return nil, err
	}
	switch stage {
	case authority.Sign:
		files = append(files, p.Private())
	case authority.Forget:
		files = append(files, p.Trusted())
	}
	if p.Name != authority.Cluster {
		return files, nil
	}
	if stage != authority.Forget {
		err = h.keep(authority.SignerFile, 0o600, p.Signer(stage))
	}
	if err == nil {
		err = h.exchangeKubeconfigs(p.Bundle(stage))
	}
	return files, err
}

// keep writes a file unless it has that content. A file that exists keeps its mode.
func (h host) keep(name string, mode fs.FileMode, content []byte) error {
	is, err := regularfile.ReadFile(h.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return files.WriteMode(h.Path(name), mode, content)
	}
	if err != nil {
		return err
	}
	return replace(h.Path(name), is, content)
}

// exchangeLeaves replaces certificates of the old CA by ones of the new CA, and returns the files of all of them.
func (h host) exchangeLeaves(p authority.Part, stage authority.Stage, entries []Entry, now time.Time) (files []string, err error) {
	old, renewed, err := p.Certificates()
	if err != nil {
		return nil, err
	}
	key, err := privatekey.Parse([]byte(p.Key))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.cert == nil || e.Kind == CA || strings.HasPrefix(e.File, kubeletFolder) {
			continue
		}
		der, ofNew := e.cert.Raw, e.cert.CheckSignatureFrom(renewed) == nil
		if !ofNew && e.cert.CheckSignatureFrom(old) != nil {
			continue
		}
		if !ofNew {
			if der, err = (issuer{renewed, key}).sign(e.cert, now); err != nil {
				return nil, err
			}
		}
		if err := h.writeChain(e, der, p.Chain(stage)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.File, err)
		}
		files = append(files, e.File)
	}
	return files, nil
}

// writeChain writes a certificate, and its chain, in place of all certificates of a file.
func (h host) writeChain(e Entry, der, chain []byte) error {
	whole := append(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der}), chain...)
	return h.write(e, func(text []byte) []byte { return replaceAll(text, whole) })
}

// exchangeKubeconfigs lets the kubeconfigs of this host trust a bundle.
func (h host) exchangeKubeconfigs(bundle []byte) error {
	paths, err := filepath.Glob(h.Path(kubeadm.Folder + "/*.conf"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		config, err := clientcmd.LoadFromFile(path)
		if err != nil {
			return err
		}
		changed := false
		for _, c := range config.Clusters {
			if len(c.CertificateAuthorityData) > 0 && !bytes.Equal(c.CertificateAuthorityData, bundle) {
				c.CertificateAuthorityData, changed = bundle, true
			}
		}
		if !changed {
			continue
		}
		text, err := clientcmd.Write(*config)
		if err != nil {
			return err
		}
		if err := files.Replace(path, text); err != nil {
			return err
		}
	}
	return nil
}

// signerFlag names the CA of the controller manager.
const signerFlag = "cluster-signing-cert-file"

// setSigner lets the controller manager sign with another certificate. It accepts no file with several, such as ca.crt during a
// rotation.
func setSigner(file string) func(map[string]any) error {
	return func(manifest map[string]any) error {
		if !kubeadm.Pod(manifest).Replace(signerFlag, file) {
			return fmt.Errorf("its command has no --%s, as kubeadm writes it", signerFlag)
		}
		return nil
	}
}

// dropServing removes the kubelet's serving certificate if the old CA signed it: the kubelet requests another one when it starts.
func (h host) dropServing(old *x509.Certificate) error {
	e := h.certificate(kubeletRotated)
	if e.cert == nil || e.cert.CheckSignatureFrom(old) != nil {
		return nil //nolint:nilerr // the new CA signed it, or nobody that counts
	}
	return files.Remove(h.Path(kubeletRotated))
}

// hasOld reports whether the kubelet of this host shows the API a certificate of the old CA.
func (h host) hasOld(old *x509.Certificate) (Entry, bool) {
	e := h.kubeconfig(kubeadm.KubeletKubeconfig)
	return e, e.cert != nil && e.cert.CheckSignatureFrom(old) == nil
}
