package channel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

// manager is the field manager of kOps: objects stay its own, so that a cluster can go back to it (K-21).
const manager = "kops"

// requestTimeout ends a request whose connection went dead.
const requestTimeout = 30 * time.Second

var (
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secretResource    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	nodeResource      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	issuerResource    = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}
)

// Cluster is a cluster that channels are applied to. It may be used by several goroutines at once.
type Cluster struct {
	engine *kube.Engine
	meta   metadata.Interface
	full   dynamic.Interface
	client *http.Client
	host   string
	config *rest.Config
	lease  lease.Options // how the Lease is held; tests shorten it
	log    *slog.Logger
}

// Connect prepares for the cluster that cfg reaches, and sends nothing yet. log may be nil.
func Connect(cfg *rest.Config, log *slog.Logger) (*Cluster, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil // the server has its own fairness
	cfg.Timeout = cmp.Or(cfg.Timeout, requestTimeout)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "sealift")
	engine, err := kube.New(cfg, kube.Options{Log: log, Manager: manager, TakeOver: []string{kube.Manager, "kubectl-edit", "kubectl-client-side-apply"}})
	if err != nil {
		return nil, err
	}
	c := &Cluster{engine: engine, config: cfg, log: log}
	if c.client, err = rest.HTTPClientFor(cfg); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if c.meta, err = metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), c.client); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	if c.full, err = dynamic.NewForConfigAndClient(cfg, c.client); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	c.host = strings.TrimSuffix(base.String(), "/")
	return c, nil
}

// outagePatience bounds how long one request is tried again while the API server does not answer.
const outagePatience = 30 * time.Second

// insist repeats a request to the API server over a short outage.
func (c *Cluster) insist(ctx context.Context, what kube.Ref, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, outagePatience)
	defer cancel()
	return c.engine.Retry(ctx, what, request)
}

func namespaceRef(name string) kube.Ref {
	return kube.Ref{Version: "v1", Kind: "Namespace", Name: name}
}

// gitVersion asks the API server for its version, such as v1.36.3.
func (c *Cluster) gitVersion(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+"/version", nil)
	if err != nil {
		return "", fmt.Errorf("ask for the Kubernetes version: %w", err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for the Kubernetes version: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer := apierrors.NewGenericServerResponse(resp.StatusCode, "get", schema.GroupResource{}, "version", resp.Status, 0, true)
		return "", fmt.Errorf("ask for the Kubernetes version: %s answered %s: %w", req.URL, resp.Status, answer)
	}
	data, err := readBounded(resp.Body, req.URL.String())
	if err != nil {
		return "", err
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return "", fmt.Errorf("ask for the Kubernetes version: %s gives no version: %w", req.URL, err)
	}
	return info.GitVersion, nil
}

// Installed reads what is recorded of every add-on, sorted by namespace and name.
func (c *Cluster) Installed(ctx context.Context) ([]Installed, error) {
	list, err := c.meta.Resource(namespaceResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	found := []Installed{}
	for _, ns := range list.Items {
		for key, text := range ns.Annotations {
			name, ok := strings.CutPrefix(key, recordPrefix)
			if !ok {
				continue
			}
			r, err := parseRecord(text)
			if err != nil {
				c.log.WarnContext(ctx, "the record of an add-on cannot be read; it counts as not installed", "namespace", ns.Name, "addon", name, "error", err)
				continue
			}
			found = append(found, Installed{Namespace: ns.Name, Name: name, Record: r})
		}
	}
	slices.SortFunc(found, func(a, b Installed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// Plan decides what the entries of some channels, in their order, mean for the cluster.
func (c *Cluster) Plan(ctx context.Context, entries []Entry) (Plan, error) {
	version, err := c.gitVersion(ctx)
	if err != nil {
		return Plan{}, err
	}
	records, err := c.Installed(ctx)
	if err != nil {
		return Plan{}, err
	}
	plan, err := NewPlan(entries, version, records)
	if err != nil {
		return plan, err
	}
	for i := range plan.Addons {
		d := &plan.Addons[i]
		if !d.Entry.NeedsPKI {
			continue
		}
		if d.PKI, err = c.lacksKeys(ctx, d.Entry.Name); err != nil {
			return plan, err
		}
		if d.PKI && d.Action == Keep {
			d.Action, d.Reason = Issue, d.Reason+"; its CA is missing"
		}
	}
	return plan, nil
}

// exists asks for one object.
func (c *Cluster) exists(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (bool, error) {
	_, err := c.meta.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// writeRecord writes down that an entry is installed.
func (c *Cluster) writeRecord(ctx context.Context, e Entry) error {
	text, err := e.record().encode()
	if err != nil {
		return err
	}
	err = c.annotate(ctx, namespaceResource, e.Namespace, recordPrefix+e.Name, text)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("error querying namespace %q: %w", e.Namespace, err)
	}
	if err != nil {
		return fmt.Errorf("record the add-on on namespace %q: %w", e.Namespace, err)
	}
	return nil
}

func (c *Cluster) annotate(ctx context.Context, r schema.GroupVersionResource, name, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	return c.insist(ctx, kube.Ref{Kind: r.Resource, Name: name}, func(ctx context.Context) error {
		_, err := c.meta.Resource(r).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		return err
	})
}

// needsUpdate is what kOps's rolling update looks for on a node.
const needsUpdate = "kops.k8s.io/needs-update"

// nodeSelectors gives the label selectors of the nodes that a needsRollingUpdate names (K-27).
func nodeSelectors(which string) ([]string, error) {
	switch which {
	case "":
		return nil, nil
	case "control-plane":
		return []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master,!node-role.kubernetes.io/control-plane"}, nil
	case "workers":
		return []string{"node-role.kubernetes.io/node"}, nil
	case "all":
		return []string{""}, nil
	}
	return nil, fmt.Errorf("needsRollingUpdate %q is none of control-plane, workers and all", which)
}

// markNodes asks for the update of nodes.
func (c *Cluster) markNodes(ctx context.Context, which string) error {
	selectors, err := nodeSelectors(which)
	if err != nil {
		return err
	}
	for _, selector := range selectors {
		var nodes *metav1.PartialObjectMetadataList
		err := c.insist(ctx, kube.Ref{Kind: "nodes"}, func(ctx context.Context) (err error) {
			nodes, err = c.meta.Resource(nodeResource).List(ctx, metav1.ListOptions{LabelSelector: selector})
			return err
		})
		if err != nil {
			return fmt.Errorf("list the nodes to update: %w", err)
		}
		for _, node := range nodes.Items {
			if err := c.annotate(ctx, nodeResource, node.Name, needsUpdate, ""); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("mark node %s for update: %w", node.Name, err)
			}
		}
	}
	return nil
}

// create makes an object; one that is there already is as good.
func (c *Cluster) create(ctx context.Context, r schema.GroupVersionResource, content map[string]any) error {
	obj := &unstructured.Unstructured{Object: content}
	err := c.insist(ctx, kube.RefOf(obj), func(ctx context.Context) error {
		_, err := c.full.Resource(r).Namespace(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{FieldManager: manager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}
