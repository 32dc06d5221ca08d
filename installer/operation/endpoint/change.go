package endpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/kube"
)

// The IDs of the steps. The change itself ends with movedStep; LastStep ends what --finish does.
const (
	recordStep  = "load-balancer/record"
	besideStep  = "load-balancer/beside"
	switchStep  = "load-balancer/switch"
	clusterStep = "load-balancer/cluster"
	movedStep   = "load-balancer/moved"
	aloneStep   = "load-balancer/alone"
	LastStep    = "load-balancer/done"
)

// How long a step may take. A node takes minutes for a stage, and there may be many.
const (
	shortTime = 10 * time.Minute
	stageTime = 6 * time.Hour
)

// Options of a change. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// Finish takes the old load balancer out of the certificates.
	Finish bool
}

// nodes are those of a cluster.
type nodes interface {
	// list returns them, this host first and control planes before workers.
	list(ctx context.Context) ([]cluster.Node, error)
	// bring brings a node to a stage. It may be repeated. The error names the node.
	bring(ctx context.Context, name string, m intent.Move, request string) error
}

// Change is about to give the API of a cluster another load balancer. Nothing is changed before Run.
type Change struct {
	// Resumes says that an earlier run began this change, and Back that it takes an earlier one back.
	Resumes bool
	// Off are the workers that are not Ready. They do not take part.
	Off []string
	// Files are those of this host that change.
	Files []string

	options Options
	record  record
	run     string // of the steps; a run after the end does them again
	nodes   nodes
	host    Node
	client  kubernetes.Interface
	objects *kube.Cluster
	*node.Session
	moved map[string]bool // in this run
}

// ErrSame says that the cluster has the load balancer already.
var ErrSame = errors.New("the cluster has that load balancer already")

// From is the old load balancer, and To the new one.
func (c *Change) From() string { return c.record.From }

// To is the new load balancer.
func (c *Change) To() string { return c.record.To }

// Back says that To is the load balancer of before, and an earlier change is taken back.
func (c *Change) Back() bool { return c.record.Back }

// ends reports whether the old load balancer is taken out of the certificates.
func (c *Change) ends() bool { return c.options.Finish || c.record.Back }

// begin resumes the change that the cluster knows of, takes it back, or begins one. to is "" if only the end is asked for.
func (c *Change) begin(ctx context.Context, from, to string, now time.Time) error {
	known, err := readRecord(ctx, c.client)
	if err != nil {
		return err
	}
	id := now.UTC().Format("20060102T150405.000Z")
	c.run = id
	switch {
	case known == nil && c.options.Finish:
		return errors.New("no change of the load balancer is under way")
	case known == nil && from == to:
		return ErrSame
	case known == nil:
		if err := refuseOwn(from); err != nil {
			return err
		}
		c.record = record{ID: id, From: from, To: to}
		return nil
	case to != "" && to != known.To && to != known.From:
		return fmt.Errorf("the change from %s to %s is under way; end it with 'sealift node load-balancer --finish', or take it back with 'sealift node load-balancer %s'", known.From, known.To, known.From)
	case to == known.From:
		c.record = record{ID: id, From: known.To, To: known.From, Back: !known.Back}
		return nil
	case c.options.Finish && !known.Moved:
		return fmt.Errorf("not every node has moved yet; run 'sealift node load-balancer %s' first", known.To)
	}
	c.record, c.Resumes = *known, true
	if !known.Moved || c.options.Finish {
		c.run = known.ID
	}
	return nil
}

// check refuses what cannot work, before anything changes.
func (c *Change) check(ctx context.Context) error {
	all, err := c.nodes.list(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		switch {
		case one.Ready:
		case one.ControlPlane():
			return fmt.Errorf("control plane %s is not Ready (%s): its API server would not show a certificate for %s; bring it back, or remove it with 'sealift node remove %s'", one.Name, one.Why, c.To(), one.Name)
		case c.options.Finish:
			return fmt.Errorf("node %s is not Ready (%s), and may know %s alone; bring it back, or remove it with 'sealift node remove %s'", one.Name, one.Why, c.From(), one.Name)
		default:
			c.Off = append(c.Off, one.Name)
		}
	}
	if !c.Resumes {
		if err := refuseNode(all, c.From(), ": give that node another address with 'sealift node readdress'"); err != nil {
			return err
		}
	}
	if err := refuseNode(all, c.To(), ": name an address that leads to all control planes"); err != nil {
		return err
	}
	if _, err := net.DefaultResolver.LookupHost(ctx, cluster.HostOf(c.To())); err != nil {
		return fmt.Errorf("this host cannot find %s: %w; every node has to resolve the name", cluster.HostOf(c.To()), err)
	}
	if err := c.host.reach(ctx, c.To(), anyServer); err != nil {
		return fmt.Errorf("%w; let the load balancer pass connections on to port %s of the control planes, without ending TLS", err, cluster.APIPort)
	}
	edits, err := c.host.host().edits(c.record.move(Switch))
	c.Files = slices.Sorted(maps.Keys(edits))
	return err
}

