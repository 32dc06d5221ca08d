package cluster

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/kube"
)

// Config reads the credentials for the API of this node's own cluster. It uses no proxy, whatever the caller's environment says,
// because that proxy is for outside traffic.
func Config(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.Proxy = NoProxy
	return config, nil
}

// NoProxy is the way to the API of this node's own cluster.
func NoProxy(*http.Request) (*url.URL, error) { return nil, nil } //nolint:nilnil // as net/http has it for none

// requestTime bounds one request.
const requestTime = time.Minute

// Client asks the API that a kubeconfig names.
func Client(kubeconfig string) (kubernetes.Interface, error) {
	config, err := Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = speed.Patience(requestTime)
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		return nil, err
	}
	return typedClient(cluster)
}

// typedClient is a client of Kubernetes' own kinds that shares the connections of a cluster.
func typedClient(c *kube.Cluster) (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(c.Config())
}

// environment is for programs that talk only to the cluster. kubeadm would also write the proxies that it finds into the
// manifests of the control plane, which then looks for webhooks behind them.
func environment() []string {
	return slices.DeleteFunc(command.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
}
