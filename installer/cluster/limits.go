package cluster

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/kube/kubeadmpatch"
)

// MaxKubeadmTime is the maximum time of kubeadm with these limits: the kubelet and its components start in sequence.
const MaxKubeadmTime = speed.Most * (kubeletHealthTime + componentHealthTime) * 5 / 4

// kubeadm's own limits (kubeadm's reference of v1beta4, Timeouts).
const (
	componentHealthTime = 4 * time.Minute
	kubeletHealthTime   = 4 * time.Minute
	bootstrapTime       = 5 * time.Minute
	upgradeTime         = 5 * time.Minute
	memberTime          = 2 * time.Minute
	callTime            = time.Minute
)

// timeouts is the field of kubeadm's configurations.
func timeouts(l speed.Limits) map[string]any {
	return map[string]any{
		"controlPlaneComponentHealthCheck": l.Of(componentHealthTime).String(),
		"kubeletHealthCheck":               l.Of(kubeletHealthTime).String(),
		"kubernetesAPICall":                l.Of(callTime).String(),
		"etcdAPICall":                      l.Of(memberTime).String(),
		"tlsBootstrap":                     l.Of(bootstrapTime).String(),
		"upgradeManifests":                 l.Of(upgradeTime).String(),
	}
}

// setTimeouts sets the limits in a configuration of kubeadm, except those that a patch has set.
func setTimeouts(object *unstructured.Unstructured, l speed.Limits) {
	if kind := object.GetKind(); object.GetAPIVersion() != kubeadmpatch.APIVersion || kind != "InitConfiguration" && kind != "JoinConfiguration" {
		return
	}
	own, _, _ := unstructured.NestedMap(object.Object, "timeouts")
	all := timeouts(l)
	maps.Copy(all, own)
	object.Object["timeouts"] = all
}

// upgradeConfiguration is kubeadm's configuration of an upgrade. patches is a folder, or "".
func upgradeConfiguration(patches string) *unstructured.Unstructured {
	config := map[string]any{"apiVersion": kubeadmpatch.APIVersion, "kind": "UpgradeConfiguration", "timeouts": timeouts(speed.Now())}
	if patches != "" {
		for _, command := range []string{"apply", "node"} {
			config[command] = map[string]any{"patches": map[string]any{"directory": patches}}
		}
	}
	return &unstructured.Unstructured{Object: config}
}
