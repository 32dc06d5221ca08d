package cluster

import (
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube/kubeadmpatch"
)

// limits are the timeouts of kubeadm and Sealift for parts of a cluster on a host, in multiples of kubeadm's for a fast idle host. A wait
// ends as soon as the part works, so long limits cost only a host on which it never does.
type limits int

// The multiples for a host at rest, for one whose processors are busy at most, and at most. Two processors are the fewest that a control plane
// may have: on those, unpacking an image takes half of them. An emulated machine is ten times as slow as the one that emulates it.
const (
	leastLimits = 2
	busyLimits  = 5
	mostLimits  = 15
	fewCPUs     = 2
)

// MaxKubeadmTime is the maximum time of kubeadm with these limits: the kubelet and its components start in sequence.
const MaxKubeadmTime = mostLimits * (kubeletHealthTime + componentHealthTime) * 5 / 4

// kubeadm's own limits (kubeadm's reference of v1beta4, Timeouts).
const (
	componentHealthTime = 4 * time.Minute
	kubeletHealthTime   = 4 * time.Minute
	bootstrapTime       = 5 * time.Minute
	upgradeTime         = 5 * time.Minute
	memberTime          = 2 * time.Minute
	callTime            = time.Minute
)

// hostLimits fit this host, and its current load.
func hostLimits() limits {
	var info unix.Sysinfo_t
	load := 0.0
	if unix.Sysinfo(&info) == nil {
		load = float64(info.Loads[0]) / (1 << 16)
	}
	return limitsFor(runtime.NumCPU(), load, slowness())
}

// limitsFor gives a host with few processors one multiple more, one for each process beyond the first that waits for a processor, and one for
// each time that its processors take longer than usual.
func limitsFor(cpus int, load, slowness float64) limits {
	l := leastLimits
	if cpus <= fewCPUs {
		l++
	}
	l = min(l+int(math.Max(0, math.Round(load/float64(cpus)-1))), busyLimits)
	l += int(math.Max(0, math.Round(min(slowness, 1000)-1)))
	return limits(min(l, mostLimits))
}

// Patience returns how long this host gets for what may take d on a fast host that has nothing else to do.
func Patience(d time.Duration) time.Duration { return hostLimits().of(d) / leastLimits }

func (l limits) of(own time.Duration) time.Duration { return time.Duration(l) * own }

// timeouts is the field of kubeadm's configurations.
func (l limits) timeouts() map[string]any {
	return map[string]any{
		"controlPlaneComponentHealthCheck": l.of(componentHealthTime).String(),
		"kubeletHealthCheck":               l.of(kubeletHealthTime).String(),
		"kubernetesAPICall":                l.of(callTime).String(),
		"etcdAPICall":                      l.of(memberTime).String(),
		"tlsBootstrap":                     l.of(bootstrapTime).String(),
		"upgradeManifests":                 l.of(upgradeTime).String(),
	}
}

// setTimeouts sets the limits in a configuration of kubeadm, except those that a patch has set.
func (l limits) setTimeouts(object *unstructured.Unstructured) {
	if kind := object.GetKind(); object.GetAPIVersion() != kubeadmpatch.APIVersion || kind != "InitConfiguration" && kind != "JoinConfiguration" {
		return
	}
	own, _, _ := unstructured.NestedMap(object.Object, "timeouts")
	all := l.timeouts()
	for name, value := range own {
		all[name] = value
	}
	object.Object["timeouts"] = all
}

// upgradeConfiguration is kubeadm's configuration of an upgrade. patches is a folder, or "".
func (l limits) upgradeConfiguration(patches string) *unstructured.Unstructured {
	config := map[string]any{"apiVersion": kubeadmpatch.APIVersion, "kind": "UpgradeConfiguration", "timeouts": l.timeouts()}
	if patches != "" {
		for _, command := range []string{"apply", "node"} {
			config[command] = map[string]any{"patches": map[string]any{"directory": patches}}
		}
	}
	return &unstructured.Unstructured{Object: config}
}
