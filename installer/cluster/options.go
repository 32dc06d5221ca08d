package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/capacity"
	"github.com/sealift/sealift/kube/kubeadmpatch"
)

// optionsPatch is the first of the patches, so that those of add-ons override it.
const optionsPatch = "0-options.yaml"

// CheckOptions refuses options of the Installer, given as variables, that no configuration can be made from (kURL §2.1).
func CheckOptions(variables map[string]string) error {
	_, err := kubeletOptions(variables)
	return errors.Join(err, checkEncryption(variables), checkAuthentication(variables))
}

// kubeletOptions are the Installer's options of every kubelet, as in its configuration.
func kubeletOptions(variables map[string]string) (map[string]any, error) {
	config := map[string]any{}
	for name, key := range map[string]string{"KUBERNETES_MAX_PODS_PER_NODE": "maxPods", "CONTAINER_LOG_MAX_FILES": "containerLogMaxFiles"} {
		text := variables[name]
		if text == "" {
			continue
		}
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("the Installer's %s is %q, not a number of at least 1", name, text)
		}
		config[key] = number
	}
	if size := variables["CONTAINER_LOG_MAX_SIZE"]; size != "" {
		if q, err := resource.ParseQuantity(size); err != nil || q.Sign() <= 0 {
			return nil, fmt.Errorf("the Installer's kubernetes.containerLogMaxSize is %q, not a size such as 10Mi", size)
		}
		config["containerLogMaxSize"] = size
	}
	for name, option := range map[string][2]string{
		"EVICTION_THRESHOLD": {"evictionThresholdResources", "evictionHard"}, "SYSTEM_RESERVED": {"systemReservedResources", "systemReserved"},
	} {
		if variables[name] == "" {
			continue
		}
		amounts := map[string]string{}
		if err := yaml.UnmarshalStrict([]byte(variables[name]), &amounts); err != nil {
			return nil, fmt.Errorf(`the Installer's kubernetes.%s is not a list such as {"memory": "1Gi"}: %w`, option[0], err)
		}
		config[option[1]] = amounts
	}
	if variables["KUBE_RESERVED"] == "1" {
		memory, err := capacity.Memory(os.DirFS("/"))
		if err != nil {
			return nil, err
		}
		config["kubeReserved"] = reserved(runtime.NumCPU(), memory)
	}
	maps.Copy(config, hardenedKubelet(variables))
	return config, nil
}

// band is a share, in thousandths, of the host's resources up to a bound.
type band struct{ upTo, thousandths uint64 }

// reserved is what the kubelet keeps for itself and the container runtime: larger shares of the first processors and gigabytes, as
// in managed clusters.
func reserved(cpus int, memory uint64) map[string]string {
	const gigabyte = 1 << 30
	milli := parts(uint64(cpus)*1000, band{1000, 60}, band{2000, 10}, band{4000, 5}, band{1 << 62, 2})
	bytes := parts(memory, band{4 * gigabyte, 250}, band{8 * gigabyte, 200}, band{16 * gigabyte, 100}, band{128 * gigabyte, 60}, band{1 << 62, 20})
	return map[string]string{"cpu": fmt.Sprintf("%dm", milli), "memory": fmt.Sprintf("%dMi", bytes>>20), "ephemeral-storage": "1Gi"}
}

func parts(all uint64, bands ...band) (sum uint64) {
	var below uint64
	for _, b := range bands {
		sum += (min(all, b.upTo) - min(all, below)) * b.thousandths / 1000
		below = b.upTo
	}
	return sum
}

// NodePorts is the variable with the port range of Services on every node; empty for Kubernetes' default.
const NodePorts = "SEALIFT_NODE_PORTS"

// NodeLabels is the variable with the labels that the kubelet gives its node: NAME=VALUE, parted by commas.
const NodeLabels = "SEALIFT_NODE_LABELS"

// registration are the Installer's settings for the registration of a node.
func (k Kubeadm) registration() map[string]any {
	labels := k.Variables[NodeLabels]
	if labels == "" {
		return map[string]any{}
	}
	return map[string]any{"nodeRegistration": map[string]any{"kubeletExtraArgs": []map[string]string{{"name": "node-labels", "value": labels}}}}
}

// apiServerOptions are the options of the API server: the Installer's, and what a slow host needs. Its certificate is also valid for the address by which the
// node is reached from outside; kubeadm gets the load balancer from the endpoint.
func (k Kubeadm) apiServerOptions(factor time.Duration) map[string]any {
	options := map[string]any{}
	if public := k.Variables["PUBLIC_ADDRESS"]; public != "" {
		if host, _, err := net.SplitHostPort(public); err == nil {
			public = host
		}
		options["certSANs"] = []string{public}
	}
	var arguments []map[string]string
	if ports := k.Variables[NodePorts]; ports != "" {
		arguments = append(arguments, map[string]string{"name": "service-node-port-range", "value": ports})
	}
	arguments = append(arguments, hardenedArguments(k.Variables, ofServer)...)
	arguments = append(arguments, slower("apiServer", factor)...)
	var volumes []map[string]any
	if k.Variables[strictness] == strict {
		volumes = append(volumes, admissionVolume())
	}
	for _, file := range serverFiles(k.Variables) {
		for _, flag := range file.Flags {
			arguments = append(arguments, map[string]string{"name": flag[0], "value": flag[1]})
		}
		volumes = append(volumes, map[string]any{"name": file.Volume, "hostPath": file.Folder(), "mountPath": file.Folder(), "pathType": "Directory", "readOnly": true})
	}
	if len(volumes) > 0 {
		options["extraVolumes"] = volumes
	}
	if len(arguments) > 0 {
		options["extraArgs"] = arguments
	}
	return options
}

