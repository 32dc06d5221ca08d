package readdress

import (
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/service"
	hosts "github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/journal/node"
)

// ReachAPI updates the address of an API server in this node's configuration. Only a node needs it whose API servers all moved
// while it could not ask them: the others read the list of the cluster. The API server proves with its certificate that it is of
// this cluster. It may be repeated.
func ReachAPI(ctx context.Context, o Options, address string) error {
	if err := o.Complete(); err != nil {
		return err
	}
	to, err := Parse(address)
	if err != nil {
		return err
	}
	file := node.APIServersFile(o.Root)
	known, err := balancer.ReadList(file)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return errors.New("this host has no balancer for the API: it is not a node of a cluster, or its cluster has a load balancer")
	}
	server := joined(to.String())
	if err := askAs(ctx, server); err != nil {
		return fmt.Errorf("the API server at %s: %w\nnothing was changed", server, err)
	}
	if err := balancer.WriteList(file, []string{server}); err != nil {
		return err
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	return command.Run(ctx, o.Output, "systemctl", "restart", service.Balancer(o.Root).Name)
}

// askAs asks an API server for this node, with the node's own credentials.
func askAs(ctx context.Context, server string) error {
	name, err := hosts.Name()
	if err != nil {
		return err
	}
	config, err := cluster.Config(kubeadm.KubeletKubeconfig)
	if err != nil {
		return err
	}
	config.Host, config.Timeout = "https://"+server, askTime
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return err
}
