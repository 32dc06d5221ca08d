package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Manager is the field manager under which an engine owns what it applies, unless its Options name another.
const Manager = "sealift"

// concurrency is how many objects are in flight at once. It keeps the API server of a one-node cluster on two cores busy
// without starving its kubelet.
const concurrency = 8

// defaultTakeOver names the managers of people and of tools that Sealift replaces. What they set in an object counts as
// set by the engine: the next Apply overwrites it, and removes what the objects do not say.
func defaultTakeOver() []string {
	return []string{"kubectl-client-side-apply", "kubectl-edit", "kops"}
}

// Options says how an Engine works. The zero value is what the installer uses.
type Options struct {
	// Log gets a line for each retry and for each warning of the API server. Nil is silence.
	Log *slog.Logger
	// Manager is the field manager to apply under, for records that another tool shall find as it would have written them.
	// Empty is the constant Manager.
	Manager string
	// TakeOver lists the field managers whose fields the engine takes without asking. Nil is kubectl-client-side-apply,
	// kubectl-edit and kops; an empty list is none.
	TakeOver []string
}

// Engine applies, prunes and waits against one cluster. It may be used by several goroutines at once.
type Engine struct {
	log      *slog.Logger
	manager  string
	takeOver map[string]bool

	meta  metadata.Interface
	full  dynamic.Interface
	kinds *kinds
}

// New makes an Engine for the cluster that cfg reaches. It sends nothing yet: a cluster that is not up costs time only
// when it is used.
func New(cfg *rest.Config, o Options) (*Engine, error) {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = rest.CopyConfig(cfg)
	// The server has its own fairness; a client's limit of 5 requests a second would make 2,000 objects take minutes.
	cfg.QPS, cfg.RateLimiter = -1, nil
	if cfg.Timeout == 0 {
		cfg.Timeout = requestTimeout
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = Manager
	}
	cfg.WarningHandler, cfg.WarningHandlerWithContext = nil, warningLog{log}

	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	e := &Engine{log: log, manager: cmp.Or(o.Manager, Manager), takeOver: map[string]bool{}}
	managers := o.TakeOver
	if managers == nil {
		managers = defaultTakeOver()
	}
	for _, manager := range managers {
		e.takeOver[manager] = manager != e.manager
	}
	if e.meta, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), client); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if e.full, err = dynamic.NewForConfigAndClient(cfg, client); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if e.kinds, err = newKinds(cfg, client); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return e, nil
}

// metaFor is where the objects of a resource in a namespace are read and patched by their metadata alone: the answer to
// a patch of a large definition is then a kilobyte, not a copy of it.
func (e *Engine) metaFor(r resource, namespace string) metadata.ResourceInterface {
	if r.namespaced {
		return e.meta.Resource(r.gvr).Namespace(namespace)
	}
	return e.meta.Resource(r.gvr)
}

func (e *Engine) fullFor(r resource, namespace string) dynamic.ResourceInterface {
	if r.namespaced {
		return e.full.Resource(r.gvr).Namespace(namespace)
	}
	return e.full.Resource(r.gvr)
}

// warningLog passes on what an API server says in Warning headers, such as that a version is deprecated.
type warningLog struct{ log *slog.Logger }

func (w warningLog) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	// 299 is the one code that Kubernetes uses (RFC 7234, section 5.5.7).
	if code == 299 && text != "" {
		w.log.WarnContext(ctx, "warning from the API server", "warning", text)
	}
}

var _ rest.WarningHandlerWithContext = warningLog{}
