package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Cluster is the way to one cluster: its clients, the kinds that it serves, and the rules for trying again. It may be used
// by several goroutines at once.
type Cluster struct {
	log    *slog.Logger
	config *rest.Config
	client *http.Client

	meta, patientMeta metadata.Interface // requests of a patient one may take forever
	full, patientFull dynamic.Interface
	kinds             *kinds

	narrow sync.Map // a key for each schema.GroupKind that may not be listed in all namespaces; see Survey
}

// Connect prepares for the cluster that cfg reaches. It sends nothing yet, so a cluster that is down costs time only when it
// is used. log gets a line for each retry and for each warning of the API server; nil is silence.
func Connect(cfg *rest.Config, log *slog.Logger) (*Cluster, error) {
	c := &Cluster{log: cmp.Or(log, slog.New(slog.DiscardHandler)), config: rest.CopyConfig(cfg)}
	cfg = c.config
	// The server has its own fairness; a client's limit of 5 requests a second would make 2,000 objects take minutes.
	cfg.QPS, cfg.RateLimiter = -1, nil
	cfg.Timeout = cmp.Or(cfg.Timeout, requestTimeout)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, Manager)
	cfg.WarningHandler, cfg.WarningHandlerWithContext = nil, warningLog{c.log}
	if err := c.connect(); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return c, nil
}

func (c *Cluster) connect() (err error) {
	if c.client, err = rest.HTTPClientFor(c.config); err != nil {
		return err
	}
	if c.full, err = dynamic.NewForConfigAndClient(c.config, c.client); err != nil {
		return err
	}
	if c.kinds, err = newKinds(c.config, c.client); err != nil {
		return err
	}
	if c.meta, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c.config), c.client); err != nil {
		return err
	}
	patient := *c.client
	patient.Timeout = 0
	if c.patientFull, err = dynamic.NewForConfigAndClient(c.config, &patient); err != nil {
		return err
	}
	c.patientMeta, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c.config), &patient)
	return err
}

// Config returns the configuration for clients of typed APIs, which share the connections of the cluster.
func (c *Cluster) Config() (*rest.Config, *http.Client) { return rest.CopyConfig(c.config), c.client }

// Dynamic is a client of resources that are known by name, in which nothing has to be looked up. Its requests are bounded, and so
// are its watches.
func (c *Cluster) Dynamic() dynamic.Interface { return c.full }

// Objects reads, watches and writes the objects of the kind and namespace of ref. meta.IsNoMatchError recognizes the error of a
// cluster that does not serve the kind.
func (c *Cluster) Objects(ctx context.Context, ref Ref) (dynamic.ResourceInterface, error) {
	r, err := c.kinds.find(ctx, ref.gvk())
	if err != nil {
		return nil, err
	}
	return objects{c.fullFor(r, ref.Namespace), dynamicAt(c.patientFull, r, ref.Namespace)}, nil
}

// Metadata is Objects for only the metadata, which a server sends in a kilobyte however large the objects are.
func (c *Cluster) Metadata(ctx context.Context, ref Ref) (metadata.ResourceInterface, error) {
	r, err := c.kinds.find(ctx, ref.gvk())
	if err != nil {
		return nil, err
	}
	return metadataOf{c.metaFor(r, ref.Namespace), metaAt(c.patientMeta, r, ref.Namespace)}, nil
}

// Resource returns the name under which the cluster serves a kind, such as deployments.
func (c *Cluster) Resource(ctx context.Context, ref Ref) (string, error) {
	r, err := c.kinds.find(ctx, ref.gvk())
	return r.gvr.Resource, err
}

// Namespaced reports whether objects of a kind are in namespaces.
func (c *Cluster) Namespaced(ctx context.Context, ref Ref) (bool, error) {
	r, err := c.kinds.find(ctx, ref.gvk())
	return r.namespaced, err
}

// Version asks the API server for its version, such as v1.36.3.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	data, err := c.kinds.client.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask for the Kubernetes version: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil || info.GitVersion == "" {
		return "", fmt.Errorf("ask for the Kubernetes version: %s/version reports none", c.config.Host)
	}
	return info.GitVersion, nil
}

// metaFor is the client for only the metadata of a resource in a namespace: the response to a patch of a large definition is
// then a kilobyte, not a copy of it.
func (c *Cluster) metaFor(r resource, namespace string) metadata.ResourceInterface {
	return metaAt(c.meta, r, namespace)
}

func (c *Cluster) fullFor(r resource, namespace string) dynamic.ResourceInterface {
	return dynamicAt(c.full, r, namespace)
}

func metaAt(client metadata.Interface, r resource, namespace string) metadata.ResourceInterface {
	if r.namespaced {
		return client.Resource(r.gvr).Namespace(namespace)
	}
	return client.Resource(r.gvr)
}

func dynamicAt(client dynamic.Interface, r resource, namespace string) dynamic.ResourceInterface {
	if r.namespaced {
		return client.Resource(r.gvr).Namespace(namespace)
	}
	return client.Resource(r.gvr)
}

// objects takes watches to a patient client, because the timeout of the other would end them.
type objects struct {
	dynamic.ResourceInterface
	patient dynamic.ResourceInterface
}

func (o objects) Watch(ctx context.Context, list metav1.ListOptions) (watch.Interface, error) {
	return o.patient.Watch(ctx, list)
}

// metadataOf is the same for metadata.
type metadataOf struct {
	metadata.ResourceInterface
	patient metadata.ResourceInterface
}

func (m metadataOf) Watch(ctx context.Context, list metav1.ListOptions) (watch.Interface, error) {
	return m.patient.Watch(ctx, list)
}

// warningLog logs an API server's Warning headers, such as that a version is deprecated.
type warningLog struct{ log *slog.Logger }

func (w warningLog) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	// 299 is the only code that Kubernetes uses (RFC 7234, section 5.5.7).
	if code == 299 && text != "" {
		w.log.WarnContext(ctx, "warning from the API server", "warning", text)
	}
}

var _ rest.WarningHandlerWithContext = warningLog{}
