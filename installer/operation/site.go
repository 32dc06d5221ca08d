package operation

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/installer/operation/record"
)

// Site is this host as a control plane that leads an operation.
type Site struct {
	*node.Session
	Kind   Kind
	Own    string // the name of this node
	Admin  controlplane.Administrator
	Config *rest.Config
	View   *cluster.View
}

// Open looks at this host and its cluster, and refuses an operation that another one excludes. config chooses how the API is asked, once
// the site has its log and its address; nil asks as the administrator's kubeconfig says. It changes nothing and takes no lock.
func Open(ctx context.Context, scope *node.Scope, kind Kind, config func(context.Context, *Site) (*rest.Config, error)) (*Site, error) {
	session, err := scope.Begin(kind.Journal)
	if err != nil {
		return nil, err
	}
	s := &Site{Session: session, Kind: kind}
	if s.Admin, err = controlplane.AsAdministrator(); err != nil {
		return nil, err
	}
	if s.Own, err = host.Name(); err != nil {
		return nil, err
	}
	if config == nil {
		config = func(context.Context, *Site) (*rest.Config, error) { return cluster.Config(kubeadm.AdminKubeconfig) }
	}
	if s.Config, err = config(ctx, s); err != nil {
		return nil, err
	}
	if s.View, err = cluster.ViewOf(s.Config, false); err != nil {
		return nil, err
	}
	if s.Admin.Client, err = kubernetes.NewForConfig(s.Config); err != nil {
		return nil, err
	}
	return s, s.on().Check(ctx, s.Admin.Client, exclusion.OfKind(kind.Name))
}

func (s *Site) on() exclusion.Host { return exclusion.Host{Root: s.Root} }

// Known reads the record of a kind; nil if there is none.
func Known(ctx context.Context, records Records, kind string) (*record.Record, error) {
	all, err := records.Read(ctx)
	return all.Of(kind), err
}

// Records returns the cluster's records. They retry while the API is down for some minutes.
func (s *Site) Records() Records {
	return RecordsOf(func() (kubernetes.Interface, error) { return s.Admin.Client, nil })
}

// RecordsOf are the records of a cluster whose API is asked with a new client each time: its CAs may change meanwhile.
func RecordsOf(client func() (kubernetes.Interface, error)) Records { return records{client} }

type records struct {
	client func() (kubernetes.Interface, error)
}

func (r records) Read(ctx context.Context) (all record.All, err error) {
	err = r.retry(ctx, func(ctx context.Context, s record.Store) (err error) {
		all, err = s.Read(ctx)
		return err
	})
	return all, err
}

func (r records) Change(ctx context.Context, change func(record.All) error) error {
	return r.retry(ctx, func(ctx context.Context, s record.Store) error { return s.Change(ctx, change) })
}

func (r records) retry(ctx context.Context, request func(context.Context, record.Store) error) error {
	return leader.RetryDuringOutage(ctx, func(ctx context.Context) error {
		client, err := r.client()
		if err != nil {
			return err
		}
		return request(ctx, record.Store{Client: client})
	})
}

// Nodes are those of the cluster. say hears how far they are.
func (s *Site) Nodes(say func(string)) Nodes { return nodes{s, say} }

type nodes struct {
	*Site
	say func(string)
}

func (n nodes) List(ctx context.Context) (all []cluster.Node, err error) {
	err = leader.RetryDuringOutage(ctx, func(ctx context.Context) (err error) {
		all, err = n.View.Nodes(ctx)
		return err
	})
	return all, err
}

func (n nodes) Apply(ctx context.Context, name string, r Request) error {
	if name == n.Own && n.Kind.Journal != "" {
		h := Host{Root: n.Root, Node: n.Own, Output: n.Log, Step: func(line string) { n.say("node " + n.Own + ": " + line) }}
		if err := n.Kind.Apply(ctx, h, r); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		return nil
	}
	in := intent.Intent{Upgrade: r.name(), Operation: n.Kind.Asks, Server: share.Address(n.Admin.Address), Stage: r.Stage, Params: r.Params}
	return leader.Of(n.View).Ask(ctx, n.say, name, in.WithEarlier())
}

// Say returns what writes lines to a log.
func Say(w io.Writer) func(string) { return func(line string) { fmt.Fprintln(w, line) } }

// Lead leads a run, while no other host of the cluster works on all nodes. It calls waiting with the host that does.
func (s *Site) Lead(ctx context.Context, r *Run, waiting func(holder string), observe func(lifecycle.Event)) error {
	begins := exclusion.OfKind(s.Kind.Name)
	r.Refuse = func(all record.All) error { return exclusion.Refuse(begins, exclusion.UnderWay(all)) }
	return exclusion.WithClusterLock(ctx, s.View.Cluster(), s.on(), begins, waiting, func(ctx context.Context) error {
		return r.Lead(ctx, s.Kind.Journal, s.Journal, s.Log.Narrate(observe))
	})
}
