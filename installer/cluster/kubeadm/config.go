package kubeadm

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/kube/ensure"
)

// ConfigMap in kube-system has kubeadm's configuration of the cluster below the key ConfigKey. kubeadm writes it when it makes or upgrades
// the cluster, and reads it for each node that joins. Every node may read it.
const (
	ConfigMap = "kubeadm-config"
	ConfigKey = "ClusterConfiguration"
)

// Config is the part of a ClusterConfiguration, v1beta3 or v1beta4, that Sealift reads.
type Config struct {
	Text string `json:"-"` // the whole text; "" if the ConfigMap has none

	KubernetesVersion    string // such as v1.36.3
	ClusterName          string
	ControlPlaneEndpoint string                                               // host:port
	FeatureGates         map[string]bool                                      // kubeadm's own
	Networking           struct{ PodSubnet, ServiceSubnet, DNSDomain string } // both networks of a dual-stack cluster, with a comma between
	APIServer            struct {
		ExtraArgs ExtraArgs
		CertSANs  []string
	}
	ControllerManager, Scheduler struct{ ExtraArgs ExtraArgs }
	Etcd                         struct {
		Local struct {
			ExtraArgs                    ExtraArgs
			ServerCertSANs, PeerCertSANs []string
		}
		External struct{ Endpoints []string }
	}
}

// ExtraArgs are kubeadm's flags for a program: a list of names and values, or a map until v1beta3.
type ExtraArgs []struct{ Name, Value string }

// UnmarshalJSON reads both forms.
func (a *ExtraArgs) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return yaml.Unmarshal(text, (*[]struct{ Name, Value string })(a))
	}
	values := map[string]string{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		*a = append(*a, struct{ Name, Value string }{name, values[name]})
	}
	return nil
}

// Args returns the flags in the form of a command line.
func (a ExtraArgs) Args() (args Args) {
	for _, one := range a {
		args = append(args, "--"+one.Name+"="+one.Value)
	}
	return args
}

// ParseConfig reads a ClusterConfiguration.
func ParseConfig(text []byte) (Config, error) {
	c := Config{Text: string(text)}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return Config{}, fmt.Errorf("kubeadm's configuration of the cluster: %w", err)
	}
	return c, nil
}

// ReadConfig reads kubeadm's configuration of a cluster. Where there is none, the error is the API's (apierrors.IsNotFound).
func ReadConfig(ctx context.Context, client kubernetes.Interface) (Config, error) {
	found, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return Config{}, fmt.Errorf("kubeadm's configuration of the cluster: %w", err)
	}
	return ParseConfig([]byte(found.Data[ConfigKey]))
}

// EditConfig changes kubeadm's configuration of a cluster. edit gets its text and returns the new one; it is called again if the
// configuration changes in the meantime. The same text changes nothing. Where there is none, the error is the API's (apierrors.IsNotFound).
func EditConfig(ctx context.Context, client kubernetes.Interface, edit func(text string) (string, error)) error {
	return ensure.EditConfigMap(ctx, client.CoreV1(), metav1.NamespaceSystem, ConfigMap, func(data map[string]string) (bool, error) {
		text, err := edit(data[ConfigKey])
		if err != nil || text == data[ConfigKey] {
			return false, err
		}
		data[ConfigKey] = text
		return true, nil
	})
}
