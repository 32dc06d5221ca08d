package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/poll"
)

// MoveEtcdMember updates the address at which the other members reach that of a node. It asks the members at others, which are
// addresses of hosts, or the only member, on this host, and tries until ctx ends. It may be repeated. A cluster with its etcd
// elsewhere has no such member.
func MoveEtcdMember(ctx context.Context, node, address string, others []string) error {
	var endpoints []string
	for _, host := range others {
		endpoints = append(endpoints, etcdEndpoint(host))
	}
	if len(endpoints) == 0 {
		endpoints = []string{ownEtcd()}
	}
	return withEtcd(ctx, func(e *etcd) error { return e.move(ctx, node, "https://"+net.JoinHostPort(address, "2380")) }, endpoints...)
}

// move tries until ctx ends: a member that has just started, or that has lost its leader, answers some moments later.
func (e *etcd) move(ctx context.Context, node, peer string) error {
	return poll.Until(ctx, retryPause, nil, poll.Success(func(ctx context.Context) error { return e.tryMove(ctx, node, peer) }))
}

func (e *etcd) tryMove(ctx context.Context, node, peer string) error {
	members, err := e.members(ctx)
	if err != nil {
		return err
	}
	own, there := memberOf(members, node, "")
	if !there {
		return fmt.Errorf("etcd has no member %s", node)
	}
	if slices.Equal(own.peers, []string{peer}) {
		return nil
	}
	if others := without(members, own); len(others) > 0 {
		if err := checkMajority(others); err != nil {
			return fmt.Errorf("while %s changes its address: %w", node, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(etcdTime/3))
	defer cancel()
	if _, err := e.MemberUpdate(ctx, own.id, []string{peer}); err != nil {
		return fmt.Errorf("tell etcd the address of %s: %w", node, err)
	}
	return nil
}
