package upgrade

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/record"
)

// Kind is an upgrade. What a node does has its own steps in the journal of that node: see package install.
var Kind = operation.Kind{Name: record.Upgrade}

// run is one run that leads an upgrade.
type run struct {
	*Cluster
	Options
	operation.Nodes
	led  *operation.Run
	id   string // of the record
	work work

	mu    sync.Mutex // of the state
	state State      // as its params have it
}

// work is done on this host, and by the agents of the others: see hands. All of it may be repeated.
type work interface {
	// prepareOwn brings files and images to this host, and prepareNode to another node, which has them from this one.
	prepareOwn(ctx context.Context) error
	prepareNode(ctx context.Context, name string) error
	upgradeNode(ctx context.Context, name string) error
	// saveEtcd saves a snapshot of etcd in a file of this host, unless there is one.
	saveEtcd(ctx context.Context) (path string, err error)
	addOns(ctx context.Context) error
}

// Run upgrades the cluster, or resumes it.
func (c *Cluster) Run(ctx context.Context, in *install.Install, o Options) error {
	o.MaxUnavailable, o.DrainTimeout = cmp.Or(o.MaxUnavailable, 1), cmp.Or(o.DrainTimeout, 10*time.Minute)
	sealift, err := bundle.DiskFile(bundle.BinaryName, 0o755, in.Binary())
	if err != nil {
		return fmt.Errorf("read the running sealift: %w", err)
	}
	id, err := in.UpgradeID()
	if err != nil {
		return err
	}
	site := &operation.Site{Session: in.Session, Kind: Kind, Own: c.own, Admin: c.admin, View: c.view}
	r := &run{Cluster: c, Options: o, Nodes: site.Nodes(o.Say)}
	r.work = &hands{run: r, in: in, sealift: sealift.SHA256}
	r.plan(site.Records(), State{Upgrade: id, Whole: in.WholeUpgrade(), From: in.From(), To: in.Version(), Changes: in.Changes(), KeepPods: c.podsStay(in)})
	if err := site.Lead(ctx, r.led, func(holder string) {
		o.Say("another upgrade, or a renewal of certificates, is at work: waiting for it to end (its lease names " + holder + ")")
	}, func(lifecycle.Event) {}); err != nil {
		return err
	}
	if nodes, err := c.view.Nodes(ctx); err == nil { // the upgrade has ended, whatever this answers
		tellOlder(nodes, in.Version(), o.Say)
	}
	return nil
}

// tellOlder names the nodes that joined with an earlier version while the run began.
func tellOlder(nodes []cluster.Node, to string, say func(string)) {
	for _, n := range nodes {
		if isOlder(n.Version, to) {
			say(fmt.Sprintf("node %s has joined with Kubernetes %s meanwhile: the next run of this command upgrades it", n.Name, strings.TrimPrefix(n.Version, "v")))
		}
	}
}

// plan plans an upgrade. A recorded upgrade may replace it when the run begins.
func (r *run) plan(records operation.Records, planned State) {
	r.led = &operation.Run{Own: r.own, Records: records, Nodes: r, Stays: true, OnPause: r.paused, Record: record.Record{Kind: Kind.Name},
		Choose: func(known *record.Record) error { return r.choose(planned, known) },
		Begun: func(ctx context.Context) error {
			if err := r.work.prepareOwn(ctx); err != nil {
				return err
			}
			return r.advance(ctx, r.own, Prepared)
		}}
}

