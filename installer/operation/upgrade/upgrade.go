// Package upgrade leads the upgrade of a whole cluster from one of its control planes.
//
// The order is: files and images on every node; a snapshot of etcd; the control planes one by one, then the workers; then the
// add-ons. A node is changed by its own agent (package agent), the leading node by this process. Which node starts when is
// decided by package rollout. The progress is in the cluster and in the journals of the nodes, so that the same command, on any
// control plane, resumes after any interruption.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
)

// atOnce is how many nodes fetch files from this one at a time.
const atOnce = 4

// Options configure how nodes are upgraded. The zero value has the defaults.
type Options struct {
	// MaxUnavailable is how many workers may be down at once. Default 1.
	MaxUnavailable int
	// DrainTimeout is how long the pods of a node may take to leave it. Default 10 minutes.
	DrainTimeout time.Duration
	// Observe gets the steps of this node, Say a line for each thing that happens elsewhere. Both may be called at any time.
	Observe func(lifecycle.Event)
	Say     func(string)
	// Output receives the details of the work on nodes.
	Output io.Writer
}

// Cluster is a cluster that is to be upgraded from this host, one of its control planes.
type Cluster struct {
	admin     controlplane.Administrator
	view      *cluster.View
	about     share.Cluster
	own       string // the name of this node
	nodes     []cluster.Node
	described map[string]intent.Host // the last reports of the nodes' agents
	last      State                  // the newest upgrade of this cluster; the zero State if there was none
	begun     *State                 // the unfinished upgrade; nil if there is none
}

// Open inspects the cluster of this host. An unready API, such as after a power loss, is awaited, and wait gets the reason. Without
// wait, that is an error.
func Open(ctx context.Context, name string, wait io.Writer) (*Cluster, error) {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return nil, err
	}
	if wait != nil {
		if err := cluster.WaitAPI(ctx, wait); err != nil {
			return nil, err
		}
	}
	c := &Cluster{admin: admin, own: name}
	if c.view, err = cluster.NewView(); err != nil {
		return nil, err
	}
	if c.about, err = admin.Cluster(ctx); err != nil {
		return nil, err
	}
	if c.nodes, err = c.view.Nodes(ctx); err != nil {
		return nil, err
	}
	if c.described, err = c.agents(ctx); err != nil {
		return nil, err
	}
	if c.last, _, err = Read(ctx, admin.Client); err != nil && !errors.Is(err, ErrNone) {
		return nil, err
	}
	if err == nil && c.last.Phase != Finished {
		begun := c.last
		c.begun = &begun
	}
	if !slices.ContainsFunc(c.nodes, func(n cluster.Node) bool { return n.Name == name }) {
		return nil, fmt.Errorf("the cluster has no node %s, the name of this host: was it renamed?", name)
	}
	return c, nil
}

// Prepare completes the options of an install for this host, and plans its upgrade. stop is the intermediate version of
// Kubernetes; "" goes to that of the Installer.
func (c *Cluster) Prepare(ctx context.Context, o install.Options, stop string) (*install.Install, error) {
	if err := (exclusion.Host{Root: o.Root}).Check(ctx, c.admin.Client, exclusion.Upgrade); err != nil {
		return nil, err
	}
	address, err := netip.ParseAddr(c.admin.Address)
	if err != nil {
		return nil, err
	}
	from, err := c.from()
	if err != nil {
		return nil, err
	}
	alone := !slices.ContainsFunc(c.nodes, func(n cluster.Node) bool { return n.ControlPlane() && n.Name != c.own })
	o.Upgrade = &install.Upgrade{From: from, Address: address, Endpoint: c.about.Endpoint, Stop: stop, Leads: true, Alone: alone}
	made, err := node.Made(o.Root)
	if err != nil {
		return nil, err
	}
	if !made {
		o.Join = &install.Join{Cluster: c.about, Server: share.Address(c.admin.Address), ControlPlane: true,
			Missing: func(context.Context, []string) ([]string, error) { return nil, nil }}
	}
	in, err := install.Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	id, err := in.UpgradeID()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	c.abandonUnstarted(in.WholeUpgrade(), id)
	return in, nil
}

// abandonUnstarted forgets the recorded upgrade if this is another one, and may replace it.
func (c *Cluster) abandonUnstarted(whole, id string) {
	if c.begun != nil && c.begun.untouched() && c.begun.Whole != whole && c.begun.Upgrade != id {
		c.begun = nil
	}
}

// Stops are the intermediate versions of Kubernetes, one for each minor version: the newest of it in the bundle. ok reports that
// no minor version is skipped.
func Stops(in *install.Install) (stops []string, ok bool) {
	from, to := minor(in.From()), minor(in.Version())
	for between := from + 1; between < to; between++ {
		newest := ""
		for _, version := range in.KubernetesVersions() {
			if minor(version) == between && (newest == "" || catalog.CompareVersions(version, newest) > 0) {
				newest = version
			}
		}
		if newest == "" {
			return nil, false
		}
		stops = append(stops, newest)
	}
	return stops, true
}

// from is the old version of Kubernetes: that of its oldest node, before the upgrade began.
func (c *Cluster) from() (string, error) {
	if c.begun != nil && !c.begun.untouched() {
		return c.begun.From, nil
	}
	oldest := ""
	for _, n := range c.nodes {
		version := strings.TrimPrefix(n.Version, "v")
		if version == "" {
			return "", fmt.Errorf("node %s does not tell its version: its kubelet has not reported", n.Name)
		}
		if oldest == "" || catalog.CompareVersions(version, oldest) < 0 {
			oldest = version
		}
	}
	return oldest, nil
}
