package service

import (
	"context"
	"log/slog"
	"net"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
)

// Balance gives this host an address of the API that works while any control plane does, until ctx ends.
func Balance(ctx context.Context, root string, log *slog.Logger) error {
	file := node.APIServersFile(root)
	known, err := balancer.ReadList(file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", balancer.Endpoint)
	if err != nil {
		return err
	}
	b := &balancer.Balancer{Log: log}
	b.Set(ctx, known)
	go b.Follow(ctx, file, func(ctx context.Context) ([]string, error) {
		client, err := cluster.Client(kubeadm.KubeletKubeconfig) // made each time, because the file appears late and its certificate changes
		if err != nil {
			return nil, err
		}
		return balancer.Discover(ctx, client)
	})
	return b.Serve(ctx, l)
}