// Plan returns the steps. Those that an interrupted run has finished are skipped when it runs.
func (c *Change) Plan() (plan lifecycle.Plan) {
	add := func(id, title string, timeout time.Duration, run func(context.Context) error) {
		plan = append(plan, lifecycle.Step{ID: id, Phase: lifecycle.Outro, Title: title, Timeout: timeout, Inputs: c.run,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, run(ctx) }})
	}
	if !c.options.Finish {
		add(recordStep, "note the change in the cluster", shortTime, c.note)
		add(besideStep, "certificates for both, and a try on every node", stageTime, func(ctx context.Context) error { return c.spread(ctx, Both) })
		add(switchStep, "let every node use "+c.To(), stageTime, func(ctx context.Context) error { return c.spread(ctx, Switch) })
		add(clusterStep, "write "+c.To()+" to the cluster's configuration", stageTime, c.configure)
		add(movedStep, "look for nodes that joined meanwhile", stageTime, c.late)
	}
	if c.ends() {
		add(aloneStep, "certificates for "+c.To()+" alone", stageTime, c.alone)
		add(LastStep, "remove the note of the change", shortTime, func(ctx context.Context) error { return c.insist(ctx, ownRecord.Forget) })
	}
	return plan
}

// insist repeats a request while the API is away.
func (c *Change) insist(ctx context.Context, request func(context.Context, kubernetes.Interface) error) error {
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return request(ctx, c.client) })
}

// note writes the record. Control planes that join from now on get a certificate for both.
func (c *Change) note(ctx context.Context) error {
	c.record.Moved = false
	if err := c.insist(ctx, c.record.write); err != nil {
		return err
	}
	return c.insist(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		return nameServers(ctx, client, cluster.HostOf(c.To()), "")
	})
}

// spread brings every node to a stage, one after the other: also those that have joined meanwhile. A worker that is off stays as it is.
func (c *Change) spread(ctx context.Context, stage string) error {
	done := map[string]bool{}
	if stage == Switch {
		done = c.moved
	}
	for {
		all, err := c.nodes.list(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(one cluster.Node) bool {
			return !done[one.Name] && (one.Ready || one.ControlPlane() || stage == NewOnly)
		})
		if at < 0 {
			return nil
		}
		name := all[at].Name
		request := lifecycle.Digest(c.record.ID, c.run, stage)[:16]
		if err := c.nodes.bring(ctx, name, c.record.move(stage), request); err != nil {
			return fmt.Errorf("%w%s", err, c.left(stage))
		}
		done[name] = true
	}
}

// left says how far the other nodes are when one has failed.
func (c *Change) left(stage string) string {
	moved := slices.Sorted(maps.Keys(c.moved))
	switch {
	case stage == Both:
		return "\nno node uses " + c.To() + " yet"
	case stage == Switch && len(moved) > 0:
		return fmt.Sprintf("\nthese nodes use %s: %s; to take that back, run 'sealift node load-balancer %s'", c.To(), strings.Join(moved, ", "), c.From())
	}
	return ""
}

// configure writes the new load balancer to the objects of the cluster.
func (c *Change) configure(ctx context.Context) error {
	if err := c.insist(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		return configure(ctx, client, c.From(), c.To())
	}); err != nil {
		return err
	}
	if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return configureInstallers(ctx, c.objects, c.From(), c.To()) }); err != nil {
		return err
	}
	if c.record.Configured == nil {
		now := metav1.Now().Rfc3339Copy() // as pods have their time
		c.record.Configured = &now
		if err := c.insist(ctx, c.record.write); err != nil {
			return err
		}
	}
	all, err := c.nodes.list(ctx)
	if err != nil {
		return err
	}
	return restartDaemons(ctx, c.client, "", c.record.Configured.Time, func(name string) bool {
		return slices.ContainsFunc(all, func(one cluster.Node) bool { return one.Name == name && one.Ready })
	})
}

// late brings nodes that have read the old configuration while they joined, and notes that all have moved.
func (c *Change) late(ctx context.Context) error {
	if err := c.spread(ctx, Switch); err != nil {
		return err
	}
	c.record.Moved = true
	return c.insist(ctx, c.record.write)
}

// alone takes the old load balancer out of the certificates.
func (c *Change) alone(ctx context.Context) error {
	if err := c.spread(ctx, NewOnly); err != nil {
		return err
	}
	if cluster.HostOf(c.From()) == cluster.HostOf(c.To()) {
		return nil
	}
	return c.insist(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		return nameServers(ctx, client, "", cluster.HostOf(c.From()))
	})
}

func (c *Change) runSteps(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.MovingAPI, c.Plan(), c.Journal, observe)
	return err
}
