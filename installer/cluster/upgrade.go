package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/poll"
)

// kubeadmPath is the path of this node's kubeadm.
const kubeadmPath = "/usr/local/bin/kubeadm"

// Upgrade brings this node of a cluster to a version, with the kubeadm of that version: the static pods of a control plane, and
// the configuration of the kubelet. The first control plane also changes the cluster's configuration. The kubelet itself is not
// changed. Upgrade may be repeated.
func (k Kubeadm) Upgrade(ctx context.Context, program, version string) (err error) {
	if err := files.Copy(kubeadmPath, 0o755, program); err != nil {
		return fmt.Errorf("kubeadm %s: %w", version, err)
	}
	args := []string{"upgrade", "node"}
	controlPlane, err := exists(kubeadm.APIServerManifest)
	if err != nil {
		return err
	}
	if controlPlane {
		runs, err := configuredVersion(ctx)
		if err != nil {
			return err
		}
		if runs != version {
			args = []string{"upgrade", "apply", "v" + version, "--yes"}
		}
	}
	patches := filepath.Join(k.Work, "patches")
	if there, err := exists(patches); err != nil {
		return err
	} else if !there {
		patches = ""
	}
	dir, err := files.MkdirTemp(os.TempDir(), "sealift-kubeadm-") // a cluster that was adopted has no k.Work
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.RemoveAll(dir)) }()
	config := filepath.Join(dir, "upgrade.yaml")
	if err := writeDocuments(config, []*unstructured.Unstructured{upgradeConfiguration(patches)}); err != nil {
		return err
	}
	args = append(args, "--config", config)
	if ignored := k.upgradeIgnores(); ignored != "" {
		args = append(args, "--ignore-preflight-errors="+ignored)
	}
	if err := run(ctx, k.Output, kubeadmPath, args...); err != nil {
		return err
	}
	return secureFiles() // the agent removes what kubeadm grants the cluster again: see KeepAutomaticApprovalOff
}

// upgradeIgnores names the checks of kubeadm that do not stop an upgrade.
func (k Kubeadm) upgradeIgnores() string {
	ignored := []string{}
	if named := k.Variables["KUBERNETES_UPGRADE_IGNORE_PREFLIGHT_ERRORS"]; named != "" {
		ignored = append(ignored, named)
	}
	if k.Variables["SEALIFT_CGROUP_VERSION"] == "1" {
		ignored = append(ignored, "SystemVerification") // tells the kubelet that cgroup v1 is known
	}
	return strings.Join(ignored, ",")
}

// configuredVersion is the version that kubeadm's configuration of the cluster names, such as 1.36.3.
func configuredVersion(ctx context.Context) (string, error) {
	client, err := Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return "", err
	}
	config, err := kubeadm.ReadConfig(ctx, client)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(config.KubernetesVersion, "v"), nil
}

// RestartKubelet starts this host's kubelet in place of the running one, and waits until the node is Ready with this version.
func RestartKubelet(ctx context.Context, node, version string, output io.Writer) error {
	for _, args := range [][]string{{"daemon-reload"}, {"restart", "kubelet"}} {
		if err := run(ctx, output, "systemctl", args...); err != nil {
			return err
		}
	}
	config, err := Config(kubeadm.KubeletKubeconfig)
	if err != nil {
		return err
	}
	view, err := ViewOf(config, true)
	if err != nil {
		return err
	}
	return view.waitVersion(ctx, node, version, output)
}

// waitVersion waits until a node is Ready with a version of its kubelet.
func (v *View) waitVersion(ctx context.Context, node, version string, output io.Writer) error {
	err := poll.Until(ctx, apiPause, poll.Print(output, "node "+node), poll.Success(func(ctx context.Context) error {
		n, err := v.OwnNode(ctx, node)
		switch {
		case err != nil:
			return err
		case n.Version != "v"+version:
			return fmt.Errorf("its kubelet reports %s", n.Version)
		case !n.Ready:
			return errors.New(n.Why)
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("node %s is not Ready with version %s: %w; see 'journalctl --unit kubelet'", node, version, err)
	}
	return nil
}

// configSource is the annotation of a pod in a kubelet's own list with the pod's origin.
const (
	configSource = "kubernetes.io/config.source"
	fromFile     = "file"
)

// WaitStaticPods waits until the kubelet of a node itself reports all its static pods as Ready. A kubelet of another minor
// version changes their UIDs and restarts them, but at first the API still shows the old kubelet's pods.
func WaitStaticPods(ctx context.Context, node string, output io.Writer) error {
	client, err := Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return err
	}
	err = poll.Until(ctx, apiPause, poll.Print(output, "the static pods of node "+node), poll.Success(func(ctx context.Context) error {
		var pods corev1.PodList
		text, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("pods").DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(text, &pods)
		}
		if err != nil {
			return err
		}
		if why := unready(pods.Items); why != "" {
			return errors.New(why)
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("the static pods of node %s are not Ready: %w; see 'journalctl --unit kubelet' and /var/log/pods", node, err)
	}
	return nil
}

// PodReady reports whether a pod is Ready.
func PodReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// unready names the static pods that are not Ready, as a kubelet lists its pods.
func unready(pods []corev1.Pod) string {
	var static, waiting []string
	for _, pod := range pods {
		if pod.Annotations[configSource] != fromFile {
			continue
		}
		static = append(static, pod.Name)
		if !PodReady(pod) {
			waiting = append(waiting, pod.Name)
		}
	}
	if len(static) == 0 {
		return "the kubelet has not read their manifests yet"
	}
	return strings.Join(waiting, ", ")
}
