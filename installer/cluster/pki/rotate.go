package pki

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/certificate/csr"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/privatekey"
	"github.com/sealift/sealift/internal/regularfile"
)

// Rotator brings this host to the stages of a rotation of CAs.
type Rotator struct {
	Root   string
	Output io.Writer
	Step   func(string) // called with what begins; nil for nobody

	host host
}

func (r Rotator) step(text string) {
	if r.Step != nil {
		r.Step(text)
	}
}

// Bring brings this host to the stage of a rotation, and returns when it works with it. It may be interrupted and run again. The
// agent of this host has to be restarted afterwards: it may know only the old CA.
func (r Rotator) Bring(ctx context.Context, s authority.State) error {
	_, err := os.Stat(r.host.Path(kubeadm.APIServerManifest))
	if errors.Is(err, fs.ErrNotExist) {
		return r.bringWorker(ctx, s)
	}
	if err != nil {
		return err
	}
	return r.bringControlPlane(ctx, s)
}

func (r Rotator) bringControlPlane(ctx context.Context, s authority.State) error {
	entries, err := r.host.list(time.Now())
	if err != nil {
		return err
	}
	node := nodeName(entries)
	if node == "" {
		return errors.New(kubeadm.KubeletKubeconfig + " lacks the name of this node")
	}
	r.step("keys and certificates")
	if known, ok, err := authority.Read(r.host.Rootfs); err != nil {
		return err
	} else if ok && known.After(s) {
		return fmt.Errorf("this node is already at the stage %q of the rotation, which is after %q: run the command on the control plane that led it there", known.Stage, s.Stage)
	}
	if err := files.WriteMode(r.host.Path(authority.File), 0o600, s.Encode()); err != nil {
		return err
	}
	pods, err := Exchange(r.host.Rootfs, s, time.Now())
	if err != nil {
		return err
	}
	generation := s.ID + "-" + string(s.Stage)
	for _, pod := range pods {
		r.step("restart " + pod)
		if err := r.restartPod(ctx, pod, node, generation, s); err != nil {
			return err
		}
	}
	if err := r.restartKubelet(ctx, s); err != nil {
		return err
	}
	if err := command.TryRestart(ctx, r.Output, service.Sharer(r.Root).Name); err != nil {
		return err
	}
	if s.Stage == authority.Forget {
		if err := files.Remove(r.host.Path(authority.SignerFile)); err != nil {
			return err
		}
	}
	return cluster.WaitAPI(ctx, r.Output)
}

func (r Rotator) restartPod(ctx context.Context, pod, node, generation string, s authority.State) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(podTime))
	defer cancel()
	var edits []func(map[string]any) error
	if p, ok := s.Part(authority.Cluster); ok && pod == "kube-controller-manager" {
		signer := authority.SignerFile
		if s.Stage == authority.Forget {
			signer = p.Trusted()
		}
		edits = append(edits, setSigner(signer))
	}
	if err := r.host.restart(pod, generation, edits...); err != nil {
		return err
	}
	return r.host.waitPod(ctx, pod, node, generation)
}

// restartKubelet lets the kubelet reread its CA, request a serving certificate, and get new tokens for its pods.
func (r Rotator) restartKubelet(ctx context.Context, s authority.State) error {
	r.step("restart the kubelet")
	if p, ok := s.Part(authority.Cluster); ok && s.Stage != authority.Trust {
		old, _, err := p.Certificates()
		if err == nil {
			err = r.host.dropServing(old)
		}
		if err != nil {
			return err
		}
	}
	return command.Run(ctx, r.Output, "systemctl", "restart", "kubelet")
}

func (r Rotator) bringWorker(ctx context.Context, s authority.State) error {
	r.step("the kubelet's certificate and CA")
	if err := ExchangeWorker(ctx, r.host.Rootfs, s); err != nil {
		return err
	}
	if err := r.restartKubelet(ctx, s); err != nil {
		return err
	}
	entries, err := r.host.list(time.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(podTime))
	defer cancel()
	return cluster.WaitNode(ctx, nodeName(entries), r.Output)
}

// ExchangeWorker brings the CA of a worker, and the certificate of its kubelet, to the stage of a rotation. It may be interrupted
// and run again. rootfs is the folder with the host's files; empty means /.
func ExchangeWorker(ctx context.Context, rootfs string, s authority.State) error {
	h := host{files.Host{Rootfs: rootfs}}
	p, ok := s.Part(authority.Cluster)
	if !ok {
		return nil
	}
	if s.Stage != authority.Trust {
		if err := h.requestClient(ctx, p); err != nil {
			return fmt.Errorf("a certificate of the new CA for the kubelet: %w", err)
		}
	}
	if err := h.keep(p.Trusted(), 0o644, p.Bundle(s.Stage)); err != nil {
		return err
	}
	return h.exchangeKubeconfigs(p.Bundle(s.Stage))
}

// usages are those for which the cluster automatically approves a kubelet's own request.
var usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}

// requestClient asks the cluster for a certificate of the new CA for this host's kubelet and its key, if the kubelet has one of the
// old CA.
func (h host) requestClient(ctx context.Context, p authority.Part) error {
	old, renewed, err := p.Certificates()
	if err != nil {
		return err
	}
	e, hasOld := h.hasOld(old)
	if !hasOld {
		return nil
	}
	text, err := h.clientKey(e)
	if err != nil {
		return err
	}
	key, err := privatekey.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", e.file, err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{RawSubject: e.cert.RawSubject}, key)
	if err != nil {
		return err
	}
	client, err := cluster.Client(h.Path(kubeadm.KubeletKubeconfig))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(podTime))
	defer cancel()
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, request, "", certificatesv1.KubeAPIServerClientKubeletSignerName, nil, usages, key)
	if err != nil {
		return err
	}
	answer, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return err
	}
	got, err := parse(answer)
	if err != nil {
		return err
	}
	if err := got.CheckSignatureFrom(renewed); err != nil {
		return fmt.Errorf("the cluster signed request %s with another CA than the new one; run the command again: %w", name, err)
	}
	return h.writeChain(e, got.Raw, nil)
}

// clientKey returns the PEM with the key of the kubelet's certificate.
func (h host) clientKey(e Entry) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(h.Path(kubeadm.KubeletKubeconfig))
	if err != nil {
		return nil, err
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	if e.file == e.File {
		return user.ClientKeyData, nil
	}
	return regularfile.ReadFile(h.Path(user.ClientKey))
}
