package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/tail"
)

// clusterCA is the CA of the cluster, which every node has.
const clusterCA = kubeadm.PKI + "/ca.crt"

// patchesVariable is the configuration's name for the folder of kubeadm's own patches.
const patchesVariable = "KUBEADM_PATCHES"

// Join makes the host the node of that name in a cluster, a control plane if its configuration says so. A node that an
// interrupted run completed is left alone; an incomplete one is removed first.
func (k Kubeadm) Join(ctx context.Context, node string, controlPlane bool) error {
	switch done, err := k.joined(ctx, node, controlPlane); {
	case err != nil:
		return err
	case done:
		return k.finishJoin(ctx)
	}
	if err := k.takeBack(ctx, node); err != nil {
		return err
	}
	config := k.joinConfig()
	if err := k.writeJoinConfig(config); err != nil {
		return fmt.Errorf("kubeadm configuration: %w", err)
	}
	err := k.runNoted(ctx, "join", "--config", config)
	if err == nil {
		err = secureFiles()
	}
	// it has the token and the key of the certificates
	return errors.Join(err, files.Remove(config))
}

func (k Kubeadm) joinConfig() string { return filepath.Join(k.Work, "kubeadm-join.yaml") }

// writeJoinConfig writes what kubeadm reads. The kubelet's configuration comes from the cluster; differences of this host
// become a patch.
func (k Kubeadm) writeJoinConfig(name string) error {
	patches := filepath.Join(k.Work, "patches")
	if err := files.MkdirAll(patches, 0o700); err != nil {
		return err
	}
	objects, err := k.render("join", map[string]string{patchesVariable: patches})
	if err != nil {
		return err
	}
	var own []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() != "KubeletConfiguration" {
			own = append(own, object)
			continue
		}
		patch, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		if err := files.Write(filepath.Join(patches, "kubeletconfiguration+merge.yaml"), patch); err != nil {
			return err
		}
	}
	return writeDocuments(name, own)
}

// joined reports whether kubeadm has nothing left to do here. A worker is the kubelet's affair once that has its credentials; a
// control plane is marked as one at the end.
func (k Kubeadm) joined(ctx context.Context, node string, controlPlane bool) (bool, error) {
	needed := []string{kubeadm.KubeletKubeconfig, kubeadm.KubeletConfig, kubeadm.KubeletCertificate}
	if controlPlane {
		needed = append(needed, kubeadm.AdminKubeconfig, kubeadm.APIServerManifest, kubeadm.EtcdManifest)
	}
	whole, err := allHaveContent(needed...)
	if err != nil || !whole || !controlPlane {
		return whole, err
	}
	labels, err := kubectl(ctx, kubeadm.AdminKubeconfig, "get", "node", node, "--ignore-not-found", "--output=jsonpath={.metadata.labels}")
	return strings.Contains(labels, "node-role.kubernetes.io/control-plane"), err
}

// finishJoin does the work after kubeadm, and the part of kubeadm's work that was not reached.
func (k Kubeadm) finishJoin(ctx context.Context) error {
	for _, secret := range []string{kubeadm.BootstrapKubeconfig, k.joinConfig()} {
		if err := files.Remove(secret); err != nil {
			return err
		}
	}
	if err := secureFiles(); err != nil {
		return err
	}
	return run(ctx, k.Output, "systemctl", "start", "kubelet")
}

// takeBack undoes an interrupted join, in the cluster and here: kubeadm refuses a host with leftovers, and a node of the same
// name that is Ready.
func (k Kubeadm) takeBack(ctx context.Context, node string) error {
	traces, err := anyThere(kubeadm.BootstrapKubeconfig, kubeadm.KubeletConfig, clusterCA, kubeadm.APIServerManifest)
	if err != nil || !traces {
		return err
	}
	if admin, err := exists(kubeadm.AdminKubeconfig); err != nil {
		return err
	} else if admin {
		// the cluster forgets the node if it is reachable; if not, kubeadm soon reports that
		if _, err := kubectl(ctx, kubeadm.AdminKubeconfig, "delete", "node", node, "--ignore-not-found", "--timeout="+speed.Now().Of(callTime).String()); err != nil {
			fmt.Fprintln(k.Output, err)
		}
	}
	if err := k.leaveEtcd(ctx, node); err != nil {
		return err
	}
	return run(ctx, k.Output, "kubeadm", "reset", "--force")
}

func anyThere(names ...string) (bool, error) {
	for _, name := range names {
		if there, err := exists(name); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// hasContent reports whether there is a file that the loss of power did not empty.
func hasContent(name string) (bool, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

func exists(name string) (bool, error) {
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// kubectl returns the output of kubectl.
func kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Env = environment()
	var said tail.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return string(out), nil
}
