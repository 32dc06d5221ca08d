// Package hub starts what runs on a fleet's hub: it installs the definitions, serves the webhooks over TLS, and runs the
// controllers. The controllers themselves are in the packages beside it.
//
// All state is in the hub's API server. A hub that is killed at any moment resumes where it was. Of several hubs one decides: it
// holds the Lease of that name. The work on clusters is shared: each cluster belongs to a shard, and each shard has a Lease.
package hub

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
)

// DefaultNamespace is the namespace of the hub's own objects: its Lease, its certificate authority, and what rollouts
// remember.
const DefaultNamespace = "sealift-fleet"

// lease is the Lease of the hub that decides.
const lease = "sealift-fleet-hub"

// Controller registers controllers with the manager of a hub. It may add kinds to the manager's scheme and register
// webhooks. It must not start anything itself.
//
// The manager's client reads from caches, all but Secrets and ConfigMaps. The caches hold only those Leases, RoleBindings and
// CertificateSigningRequests that belong to clusters and add-ons. Writes go to the API server.
type Controller func(context.Context, *Hub) error

// Options configure a hub. Config and Webhook.Listen are required.
type Options struct {
	Config *rest.Config
	// Namespace is DefaultNamespace if it is empty.
	Namespace string
	Log       *slog.Logger
	Webhook   Webhook
	// Health is the address of /healthz and /readyz, and Metrics that of /metrics, by TLS. None is served without one.
	Health, Metrics string
	// Controllers are started once this hub holds the Lease, except those of Hub.Shard, which run at once.
	Controllers []Controller
	// LeaseDuration is how long another hub waits for one that is silent. Default 15 s.
	LeaseDuration time.Duration
}

// Webhook configures where a hub serves its webhooks, and how the API server reaches them.
type Webhook struct {
	// Listen is the address to listen on.
	Listen string
	// Service names the Service of the webhooks in the hub's namespace. Without one, the API server is given the address that the
	// hub listens on, or Host with its port.
	Service, Host string
	// Cert, Key and CA are files with an externally issued certificate. Without them the hub has its own certificate authority.
	Cert, Key, CA string
}

// Hub is a hub that has not started yet.
type Hub struct {
	manager.Manager
	// Namespace has the hub's own objects.
	Namespace string
	// Log is for controllers.
	Log *slog.Logger

	webhooks *webhooks
	shards   *shards
	every    time.Duration
}

// Run runs a hub until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 15*time.Second)
	cluster, err := kube.Connect(o.Config, o.Log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served, err := listen(ctx, cluster, o)
	if err != nil {
		return fmt.Errorf("serve the webhooks of the hub: %w", err)
	}
	defer served.close()
	if err := install(ctx, cluster, o.Namespace, served.conversion()); err != nil {
		return fmt.Errorf("install the definitions of the hub: %w", err)
	}
	m, err := newManager(ctx, cluster, o, served)
	if err != nil {
		return fmt.Errorf("prepare the hub: %w", err)
	}
	client, err := coordinationv1client.NewForConfigAndClient(cluster.Config())
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	h := &Hub{Manager: m, Namespace: o.Namespace, Log: o.Log, webhooks: served, every: o.LeaseDuration}
	if err := h.Keep(func(ctx context.Context) error { return crd.Convert(ctx, cluster, served.conversion()) }); err != nil {
		return err
	}
	h.shards = newShards(client.Leases(o.Namespace), strings.ToLower(host)+"-"+rand.String(8), o.LeaseDuration, o.Log)
	if err := m.Add(h.shards); err != nil {
		return err
	}
	for _, register := range o.Controllers {
		if err := register(ctx, h); err != nil {
			return fmt.Errorf("prepare the controllers of the hub: %w", err)
		}
	}
	o.Log.Info("the hub runs", "namespace", o.Namespace, "webhooks", served.address())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	select {
	case err = <-ended:
	case err = <-h.shards.failed: // nothing may continue
	}
	if err != nil {
		return fmt.Errorf("run the hub: %w", err)
	}
	return nil
}

// install applies the definitions. They may have been applied by Open Cluster Management before.
func install(ctx context.Context, cluster *kube.Cluster, namespace string, c crd.Conversion) error {
	definitions, err := crd.Hub(c)
	if err != nil {
		return err
	}
	err = crd.Apply(ctx, cluster, namespace, definitions)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; 'sealift fleet hub --print-rbac' prints the rights that this version needs: apply them", err)
	}
	return err
}

func newManager(ctx context.Context, cluster *kube.Cluster, o Options, served *webhooks) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme, ocm.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	ofAddOns, err := labels.Parse(ocm.AddOnLabel)
	if err != nil {
		return nil, err
	}
	deadline, retry := o.LeaseDuration*2/3, o.LeaseDuration/7
	cfg, _ := cluster.Config()
	// a watch lasts longer than a request may take
	patient := rest.CopyConfig(cfg)
	patient.Timeout = 0
	watches, err := rest.HTTPClientFor(patient)
	if err != nil {
		return nil, err
	}
	logger := logr.FromSlogHandler(o.Log.Handler())
	ctrllog.SetLogger(logger) // for unused parts of the library
	m, err := manager.New(cfg, manager.Options{
		Scheme: scheme,
		Logger: logger,
		NewCache: func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
			c, err := cache.New(cfg, o)
			return endingCache{c, ctx.Done()}, err
		},
		Cache: cache.Options{
			HTTPClient:       watches,
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&coordinationv1.Lease{}:                     {Field: fields.OneTermEqualSelector("metadata.name", ocm.ClusterLease)},
				&rbacv1.RoleBinding{}:                       {Label: ofAddOns},
				&certificatesv1.CertificateSigningRequest{}: {Label: ofAddOns},
			},
		},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor:   []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
			Unstructured: true,
		}},
		LeaderElection: true, LeaderElectionID: lease, LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &o.LeaseDuration, RenewDeadline: &deadline, RetryPeriod: &retry,
		HealthProbeBindAddress: cmp.Or(o.Health, "0"),
		Metrics:                metricsserver.Options{BindAddress: cmp.Or(o.Metrics, "0"), SecureServing: true, TLSOpts: served.tlsOptions()},
		// two hubs in one process are a test
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, err
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return m, m.AddReadyzCheck("webhooks", served.check)
}

// endingCache lets a manager end while its caches wait for an API server that does not answer. The manager waits for them even after its
// context has ended, and keeps a processor busy with that.
type endingCache struct {
	cache.Cache
	ended <-chan struct{}
}

// WaitForCacheSync returns true also when the manager has ended.
func (c endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	synced := make(chan bool, 1)
	go func() { synced <- c.Cache.WaitForCacheSync(ctx) }()
	select {
	case ok := <-synced:
		return ok
	case <-c.ended:
		return true
	}
}

// pool returns a pool with one authority.
func pool(pem []byte) (*x509.CertPool, error) {
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificate authority has no certificate")
	}
	return p, nil
}

// reachable returns the address under which the API server finds a listener.
func reachable(l net.Listener, host string) string {
	if host == "" {
		return l.Addr().String()
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return l.Addr().String()
	}
	return net.JoinHostPort(host, port)
}
