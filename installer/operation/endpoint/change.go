package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/record"
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
	// Finish removes the old load balancer from the certificates.
	Finish bool
}

// Kind is a change of the load balancer.
var Kind = operation.Kind{
	Name: record.LoadBalancer, Asks: intent.Balance, Roles: []intent.Role{intent.Worker, intent.ControlPlane}, Journal: lifecycle.MovingAPI,
	Apply: func(ctx context.Context, h operation.Host, r operation.Request) error {
		m, err := moveOf(r)
		if err != nil {
			return err
		}
		return Node{Root: h.Root, Name: h.Node, Output: h.Output, Step: h.Step, Agent: h.Server != nil}.Bring(ctx, m)
	},
	Restarts: func(stage string) bool { return path.Base(stage) == Switch },
}

// moveOf returns the request to a node. The last look brings late nodes to the stage of the others.
func moveOf(r operation.Request) (m intent.Move, err error) {
	if err := json.Unmarshal(r.Params, &m); err != nil {
		return m, fmt.Errorf("the request to change the load balancer: %w", err)
	}
	m.Stage = path.Base(r.Stage)
	if r.Stage == movedStep {
		m.Stage = Switch
	}
	return m, m.Check()
}

// params are stored in the cluster's record of a change.
type params struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Back says that To is where an earlier change began: that one is taken back.
	Back bool `json:"back"`
	// Configured is when the cluster's configuration got To. What was started before may know From alone.
	Configured *metav1.Time `json:"configured,omitempty"`
}

// Change gives the API of a cluster another load balancer. Only Run changes anything.
type Change struct {
	// Resumes says that an earlier run began this change.
	Resumes bool
	// Off are the workers that are not Ready. They do not take part.
	Off []string
	// Files are those of this host that change.
	Files []string

	options Options
	params  params
	run     *operation.Run
	nodes   operation.Nodes
	host    Node
	client  kubernetes.Interface
	objects *kube.Cluster
	site    *operation.Site
	*node.Session
	moved map[string]bool // in this run
}

// ErrSame means that the cluster already has the load balancer.
var ErrSame = errors.New("the cluster already has that load balancer")

// From is the old load balancer, and To the new one.
func (c *Change) From() string { return c.params.From }

// To is the new load balancer.
func (c *Change) To() string { return c.params.To }

// Back means that To is the previous load balancer, and an earlier change is rolled back.
func (c *Change) Back() bool { return c.params.Back }

// ends reports whether the old load balancer is removed from the certificates.
func (c *Change) ends() bool { return c.options.Finish || c.params.Back }

// begin resumes the recorded change, rolls it back, or begins one. to is "" if only the end is requested.
func (c *Change) begin(ctx context.Context, records operation.Records, from, to string, now time.Time) error {
	known, err := operation.Known(ctx, records, Kind.Name)
	if err != nil {
		return err
	}
	c.run = &operation.Run{Own: c.host.Name, Known: known, Records: records, Nodes: moving{c.nodes, c.moved}}
	c.run.Record = record.Record{ID: now.UTC().Format("20060102T150405.000Z"), Kind: Kind.Name, Began: now.UTC()}
	var was params
	if known != nil {
		if err := known.Decode(&was); err != nil {
			return err
		}
	}
	switch {
	case known == nil && c.options.Finish:
		return errors.New("no change of the load balancer is under way")
	case known == nil && from == to:
		return ErrSame
	case known == nil:
		if err := refuseOwn(from); err != nil {
			return err
		}
		c.params = params{From: from, To: to}
	case to != "" && to != was.To && to != was.From:
		return fmt.Errorf("the change from %s to %s is under way; end it with 'sealift node load-balancer --finish', or take it back with 'sealift node load-balancer %s'", was.From, was.To, was.From)
	case to == was.From:
		c.params = params{From: was.To, To: was.From, Back: !was.Back}
	case c.options.Finish && !known.Waits:
		return fmt.Errorf("not every node has moved yet; run 'sealift node load-balancer %s' first", was.To)
	default:
		c.params, c.Resumes = was, true
		id := c.run.Record.ID
		c.run.Resume(*known)
		if known.Waits && !c.options.Finish { // all nodes are checked again
			c.run.Record.ID = id
			c.run.Record = c.run.Record.In("")
		}
	}
	c.stages()
	text, err := json.Marshal(c.params)
	c.run.Record.Params = text
	c.run.Record.About = fmt.Sprintf("the API is moving from the load balancer %s to %s", c.From(), c.To())
	c.run.Record.Next = fmt.Sprintf("run 'sealift node load-balancer %s' on a control plane, or 'sealift node load-balancer %s' to take it back", c.To(), c.From())
	return err
}

