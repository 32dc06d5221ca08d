package approver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/poll"
)

// ownPause is the time between two looks for the request of this host.
const ownPause = time.Second

// ApproveOwn approves the requests of this host's kubelet while the host joins as a control plane with a token, until ctx ends. The
// other approvers do not: the host is a member of etcd by then, and a token does not get the certificate of a control plane. This host
// has the key of the CA. It knows its kubelet's request by the node's name and the token, which was made for a control plane. The
// kubelet's key proves nothing before: it is only in the kubelet's memory. output receives what was approved, and why not.
func ApproveOwn(ctx context.Context, node, whole string, output io.Writer) {
	id, _, _ := strings.Cut(whole, ".")
	var told poll.Told
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		err := approveOwn(ctx, node, id, output)
		if err != nil && told.IsNew(ctx, err) { // an attempt without an error forgets none
			fmt.Fprintf(output, "the certificate of this host's kubelet waits for its approval: %v\n", err)
		}
		return ownPause
	})
}

// approveOwn looks once. There is nothing to do until kubeadm has written the administrator's credentials.
func approveOwn(ctx context.Context, node, id string, output io.Writer) error {
	if _, err := os.Stat(kubeadm.AdminKubeconfig); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	client, err := cluster.Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return err
	}
	approved, err := approveWithToken(ctx, client, node, id)
	for _, name := range approved {
		fmt.Fprintf(output, "approved the certificate of this host's kubelet (%s)\n", name)
	}
	return err
}

// approveWithToken approves the open requests for a client certificate of a node that were sent with a token, and returns their names.
func approveWithToken(ctx context.Context, client kubernetes.Interface, node, id string) (approved []string, err error) {
	requests := client.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeAPIServerClientKubeletSignerName})
	if err != nil {
		return nil, err
	}
	for _, r := range list.Items {
		if party, by := partyOf(r.Spec); party != identity.Token || by != id || len(r.Status.Conditions) > 0 {
			continue
		}
		if name, err := clientRequest(r.Spec); err != nil || name != node {
			continue // foreign
		}
		if err := cluster.NoteJoined(ctx, client, node); err != nil {
			return approved, err
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason, Message: "asked for by the host that approves it, which joins as a control plane",
		})
		_, err := requests.UpdateApproval(ctx, r.Name, &r, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		case err != nil:
			return approved, fmt.Errorf("approve %s: %w", r.Name, err)
		default:
			approved = append(approved, r.Name)
		}
	}
	return approved, nil
}
