// Package agent runs on a managed cluster. It applies the ManifestWorks of the cluster's namespace on the hub, reports their status, and
// renews the Lease of the cluster (O-32, O-36, X-16, X-17, X-25).
//
// On the hub it needs only rights in its own namespace, and the right to read its ManagedCluster and to write its status. Package join
// grants them. It opens all connections itself: the hub never connects to the cluster.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/ensure"
	"github.com/sealift/sealift/kube/reconcile"
)

// workers is how many works are processed at once: one that cannot be deleted holds up no other.
const workers = 4

// Namespace is where an agent keeps its state on its cluster.
const Namespace = "sealift-fleet-agent"

// DefaultMaxAge is the maximum age of a signature that an agent sees for the first time.
const DefaultMaxAge = 30 * 24 * time.Hour

// Options configure an agent. Hub, Local and Cluster are required.
type Options struct {
	// Hub and Local are the API servers of the hub and of the agent's cluster.
	Hub, Local *rest.Config
	// Cluster is the name of the agent's cluster on the hub.
	Cluster string
	// Keys are the keys of the hub that the cluster joined. Works that none of them signed are refused. Unsigned accepts works
	// without signatures, of a hub that does not sign. One of them is required.
	Keys     []signature.PublicKey
	Unsigned bool
	// MaxAge is the maximum age of the signature of a work that is new to the cluster. Default DefaultMaxAge.
	MaxAge time.Duration
	// FormerHubs are addresses of the hub under which an agent of Open Cluster Management recorded what it applied. That of Hub is
	// always among them.
	FormerHubs []string
	// Content brings the images of works to the nodes. Nil leaves that to the nodes.
	Content *Content
	Log     *slog.Logger
	// Look is how often the agent checks objects that it reports. Default 10 s.
	Look time.Duration
	// Repair is how often it looks for drift. Default 5 minutes.
	Repair time.Duration
	// RemoveTime is how long the objects of a removed work may take to go. Default one minute.
	RemoveTime time.Duration
	// Heartbeat is how often it renews its Lease on the hub. Default: a fifth of the hub's tolerance.
	Heartbeat time.Duration
}

// agent is a running agent.
type agent struct {
	Options
	hub     client.Client // without a cache
	cluster *kube.Cluster // the hub, for watching
	local   *kube.Cluster
	reader  kubernetes.Interface // of the local cluster
	hubHash string

	mu      sync.Mutex
	applied map[string]*appliedWork // by the name of the work

	delivery imageDelivery
	marks    marks
	refused  map[string]*seal.Refusal // by the name of the work, under mu
}

// Run works until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.MaxAge = cmp.Or(o.MaxAge, DefaultMaxAge)
	o.Look, o.Repair = cmp.Or(o.Look, 10*time.Second), cmp.Or(o.Repair, 5*time.Minute)
	if o.Content != nil {
		o.Content = new(*o.Content)
		o.Content.Timeout = cmp.Or(o.Content.Timeout, DefaultImageTimeout)
	}
	a, err := connect(o)
	if err != nil {
		return fmt.Errorf("start the agent of cluster %s: %w", o.Cluster, err)
	}
	if err := a.prepare(ctx); err != nil {
		return fmt.Errorf("prepare cluster %s: %w", o.Cluster, err)
	}
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return a.beat(working) })
	group.Go(func() error { return a.identities(working) })
	group.Go(func() error { return a.deliveries(working) })
	group.Go(func() error {
		kind := kube.Ref{Group: ocm.WorkVersion.Group, Version: ocm.WorkVersion.Version, Kind: "ManifestWork", Namespace: o.Cluster}
		return reconcile.Loop{
			Reconcile: a.reconcile, Watch: []kube.Ref{kind}, Cluster: a.cluster, Workers: workers, LongestRetry: time.Minute,
			Failed: func(ctx context.Context, key kube.Ref, _ time.Duration, err error) {
				o.Log.WarnContext(ctx, "a work is tried again", "work", key.Name, "error", err)
			},
		}.Run(working)
	})
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func connect(o Options) (*agent, error) {
	a, err := connectLocal(o)
	if err != nil {
		return nil, err
	}
	a.hubHash = hashOf(o.Hub.Host)
	scheme := runtime.NewScheme()
	if err := ocm.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if a.cluster, err = kube.Connect(o.Hub, o.Log); err != nil {
		return nil, err
	}
	cfg, http := a.cluster.Config()
	// a fixed mapper: discovery would be a right more
	a.hub, err = client.New(cfg, client.Options{Scheme: scheme, HTTPClient: http, Mapper: mapper()})
	return a, err
}

// connectLocal connects only to the agent's own cluster.
func connectLocal(o Options) (*agent, error) {
	if len(o.Keys) == 0 && !o.Unsigned {
		return nil, errors.New("no key of the hub is pinned; run 'sealift fleet join' again and use the file that it writes, or join with --unsigned if the hub signs nothing")
	}
	o.RemoveTime = cmp.Or(o.RemoveTime, time.Minute)
	a := &agent{Options: o, applied: make(map[string]*appliedWork), refused: make(map[string]*seal.Refusal), delivery: newImageDelivery()}
	var err error
	if a.local, err = kube.Connect(o.Local, o.Log); err != nil {
		return nil, err
	}
	cfg, http := a.local.Config()
	if a.reader, err = kubernetes.NewForConfigAndClient(cfg, http); err != nil {
		return nil, err
	}
	a.marks = marks{client: a.reader.CoreV1(), cluster: o.Cluster, known: make(map[string]*corev1.ConfigMap)}
	return a, nil
}

// hashOf makes the beginning of the names of AppliedManifestWorks from the address of the hub.
func hashOf(server string) string {
	return sha256hex.Of(server)
}

// prepare installs the kinds that an agent writes on the cluster, and the namespace of add-ons.
func (a *agent) prepare(ctx context.Context) error {
	objects, err := crd.Managed()
	if err != nil {
		return err
	}
	if err := crd.Apply(ctx, a.local, Namespace, objects); err != nil {
		return err
	}
	return ensure.Namespace(ctx, a.reader.CoreV1(), ocm.DefaultInstallNamespace)
}