// choose resumes the upgrade that the cluster knows, or begins this one.
func (r *run) choose(planned State, known *record.Record) error {
	last, err := stateOf(known)
	if err != nil {
		return err
	}
	state, err := planned.after(last)
	if err != nil {
		return err
	}
	if last.Upgrade == state.Upgrade && last.Phase != Finished {
		r.led.Record = *known
	} else {
		r.led.Record = record.Record{ID: state.Upgrade, Kind: Kind.Name, Began: time.Now().UTC()}
		// a pause is of an upgrade with all its stops
		r.led.Record.Paused = known != nil && known.Paused && last.Whole == state.Whole && last.Upgrade != state.Upgrade
	}
	var names []string
	for _, n := range r.nodes {
		names = append(names, n.Name)
		if is := strings.TrimPrefix(n.Version, "v"); is != "" && catalog.CompareVersions(is, state.From) < 0 {
			return fmt.Errorf("node %s is back at Kubernetes %s, and this upgrade goes on from %s: end 'sealift upgrade undo', or take the node out with 'sealift node remove %s' and join it again", n.Name, is, state.From, n.Name)
		}
	}
	state.of(names)
	r.id, r.state = state.Upgrade, state.params()
	r.led.Stages = r.stages()
	r.led.Record.About, r.led.Record.Next = record.UpgradingKubernetes(state.From, state.To), record.ResumeUpgrade(r.own)
	r.led.Record.Params, err = json.Marshal(r.state)
	return err
}

// stages are those of the run. Before the first change, nothing is half done.
func (r *run) stages() []operation.Stage {
	first := r.state.Snapshot == ""
	return []operation.Stage{
		{ID: prepareStage, AtOnce: atOnce, Loose: first, Nodes: func(n cluster.Node) bool { return r.takesPart(n) && n.Name != r.own }},
		{ID: snapshotStage, Loose: first, Before: r.saveEtcd},
		{ID: controlPlanesStage, AtOnce: 1, Pauses: true, Nodes: func(n cluster.Node) bool { return r.takesPart(n) && n.ControlPlane() }},
		{ID: workersStage, AtOnce: r.MaxUnavailable, Pauses: true, Nodes: func(n cluster.Node) bool { return r.takesPart(n) && !n.ControlPlane() }},
		{ID: addOnsStage, Before: r.work.addOns},
	}
}

// takesPart selects the nodes that the cluster had when the command began. A later one has joined with the new versions, or is left to the
// next run: see tellOlder.
func (r *run) takesPart(n cluster.Node) bool {
	return slices.ContainsFunc(r.nodes, func(one cluster.Node) bool { return one.Name == n.Name })
}

// paused reports that a person paused the upgrade, or resumed it.
func (r *run) paused(paused bool) {
	r.Say(map[bool]string{true: "paused: no further node begins until 'sealift upgrade resume'", false: "resumed"}[paused])
}

// Apply implements operation.Nodes. A node that an earlier run did not know of is prepared first.
func (r *run) Apply(ctx context.Context, name string, request operation.Request) error {
	if r.stage(name) == Waiting {
		if err := r.work.prepareNode(ctx, name); err != nil {
			return err
		}
		if err := r.advance(ctx, name, Prepared); err != nil {
			return err
		}
	}
	if request.Stage == prepareStage || r.stage(name) == Done {
		return nil
	}
	return r.work.upgradeNode(ctx, name)
}

// saveEtcd takes the snapshot with which this upgrade can be undone, once for all its stops.
func (r *run) saveEtcd(ctx context.Context) error {
	if r.state.Snapshot != "" {
		return nil
	}
	path, err := r.work.saveEtcd(ctx)
	if err != nil {
		return err
	}
	return r.change(ctx, func(s *State) { s.Snapshot, s.SnapshotOn = path, r.own })
}

// podsStay reports that no pod has to leave its node: nothing changes that pods run on, or they have nowhere to go.
func (c *Cluster) podsStay(in *install.Install) bool {
	if c.begun != nil {
		return c.begun.KeepPods
	}
	older := func(n cluster.Node) bool { return n.Version != "v"+in.Version() }
	return len(c.nodes) == 1 || !in.Replaces() && !slices.ContainsFunc(c.nodes, older)
}

// change changes the state, here and in the record.
func (r *run) change(ctx context.Context, change func(*State)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
	return r.led.Save(ctx, r.state)
}

// stage returns the progress of a node.
func (r *run) stage(name string) Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Nodes[name].Stage
}

// advance records that a node has reached a stage, if it was not there before.
func (r *run) advance(ctx context.Context, name string, stage Stage) error {
	order := []Stage{Waiting, Prepared, Upgraded, Done}
	if slices.Index(order, r.stage(name)) >= slices.Index(order, stage) {
		return nil
	}
	return r.change(ctx, func(s *State) { s.Nodes[name].Stage = stage })
}
