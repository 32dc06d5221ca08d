package approver

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/identity"
	"github.com/sealift/sealift/internal/privatekey"
	"github.com/sealift/sealift/internal/regularfile"
)

// kubeletKey is where a kubelet keeps its key until it has a certificate for it.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/certificate/bootstrap/bootstrap.go
const kubeletKey = "/var/lib/kubelet/pki/kubelet-client.key.tmp"

// ownPause is the time between two looks for the request of this host.
const ownPause = time.Second

// ApproveOwn approves what the kubelet of this host asks for while the host joins as a control plane, until ctx ends. The other
// approvers do not: the host is a member of etcd by then, and a token does not get the certificate of a control plane. This host has
// the key of the CA, and knows its kubelet's request by the kubelet's key. output receives what was approved, and why not.
func ApproveOwn(ctx context.Context, node string, output io.Writer) {
	said := ""
	for {
		err := approveOwn(ctx, node, kubeletKey, output)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			fmt.Fprintf(output, "the certificate of this host's kubelet waits for its approval: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(ownPause):
		}
	}
}

// approveOwn looks once. There is nothing to do until kubeadm has written the administrator's credentials, and the kubelet its key.
func approveOwn(ctx context.Context, node, keyFile string, output io.Writer) error {
	text, err := regularfile.ReadFile(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(cluster.AdminKubeconfig); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	key, err := privatekey.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", keyFile, err)
	}
	client, err := cluster.Client(cluster.AdminKubeconfig)
	if err != nil {
		return err
	}
	approved, err := approveKey(ctx, client, node, key.Public())
	if approved != "" {
		fmt.Fprintf(output, "approved the certificate of this host's kubelet (%s)\n", approved)
	}
	return err
}

// approveKey approves the request that a kubelet has sent with a token for the key of this node, and returns its name.
func approveKey(ctx context.Context, client kubernetes.Interface, node string, key crypto.PublicKey) (approved string, err error) {
	list, err := client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeAPIServerClientKubeletSignerName})
	if err != nil {
		return "", err
	}
	for _, r := range list.Items {
		if party, _ := partyOf(r.Spec); party != identity.Token || len(r.Status.Conditions) > 0 {
			continue
		}
		asked, err := parseRequest(r.Spec.Request)
		if err != nil {
			continue // of somebody else
		}
		same, ok := asked.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		if name, err := nodeOf(asked); err != nil || name != node || !ok || !same.Equal(key) {
			continue
		}
		if err := checkUsages(r.Spec, certificatesv1.UsageClientAuth); err != nil {
			return "", err
		}
		if err := cluster.NoteJoined(ctx, client, node); err != nil {
			return "", err
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason, Message: "asked for by the host that approves it, which joins as a control plane",
		})
		_, err = client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, &r, metav1.UpdateOptions{})
		return r.Name, err
	}
	return "", nil
}
