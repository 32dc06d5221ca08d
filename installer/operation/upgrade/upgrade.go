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
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/undo"
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

// run is one run that leads an upgrade.
type run struct {
	*Cluster
	Options
	in      *install.Install
	store   store
	sealift string // digest of the program that nodes get
	kept    undo.Set

	mu    sync.Mutex // of the state
	state State
}

// Run upgrades the cluster, or resumes it.
func (c *Cluster) Run(ctx context.Context, in *install.Install, o Options) error {
	if o.MaxUnavailable == 0 {
		o.MaxUnavailable = 1
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 10 * time.Minute
	}
	sealift, err := bundle.DiskFile(bundle.BinaryName, 0o755, in.Binary())
	if err != nil {
		return fmt.Errorf("read the running sealift: %w", err)
	}
	r := &run{Cluster: c, Options: o, in: in, store: store{c.admin.Client}, sealift: sealift.SHA256}
	return exclusion.WithClusterLock(ctx, c.view.Cluster(), exclusion.Host{Root: in.Root}, exclusion.Upgrade, func(holder string) {
		o.Say("another upgrade, or a renewal of certificates, is at work: waiting for it to end (its lease names " + holder + ")")
	}, r.lead)
}

// lead goes through the phases.
func (r *run) lead(ctx context.Context) (err error) {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = errors.Join(err, r.change(ctx, func(s *State) { s.Error = err.Error() }))
		}
	}()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.upgradeNodes(ctx); err != nil {
		return err
	}
	if err := r.change(ctx, func(s *State) { s.Phase = AddOns }); err != nil {
		return err
	}
	if _, err := r.in.RunPhases(ctx, r.Observe, lifecycle.Install, lifecycle.PostInit, lifecycle.Outro); err != nil {
		return r.rollBack(ctx, err)
	}
	for _, n := range r.nodes {
		if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error {
			return r.view.Annotate(ctx, n.Name, map[string]string{intent.Annotation: ""})
		}); err != nil {
			return err
		}
	}
	return r.change(ctx, func(s *State) { s.Phase, s.Ended, s.Error = Finished, time.Now().UTC(), "" })
}

// rollBack rolls back the add-ons that are not healthy. An interrupted upgrade does not change them, because it will be resumed.
func (r *run) rollBack(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	gone, err := cluster.GoBack(ctx, node.MemoryDir(r.in.Root), r.Output)
	errs := []error{cause}
	for _, back := range gone {
		errs = append(errs, errors.New(back.String()))
	}
	return errors.Join(append(errs, err)...)
}

// begin reads the state of this upgrade, or makes it.
func (r *run) begin(ctx context.Context) error {
	id, err := r.in.UpgradeID()
	if err != nil {
		return err
	}
	last, _, err := r.store.read(ctx)
	if err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	state, err := State{Upgrade: id, Whole: r.in.WholeUpgrade(), From: r.in.From(), To: r.in.Version(), Began: time.Now().UTC(), Phase: Preparing,
		Changes: r.in.Changes(), KeepPods: r.podsStay(r.in), Nodes: map[string]*Node{}}.after(last)
	if err != nil {
		return err
	}
	for _, n := range r.nodes {
		if state.Nodes[n.Name] == nil {
			state.Nodes[n.Name] = &Node{}
		}
		state.Nodes[n.Name].Error = ""
	}
	for name := range state.Nodes {
		if !slices.ContainsFunc(r.nodes, func(n cluster.Node) bool { return n.Name == name }) {
			delete(state.Nodes, name) // it has left the cluster in the meantime
		}
	}
	r.state = state
	return r.change(ctx, func(s *State) { s.Leader, s.Error = r.own, "" })
}

// podsStay reports that no pod has to leave its node: nothing changes that pods run on, or they have nowhere to go.
func (c *Cluster) podsStay(in *install.Install) bool {
	if c.begun != nil {
		return c.begun.KeepPods
	}
	older := func(n cluster.Node) bool { return n.Version != "v"+in.Version() }
	return len(c.nodes) == 1 || !in.Replaces() && !slices.ContainsFunc(c.nodes, older)
}

// change changes the state, here and in the cluster.
func (r *run) change(ctx context.Context, change func(*State)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return r.store.write(ctx, r.state) })
}

// stage returns the progress of a node.
func (r *run) stage(name string) Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Nodes[name].Stage
}

// prepare delivers files and images to every node, and takes the snapshot. From this node the others have theirs.
func (r *run) prepare(ctx context.Context) (err error) {
	r.kept, err = undo.Store{Root: r.in.Root}.Keep(r.in.WholeUpgrade(), r.in.From(), time.Now())
	if err != nil {
		return fmt.Errorf("save the files that the upgrade replaces on this node: %w", err)
	}
	if _, err := r.in.RunPhases(ctx, r.Observe, lifecycle.Prepare); err != nil {
		return err
	}
	if err := r.advance(ctx, r.own, Prepared); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, n := range r.nodes {
		if n.Name == r.own || r.stage(n.Name) != Waiting {
			continue
		}
		group.Go(func() error {
			if err := r.prepareNode(ctx, n, r.described[n.Name].Signed); err != nil {
				return err
			}
			return r.advance(ctx, n.Name, Prepared)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return nil
}

// advance records that a node has reached a stage, if it was not there before.
func (r *run) advance(ctx context.Context, name string, stage Stage) error {
	order := []Stage{Waiting, Prepared, Upgraded, Done}
	if slices.Index(order, r.stage(name)) >= slices.Index(order, stage) {
		return nil
	}
	return r.change(ctx, func(s *State) { s.Nodes[name].Stage, s.Nodes[name].Error = stage, "" })
}

// saveEtcd takes the snapshot with which this upgrade can be undone, once for all its stops.
func (r *run) saveEtcd(ctx context.Context) error {
	switch {
	case r.state.Snapshot == "":
	case r.state.Phase == Preparing: // a later stop, with the snapshot of the first one
		return r.change(ctx, func(s *State) { s.Phase = Nodes })
	default:
		return nil
	}
	path := r.kept.Etcd()
	if _, err := os.Stat(path); err != nil {
		saved, err := snapshot.SaveEtcd(ctx, path)
		if err != nil {
			return fmt.Errorf("a snapshot of etcd before the first change: %w", err)
		}
		r.Say(fmt.Sprintf("snapshot of etcd: %d bytes in %s", saved.Size, path))
	}
	return r.change(ctx, func(s *State) { s.Snapshot, s.SnapshotOn, s.Phase = path, r.own, Nodes })
}
