// Package agent runs on a managed cluster. It applies the ManifestWorks of the cluster's namespace on the hub, reports
// what became of them, and tells the hub that the cluster is alive (O-32, O-36, X-16, X-17, X-25).
//
// On the hub it needs rights in its own namespace alone, and the right to read its ManagedCluster and to write its status.
// Package join grants them. It opens all connections itself: the hub never connects to the cluster.
package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/reconcile"
)

// workers is how many works are worked on at once: one that cannot be deleted holds up no other.
const workers = 4

// Namespace is where an agent keeps what it remembers on its cluster.
const Namespace = "sealift-fleet-agent"

// Options say how an agent runs. Hub, Local and Cluster are required.
type Options struct {
	// Hub and Local are the API servers of the hub and of the agent's cluster.
	Hub, Local *rest.Config
	// Cluster is the name of the agent's cluster on the hub.
	Cluster string
	Log     *slog.Logger
	// Look is how often the agent looks at objects that it reports. Default 10 s.
	Look time.Duration
	// Repair is how often it looks for drift. Default 5 minutes.
	Repair time.Duration
	// Heartbeat is how often it tells the hub that the cluster is alive. Default: a fifth of what the hub tolerates.
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
}

// Run works until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Look, o.Repair = cmp.Or(o.Look, 10*time.Second), cmp.Or(o.Repair, 5*time.Minute)
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
	a := &agent{Options: o, applied: make(map[string]*appliedWork)}
	var errs [5]error
	a.cluster, errs[0] = kube.Connect(o.Hub, o.Log)
	a.local, errs[1] = kube.Connect(o.Local, o.Log)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	errs[2] = ocm.AddToScheme(scheme)
	cfg, http := a.cluster.Config()
	// a fixed mapper: discovery would be a right more
	a.hub, errs[3] = client.New(cfg, client.Options{Scheme: scheme, HTTPClient: http, Mapper: mapper()})
	localConfig, localHTTP := a.local.Config()
	a.reader, errs[4] = kubernetes.NewForConfigAndClient(localConfig, localHTTP)
	sum := sha256.Sum256([]byte(o.Hub.Host))
	a.hubHash = hex.EncodeToString(sum[:])
	return a, errors.Join(errs[:]...)
}

// prepare gives the cluster the kinds that an agent writes there, and the namespace of add-ons.
func (a *agent) prepare(ctx context.Context) error {
	objects, err := crd.Managed()
	if err != nil {
		return err
	}
	_, err = kube.New(a.local, kube.Options{}).Apply(ctx, kube.Set{Name: "fleet-definitions", Namespace: Namespace}, objects, kube.ApplyOptions{Force: true})
	if err != nil {
		return err
	}
	return a.namespace(ctx, ocm.DefaultInstallNamespace)
}
