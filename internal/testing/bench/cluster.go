package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/testgrid/lab/host"
)

const kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf "

// cluster is a control plane on a lab host, and the command by which others join it.
type cluster struct {
	rack  *host.Rack
	first *host.Host
	join  string
	all   []*host.Host
}

// newCluster installs a control plane from a folder that usb wrote. It has more folders of this machine at /media/usb2 and so on.
func newCluster(ctx context.Context, usb string, more ...string) (c *cluster, err error) {
	c = &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove(ctx, c.all))
		}
	}()
	if c.rack, err = host.OpenRack(ctx, host.Options{}); err != nil {
		return c, err
	}
	hosts, err := c.boot(ctx, 1, append([]string{usb}, more...)...)
	if err != nil {
		return c, err
	}
	c.first = hosts[0]
	if _, err := timed(ctx, c.first, airgap); err != nil {
		return c, err
	}
	c.join, err = c.first.Output(ctx, "sealift", "token", "create")
	return c, err
}

// boot boots hosts.
func (c *cluster) boot(ctx context.Context, n int, usb ...string) (list []*host.Host, err error) {
	for range n {
		h, err := c.rack.Boot(ctx, host.Spec{USB: usb})
		if err != nil {
			return list, err
		}
		list, c.all = append(list, h), append(c.all, h)
	}
	return list, nil
}

// joinAll lets hosts join at once, and returns how long it takes until the last one is ready, in seconds.
func (c *cluster) joinAll(ctx context.Context, hosts []*host.Host) (seconds float64, err error) {
	names := ""
	for _, h := range hosts {
		names += " node/" + h.Name()
	}
	ready := "until " + kubectl + "get" + names + " >/dev/null 2>&1; do sleep 0.2; done; " + kubectl + "wait --for=condition=Ready --timeout=600s" + names
	began := time.Now()
	if err := each(hosts, func(h *host.Host) error {
		_, err := timed(ctx, h, c.join)
		return err
	}); err != nil {
		return 0, err
	}
	_, err = timed(ctx, c.first, ready)
	return time.Since(began).Seconds(), err
}

// leave takes hosts out of the cluster and ends them.
func (c *cluster) leave(ctx context.Context, hosts []*host.Host) error {
	for _, h := range hosts {
		if _, err := timed(ctx, c.first, kubectl+"delete node "+h.Name()); err != nil {
			return err
		}
	}
	return c.remove(ctx, hosts)
}

// remove ends hosts.
func (c *cluster) remove(ctx context.Context, hosts []*host.Host) (err error) {
	for _, h := range hosts {
		if gone := c.rack.Remove(context.WithoutCancel(ctx), h.Name()); !errors.Is(gone, host.ErrNoHost) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// each calls f for all hosts at once.
func each(hosts []*host.Host, f func(*host.Host) error) error {
	var group errgroup.Group
	for _, h := range hosts {
		group.Go(func() error { return f(h) })
	}
	return group.Wait()
}

// sentBy returns how many bytes each host has sent to others, with the headers of packets.
func sentBy(ctx context.Context, hosts []*host.Host) (sent []int64, err error) {
	for _, h := range hosts {
		text, err := h.Output(ctx, "cat", "/sys/class/net/host0/statistics/tx_bytes")
		if err != nil {
			return nil, err
		}
		bytes, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("bytes that %s has sent: %w", h.Name(), err)
		}
		sent = append(sent, bytes)
	}
	return sent, nil
}
