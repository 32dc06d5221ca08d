package channel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

// manager is the field manager of kOps: objects stay its own, so that a cluster can return to it (K-21).
const manager = "kops"

var (
	namespaces = kube.Ref{Version: "v1", Kind: "Namespace"}
	secrets    = kube.Ref{Version: "v1", Kind: "Secret", Namespace: DefaultNamespace}
	nodes      = kube.Ref{Version: "v1", Kind: "Node"}
	issuers    = kube.Ref{Group: "cert-manager.io", Version: "v1", Kind: "Issuer", Namespace: DefaultNamespace}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// Cluster is a cluster that channels are applied to. It may be used by several goroutines at once.
type Cluster struct {
	engine *kube.Engine
	lease  lease.Options // how the Lease is held; tests shorten it
	log    *slog.Logger
}

// Connect prepares for the cluster that cfg reaches, and sends nothing yet. log may be nil.
func Connect(cfg *rest.Config, log *slog.Logger) (*Cluster, error) {
	cluster, err := kube.Connect(cfg, log)
	if err != nil {
		return nil, err
	}
	engine := kube.New(cluster, kube.Options{Manager: manager, TakeOver: []string{kube.Manager, "kubectl-edit", "kubectl-client-side-apply"}})
	return &Cluster{engine: engine, log: cmp.Or(log, slog.New(slog.DiscardHandler))}, nil
}

// outagePatience bounds how long one request is tried again while the API server does not answer.
const outagePatience = 30 * time.Second

// retry repeats a request to the API server over a short outage.
func (c *Cluster) retry(ctx context.Context, what kube.Ref, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, outagePatience)
	defer cancel()
	return c.engine.Retry(ctx, what, request)
}

// named returns the Ref of one object of a kind and namespace.
func named(kind kube.Ref, name string) kube.Ref {
	kind.Name = name
	return kind
}

// Installed reads the record of every add-on, sorted by namespace and name: first those that others own. If the user may not read
// the owners of add-ons, that is logged, and add-ons of others are missing.
func (c *Cluster) Installed(ctx context.Context) ([]Installed, error) {
	found, err := c.recorded(ctx)
	if err != nil {
		return nil, err
	}
	owners, err := c.owners(ctx)
	if apierrors.IsForbidden(err) {
		c.unread(ctx, "who owns an add-on; add-ons of the installer are missing here", err)
	} else if err != nil {
		return nil, err
	}
	return withOwners(found, owners), nil
}

// recorded reads what channels have recorded.
func (c *Cluster) recorded(ctx context.Context) ([]Installed, error) {
	objects, err := c.engine.Metadata(ctx, namespaces)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	list, err := objects.List(ctx, metav1.ListOptions{})
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
	return found, nil
}

// owners reads who owns which add-on. Records that cannot be understood are logged.
func (c *Cluster) owners(ctx context.Context) ([]addon.Record, error) {
	owners, err := c.recordsOf().List(ctx)
	if len(owners) == 0 && err != nil {
		return nil, err
	}
	if err != nil {
		c.log.WarnContext(ctx, "who owns an add-on cannot be read", "error", err)
	}
	return owners, nil
}

// unread notes the objects that a user may not read.
func (c *Cluster) unread(ctx context.Context, what string, err error) {
	c.log.WarnContext(ctx, "you may not read "+what, "error", err)
}

// Plan decides what the entries of some channels, in their order, mean for the cluster. The add-ons of adopt, by name or
// namespace/name, are adopted again although they were released.
func (c *Cluster) Plan(ctx context.Context, entries []Entry, adopt ...string) (Plan, error) {
	return c.plan(ctx, entries, adopt, func(_ string, err error) error { return err })
}

// Preview is Plan for a read-only user with few rights: what the user may not read is logged and ignored.
func (c *Cluster) Preview(ctx context.Context, entries []Entry, adopt ...string) (Plan, error) {
	return c.plan(ctx, entries, adopt, func(what string, err error) error {
		if !apierrors.IsForbidden(err) {
			return err
		}
		c.unread(ctx, what, err)
		return nil
	})
}