// moving notes which nodes have moved in this run.
type moving struct {
	operation.Nodes
	moved map[string]bool
}

func (n moving) Apply(ctx context.Context, name string, r operation.Request) error {
	err := n.Nodes.Apply(ctx, name, r)
	if err == nil && r.Stage == switchStep {
		n.moved[name] = true
	}
	return err
}

// check refuses what cannot work, before anything changes.
func (c *Change) check(ctx context.Context) error {
	all, err := c.nodes.List(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		switch {
		case one.Ready:
		case one.ControlPlane():
			return fmt.Errorf("control plane %s is not Ready (%s): its API server would not show a certificate for %s; bring it back, or remove it with 'sealift node remove %s'", one.Name, one.Why, c.To(), one.Name)
		case c.options.Finish:
			return fmt.Errorf("node %s is not Ready (%s), and may know only %s; bring it back, or remove it with 'sealift node remove %s'", one.Name, one.Why, c.From(), one.Name)
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
	edits, err := c.host.host().edits(intent.Move{From: c.From(), To: c.To()})
	c.Files = slices.Sorted(maps.Keys(edits))
	return err
}

// stages are those of this run. The first part ends with movedStep, and a person decides on the end, but for a change that is taken back.
func (c *Change) stages() {
	there := func(n cluster.Node) bool { return n.Ready || n.ControlPlane() }
	if !c.options.Finish {
		c.run.Stages = []operation.Stage{
			{ID: recordStep, Title: "note the change in the cluster", Timeout: shortTime, Before: c.note},
			{ID: besideStep, Title: "certificates for both, and a try on every node", Timeout: stageTime, Nodes: there, AtOnce: 1,
				Failed: func(record.Record) string { return "\nno node uses " + c.To() + " yet" }},
			{ID: switchStep, Title: "let every node use " + c.To(), Timeout: stageTime, Nodes: there, AtOnce: 1, Failed: c.left},
			{ID: clusterStep, Title: "write " + c.To() + " to the cluster's configuration", Timeout: stageTime, Before: c.configure},
			{ID: movedStep, Title: "look for nodes that joined meanwhile", Timeout: stageTime, AtOnce: 1, Failed: c.left,
				Nodes: func(n cluster.Node) bool { return there(n) && !c.moved[n.Name] }},
		}
	}
	if c.run.Keeps = !c.ends(); !c.run.Keeps {
		c.run.Stages = append(c.run.Stages,
			operation.Stage{ID: aloneStep, Title: "certificates for " + c.To() + " alone", Timeout: stageTime, Nodes: operation.Everyone, AtOnce: 1, After: c.alone, Loose: c.options.Finish},
			operation.Stage{ID: LastStep, Title: "remove the note of the change", Timeout: shortTime, Loose: c.options.Finish})
	}
	c.run.Loose = c.run.Keeps
}

// Plan returns the steps. Those that an interrupted run has finished are skipped when it runs.
func (c *Change) Plan() lifecycle.Plan { return c.run.Plan() }

// insist repeats a request while the API is unreachable.
func (c *Change) insist(ctx context.Context, request func(context.Context, kubernetes.Interface) error) error {
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return request(ctx, c.client) })
}

// note requests a certificate for both from control planes that join from now on.
func (c *Change) note(ctx context.Context) error {
	return c.insist(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		return nameServers(ctx, client, cluster.HostOf(c.To()), "")
	})
}

// left describes the progress of the other nodes when one has failed.
func (c *Change) left(record.Record) string {
	if moved := slices.Sorted(maps.Keys(c.moved)); len(moved) > 0 {
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
	if err := c.run.Record.Decode(&c.params); err != nil { // another control plane may have come so far
		return err
	}
	if c.params.Configured == nil {
		now := metav1.Now().Rfc3339Copy() // as pods have their time
		c.params.Configured = &now
		if err := c.run.Save(ctx, c.params); err != nil {
			return err
		}
	}
	all, err := c.nodes.List(ctx)
	if err != nil {
		return err
	}
	return restartDaemons(ctx, c.client, "", c.params.Configured.Time, func(name string) bool {
		return slices.ContainsFunc(all, func(one cluster.Node) bool { return one.Name == name && one.Ready })
	})
}

// alone removes the old load balancer from kubeadm's configuration.
func (c *Change) alone(ctx context.Context) error {
	if cluster.HostOf(c.From()) == cluster.HostOf(c.To()) {
		return nil
	}
	return c.insist(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		return nameServers(ctx, client, "", cluster.HostOf(c.From()))
	})
}
