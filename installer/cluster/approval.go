package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// automaticApproval are kubeadm's bindings by which the cluster itself approves the certificates of kubelets: of any name for every
// holder of a join token.
var automaticApproval = []string{"kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"}

// ApproverConfig is the ConfigMap in kube-system by which approvers know of each other. It has no secrets.
const ApproverConfig = "sealift-approver"

// ServedPrefix starts the keys of ApproverConfig with the addresses of a node's first serving certificate: see package approver.
const ServedPrefix = "serves."

// The key of ApproverConfig that reports whether the cluster approves on its own, and its value if it does not.
const (
	approvalKey = "automatic-approval"
	approvalOff = "off"
)

// TakeAutomaticApproval keeps the cluster from approving certificates of kubelets itself: from now on the agents of control planes do.
// One of them has to run. It returns the bindings that it removed. It notes the decision in the cluster, since kubeadm brings the
// bindings back with each upgrade, and agents of an earlier Sealift, to which an upgrade may be undone, do not approve.
func TakeAutomaticApproval(ctx context.Context, client kubernetes.Interface) (removed []string, err error) {
	if err := SetApproverConfig(ctx, client, approvalKey, approvalOff); err != nil {
		return nil, err
	}
	return removeAutomaticApproval(ctx, client)
}

// ReadApproverConfig returns the data of ApproverConfig; nil if there is none.
func ReadApproverConfig(ctx context.Context, client kubernetes.Interface) (map[string]string, error) {
	config, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, ApproverConfig, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap kube-system/%s: %w", ApproverConfig, err)
	}
	return config.Data, nil
}

// KeepAutomaticApprovalOff removes the bindings again where the data of ApproverConfig has the note of TakeAutomaticApproval. It
// returns those that it removed.
func KeepAutomaticApprovalOff(ctx context.Context, client kubernetes.Interface, data map[string]string) (removed []string, err error) {
	if data[approvalKey] != approvalOff {
		return nil, nil
	}
	return removeAutomaticApproval(ctx, client)
}

func removeAutomaticApproval(ctx context.Context, client kubernetes.Interface) (removed []string, err error) {
	bindings := client.RbacV1().ClusterRoleBindings()
	for _, name := range automaticApproval {
		_, err := bindings.Get(ctx, name, metav1.GetOptions{}) // a delete of a missing object would be in the audit log every few seconds
		if err == nil {
			err = bindings.Delete(ctx, name, metav1.DeleteOptions{})
		}
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("remove ClusterRoleBinding %s: %w", name, err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// SetApproverConfig writes a value of ApproverConfig.
func SetApproverConfig(ctx context.Context, client kubernetes.Interface, key, value string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{key: value}})
	if err != nil {
		return err
	}
	return patchConfig(ctx, client, ApproverConfig, patch)
}

// patchConfig changes a ConfigMap in kube-system, and makes it if there is none.
func patchConfig(ctx context.Context, client kubernetes.Interface, name string, patch []byte) error {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	_, err := maps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		if err := createConfig(ctx, client, name); err != nil {
			return err
		}
		_, err = maps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("ConfigMap kube-system/%s: %w", name, err)
	}
	return nil
}

// LetAgentsApprove is TakeAutomaticApproval on a control plane whose API is ready. It prints its changes.
func LetAgentsApprove(ctx context.Context, output io.Writer) error {
	client, err := Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return err
	}
	removed, err := TakeAutomaticApproval(ctx, client)
	for _, name := range removed {
		fmt.Fprintf(output, "removed ClusterRoleBinding %s: agents of control planes approve certificates of nodes, and the cluster itself does not\n", name)
	}
	return err
}
