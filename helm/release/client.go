// Package release installs charts in clusters, upgrades and uninstalls them, and reads what is installed.
//
// Releases are those of Helm: the helm command lists, upgrades and rolls back releases of this package, and the other way
// round. Releases made by Helm 3 keep its way of applying, and new ones use it, so that Helm 3 can continue with all of them.
//
// Templates run in child processes, within limits: a program that installs charts has to serve the tasks of package engine.
//
// It waits for no lock: the caller sees to it that only one operation at a time works on a release.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	helmrelease "helm.sh/helm/v4/pkg/release"
	v1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/sealift/sealift/helm"
)

// Errors that callers branch on.
var (
	// ErrNotFound means that the release does not exist.
	ErrNotFound = driver.ErrReleaseNotFound
	// ErrPending means that another operation on the release is running, or was killed. Recover helps then.
	ErrPending = errors.New("another operation is in progress, or was killed")
)

// Words of Helm for the status of a release.
const (
	Deployed    = helm.Deployed
	Failed      = "failed"
	Uninstalled = "uninstalled"
)

// Config says which releases a Client works on.
type Config struct {
	Cluster   *rest.Config
	Namespace string // of the releases
	// Tenant names who may change charts and values. The templates of one tenant do not delay those of others.
	Tenant string
	// ConfigMaps keeps releases in ConfigMaps. By default they are kept in Secrets.
	ConfigMaps bool
	// Log gets Helm's messages, which may quote the rendered chart. Nil drops them.
	Log *slog.Logger
	// OfferAge is how long an answer about the cluster's version and kinds is used: others install kinds, and upgrade the cluster.
	// Default 1 minute.
	OfferAge time.Duration
	// Answer bounds one request, but not watches. 0 is no bound.
	Answer time.Duration
}

// Client works on the releases of one namespace. It may be used from several goroutines.
type Client struct {
	config     *rest.Config
	namespace  string
	tenant     string
	configMaps bool
	log        *slog.Logger
	offerAge   time.Duration
	answer     time.Duration
	discovery  discovery.CachedDiscoveryInterface
	mapper     *restmapper.DeferredDiscoveryRESTMapper

	mu    sync.Mutex
	offer *common.Capabilities // the cluster's capabilities; nil until queried
	asked time.Time            // when
}

// discoveryTimeout ends questions for the kinds of a cluster, which several operations share.
const discoveryTimeout = 10 * time.Second

// New returns a Client. It asks the cluster nothing.
func New(c Config) (*Client, error) {
	if c.Namespace == "" {
		return nil, errors.New("releases need a namespace")
	}
	config := rest.CopyConfig(c.Cluster)
	config.WarningHandler = rest.NoWarnings{}
	forDiscovery := rest.CopyConfig(config)
	forDiscovery.Timeout = discoveryTimeout
	found, err := discovery.NewDiscoveryClientForConfig(forDiscovery)
	if err != nil {
		return nil, fmt.Errorf("create a cluster client: %w", err)
	}
	kinds := memory.NewMemCacheClient(found)
	return &Client{
		config: config, namespace: c.Namespace, tenant: c.Tenant, configMaps: c.ConfigMaps, log: c.Log, offerAge: cmp.Or(c.OfferAge, time.Minute),
		answer: c.Answer, discovery: kinds, mapper: restmapper.NewDeferredDiscoveryRESTMapper(kinds),
	}, nil
}

// Refresh forgets which kinds the cluster has. Call it when CustomResourceDefinitions have changed; otherwise they are asked for
// again after Config.OfferAge.
func (c *Client) Refresh() {
	c.mapper.Reset()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offer = nil
}

// capabilities returns the cluster's capabilities for templates.
func (c *Client) capabilities() (*common.Capabilities, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offer == nil || time.Since(c.asked) > c.offerAge {
		c.discovery.Invalidate()
		versions, err := action.GetVersionSet(c.discovery)
		if err != nil {
			return nil, err
		}
		server, err := c.discovery.ServerVersion()
		if err != nil {
			return nil, fmt.Errorf("ask the cluster for its version: %w", err)
		}
		offer := common.DefaultCapabilities.Copy()
		offer.APIVersions = versions
		offer.KubeVersion = common.KubeVersion{Version: server.GitVersion, Major: server.Major, Minor: server.Minor}
		c.offer, c.asked = offer, time.Now()
	}
	return c.offer.Copy(), nil
}

// Release is one revision of a release.
type Release struct {
	Name, Namespace string
	Revision        int
	Status          string // Helm's word, such as deployed or pending-upgrade
	Description     string // Helm's message; an error may quote values
	Chart           string
	Version         string // of the chart
	AppVersion      string
	Values          map[string]any // the given values, without those of the chart
	Manifest        string         // the applied objects, without hooks
	Labels          map[string]string
	Deployed        time.Time
	ServerSide      bool // whether it was applied on the server, as Helm 4 does
}

// Record is a release without its content.
type Record struct {
	Name     string
	Revision int
	Status   string
	Labels   map[string]string // those that Options gave it
}

// Get returns the newest revision of a release, or ErrNotFound.
func (c *Client) Get(ctx context.Context, name string) (Release, error) {
	s, err := c.begin(ctx)
	if err != nil {
		return Release{}, err
	}
	defer s.cancel()
	last, err := s.cfg.Releases.Last(name)
	if err != nil {
		return Release{}, fail(ctx, "read", name, err, nil)
	}
	return plain(last), nil
}

// List returns the newest revision of each release, by name. It reads no contents: one request for 500 revisions.
func (c *Client) List(ctx context.Context) ([]Record, error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("create a cluster client: %w", err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	if c.configMaps {
		resource.Resource = "configmaps"
	}
	newest := make(map[string]Record)
	for options := (metav1.ListOptions{LabelSelector: "owner=helm", Limit: 500}); ; {
		page, err := client.Resource(resource).Namespace(c.namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list releases in namespace %s: %w", c.namespace, err)
		}
		for _, item := range page.Items {
			if r := record(item.Labels); r.Revision > newest[r.Name].Revision {
				newest[r.Name] = r
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	var list []Record
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		list = append(list, newest[name])
	}
	return list, nil
}

// record reads the labels by which Helm finds a release.
func record(labels map[string]string) Record {
	r := Record{Name: labels["name"], Status: labels["status"], Labels: make(map[string]string)}
	r.Revision, _ = strconv.Atoi(labels["version"])
	for key, value := range labels {
		if !slices.Contains(driver.GetSystemLabels(), key) {
			r.Labels[key] = value
		}
	}
	return r
}

// plain converts a release of Helm's.
func plain(from helmrelease.Releaser) Release {
	r, ok := from.(*v1.Release)
	if !ok || r == nil {
		return Release{}
	}
	out := Release{
		Name: r.Name, Namespace: r.Namespace, Revision: r.Version, Values: r.Config, Manifest: r.Manifest, Labels: r.Labels,
		ServerSide: r.ApplyMethod == string(v1.ApplyMethodServerSideApply),
	}
	if r.Info != nil {
		out.Status, out.Description, out.Deployed = r.Info.Status.String(), r.Info.Description, r.Info.LastDeployed
	}
	if r.Chart != nil && r.Chart.Metadata != nil {
		out.Chart, out.Version, out.AppVersion = r.Chart.Metadata.Name, r.Chart.Metadata.Version, r.Chart.Metadata.AppVersion
	}
	return out
}