// clusterOptions are the options of the cluster's programs, which are made on a host that is slower than usual by a factor.
func (k Kubeadm) clusterOptions(factor time.Duration) map[string]any {
	options := map[string]any{}
	if server := k.apiServerOptions(factor); len(server) > 0 {
		options["apiServer"] = server
	}
	for field, program := range map[string]string{"controllerManager": ofControllers, "scheduler": ofScheduler} {
		arguments := append(hardenedArguments(k.Variables, program), slower(field, factor)...)
		if len(arguments) > 0 {
			options[field] = map[string]any{"extraArgs": arguments}
		}
	}
	if arguments := hardenedArguments(k.Variables, ofEtcd); len(arguments) > 0 {
		options["etcd"] = map[string]any{"local": map[string]any{"extraArgs": arguments}}
	}
	return options
}

// slowArguments are the longer limits of a program on a slow host, by its field in ClusterConfiguration: those that are multiplied, and a maximum.
//
// The controller manager and the scheduler get longer leases. Both end when a slow API server does not answer in that time, and start again.
// How slow the first steps were tells little about an API server beside which every add-on starts: on a virtual machine that counted as twice as
// slow, leases of 30 seconds were lost seven times. So they get three times as much, up to what people may wait after the loss of a control plane.
// --leader-elect=false would spare the only control plane the lease, but another one that joins, by whatever command, takes its arguments from
// the same configuration: then two would work at once.
//
// The API server gives etcd more time to answer when it is asked whether it is alive and ready, and still answers within the 15 seconds of
// kubeadm's liveness probe. With 2 seconds, the kubelet ends the API server of a slow host while etcd is busy, and everything that lost it
// starts again beside it.
var slowArguments = map[string][]slowArgument{
	"apiServer":         {{"etcd-healthcheck-timeout", 2 * time.Second, 12 * time.Second}, {"etcd-readycheck-timeout", 2 * time.Second, 12 * time.Second}},
	"controllerManager": leases,
	"scheduler":         leases,
}

var leases = []slowArgument{
	{"leader-elect-lease-duration", 45 * time.Second, 3 * time.Minute}, {"leader-elect-renew-deadline", 30 * time.Second, 2 * time.Minute}, {"leader-elect-retry-period", 2 * time.Second, 20 * time.Second},
}

type slowArgument struct {
	name        string
	usual, most time.Duration
}

// slower returns slowArguments for a host that is slower than usual by a factor.
func slower(field string, factor time.Duration) (arguments []map[string]string) {
	if factor <= 1 {
		return nil
	}
	for _, a := range slowArguments[field] {
		arguments = append(arguments, map[string]string{"name": a.name, "value": min(factor*a.usual, a.most).String()})
	}
	return arguments
}

// withoutSlower removes slowArguments from a ClusterConfiguration.
func withoutSlower(config map[string]any) {
	for field, remove := range slowArguments {
		program, _ := config[field].(map[string]any)
		arguments, _ := program["extraArgs"].([]any)
		arguments = slices.DeleteFunc(arguments, func(argument any) bool {
			one, _ := argument.(map[string]any)
			return slices.ContainsFunc(remove, func(a slowArgument) bool { return a.name == one["name"] })
		})
		if len(arguments) > 0 {
			program["extraArgs"] = arguments
			continue
		}
		if delete(program, "extraArgs"); len(program) == 0 {
			delete(config, field)
		}
	}
}

// writeOptions writes the Installer's options as a patch of the configuration, init or join, and returns the file's name; ""
// where it says nothing.
func (k Kubeadm) writeOptions(kind, dir string) (name string, err error) {
	config, err := kubeletOptions(k.Variables)
	if err != nil {
		return "", err
	}
	var documents []string
	add := func(apiVersion, kind, name string, fields map[string]any) error {
		if len(fields) == 0 {
			return nil
		}
		fields["apiVersion"], fields["kind"], fields["metadata"] = apiVersion, kind, map[string]string{"name": name}
		data, err := json.Marshal(fields)
		documents = append(documents, string(data))
		return err
	}
	if err := add("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", "kubelet-configuration", config); err != nil {
		return "", err
	}
	if kind == "init" {
		if err := add(kubeadmpatch.APIVersion, "ClusterConfiguration", "kubeadm-cluster-configuration", k.clusterOptions(speed.Stretch(1))); err != nil {
			return "", err
		}
	}
	node := map[string][2]string{"init": {"InitConfiguration", "kubeadm-init-configuration"}, "join": {"JoinConfiguration", "kubeadm-join-configuration"}}[kind]
	if err := add(kubeadmpatch.APIVersion, node[0], node[1], k.registration()); err != nil {
		return "", err
	}
	if len(documents) == 0 {
		return "", nil
	}
	return optionsPatch, k.writeMergeable(filepath.Join(dir, optionsPatch), []byte(strings.Join(documents, "\n---\n")))
}
