package upstream

import "time"

// compileTimes are measured on two processors with empty caches, by the name of the component, in the order in which the lab compiles
// them: a component takes longer where an earlier one did not compile the packages that both have.
var compileTimes = map[string]time.Duration{
	"cni-plugins":            9 * time.Second,
	"containerd":             60 * time.Second,
	"etcdctl":                20 * time.Second,
	"coredns":                70 * time.Second,
	"etcdutl":                5 * time.Second,
	"etcd":                   15 * time.Second,
	"flannel":                30 * time.Second,
	"kubernetes":             280 * time.Second,
	"local-path-provisioner": 20 * time.Second,
	"metrics-server":         30 * time.Second,
	"runc":                   17 * time.Second,
	"registry":               70 * time.Second,
	"kube-network-policies":  100 * time.Second,
	"metallb":                150 * time.Second,
	"cert-manager":           240 * time.Second,
	"gatekeeper":             150 * time.Second,
	"descheduler":            150 * time.Second,
	"traefik":                300 * time.Second,
	"snapshot-controller":    150 * time.Second,
	"velero":                 400 * time.Second,
	"velero-plugin-for-aws":  60 * time.Second,
	"prometheus":             300 * time.Second,
	"alertmanager":           60 * time.Second,
}

// cost is the expected time to make a component.
func (c Component) cost() time.Duration {
	if d, ok := compileTimes[c.Name]; ok {
		return d
	}
	switch c.Recipe.(type) {
	case GoModule:
		return 15 * time.Second
	case SystemTree, SystemLayer, SystemDisk:
		return 20 * time.Second // mostly downloads, beside a compile
	}
	return time.Second
}