// plan makes a plan. It skips unreadable input if forgive returns no error.
func (c *Cluster) plan(ctx context.Context, entries []Entry, adopt []string, forgive func(what string, err error) error) (Plan, error) {
	version, err := c.engine.Version(ctx)
	if err != nil {
		return Plan{}, err
	}
	records, err := c.recorded(ctx)
	if err != nil {
		return Plan{}, err
	}
	owners, unknown := c.owners(ctx)
	if unknown != nil {
		if err := forgive("who owns an add-on; the installer may own some that a channel would install", unknown); err != nil {
			return Plan{}, err
		}
	}
	plan, err := NewPlan(entries, version, withOwners(records, owners), adopt...)
	if err != nil {
		return plan, err
	}
	for i := range plan.Addons {
		d := &plan.Addons[i]
		if unknown != nil && d.Action == Install {
			d.Reason = "no channel has installed it; who else owns it is not known"
		}
		if !d.Entry.NeedsPKI || d.From != "" && d.Action != Adopt { // it stays with its owner
			continue
		}
		if d.PKI, err = c.lacksKeys(ctx, d.Entry.Name); err != nil {
			if err := forgive("whether add-on "+d.Entry.Name+" has its CA", err); err != nil {
				return plan, err
			}
		}
		if d.PKI && d.Action == Keep {
			d.Action, d.Reason = Issue, d.Reason+"; its CA is missing"
		}
	}
	return plan, nil
}

// exists looks up one object. None exists of a kind that the cluster does not serve.
func (c *Cluster) exists(ctx context.Context, ref kube.Ref) (bool, error) {
	objects, err := c.engine.Metadata(ctx, ref)
	if err == nil {
		_, err = objects.Get(ctx, ref.Name, metav1.GetOptions{})
	}
	if err != nil && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
		return false, nil
	}
	return err == nil, err
}

// writeRecord records that an entry is installed.
func (c *Cluster) writeRecord(ctx context.Context, e Entry) error {
	text, err := e.record().encode()
	if err != nil {
		return err
	}
	err = c.annotate(ctx, named(namespaces, e.Namespace), recordPrefix+e.Name, text)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("error querying namespace %q: %w", e.Namespace, err)
	}
	if err != nil {
		return fmt.Errorf("record the add-on on namespace %q: %w", e.Namespace, err)
	}
	return nil
}

// annotate sets an annotation; nil removes it.
func (c *Cluster) annotate(ctx context.Context, ref kube.Ref, key string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		return err
	}
	return c.retry(ctx, ref, func(ctx context.Context) error {
		objects, err := c.engine.Metadata(ctx, ref)
		if err != nil {
			return err
		}
		_, err = objects.Patch(ctx, ref.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		return err
	})
}

// needsUpdate is the annotation that kOps's rolling update looks for on a node.
const needsUpdate = "kops.k8s.io/needs-update"

// nodeSelectors returns the label selectors of the nodes that a needsRollingUpdate names (K-27).
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
	return nil, fmt.Errorf("needsRollingUpdate %q is not control-plane, workers or all", which)
}

// markNodes requests the update of nodes.
func (c *Cluster) markNodes(ctx context.Context, which string) error {
	selectors, err := nodeSelectors(which)
	if err != nil {
		return err
	}
	for _, selector := range selectors {
		var list *metav1.PartialObjectMetadataList
		err := c.retry(ctx, nodes, func(ctx context.Context) error {
			objects, err := c.engine.Metadata(ctx, nodes)
			if err != nil {
				return err
			}
			list, err = objects.List(ctx, metav1.ListOptions{LabelSelector: selector})
			return err
		})
		if err != nil {
			return fmt.Errorf("list the nodes to update: %w", err)
		}
		for _, node := range list.Items {
			if err := c.annotate(ctx, named(nodes, node.Name), needsUpdate, ""); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("mark node %s for update: %w", node.Name, err)
			}
		}
	}
	return nil
}

// create creates an object; an existing one is not an error.
func (c *Cluster) create(ctx context.Context, content map[string]any) error {
	obj := &unstructured.Unstructured{Object: content}
	ref := kube.RefOf(obj)
	err := c.retry(ctx, ref, func(ctx context.Context) error {
		objects, err := c.engine.Objects(ctx, ref)
		if err != nil {
			return err
		}
		_, err = objects.Create(ctx, obj, metav1.CreateOptions{FieldManager: manager})
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
