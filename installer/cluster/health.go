package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
)

// Node is one node as the cluster sees it.
type Node struct {
	Name    string   `json:"name"`
	Roles   []string `json:"roles"`
	Ready   bool     `json:"ready"`
	Why     string   `json:"why,omitempty"` // when it is not ready, or accepts no pods
	Version string   `json:"version"`       // of its kubelet
	Address string   `json:"address"`
	// What the node runs on, as its kubelet reports.
	Runtime      string `json:"runtime,omitempty"` // such as containerd://2.2.1
	OS           string `json:"os,omitempty"`      // such as Debian GNU/Linux 12 (bookworm)
	Kernel       string `json:"kernel,omitempty"`
	Architecture string `json:"architecture,omitempty"` // such as amd64
}

// ControlPlaneLabel is on the Node of a control plane. A kubelet cannot set it on itself (the NodeRestriction admission).
const ControlPlaneLabel = roleLabel + controlPlaneRole

const (
	roleLabel        = "node-role.kubernetes.io/"
	controlPlaneRole = "control-plane"
)

// ControlPlane reports whether the node is one.
func (n Node) ControlPlane() bool { return slices.Contains(n.Roles, controlPlaneRole) }

// healthTime bounds the wait for the API's health: a balancer also accepts connections for an unreachable API.
const healthTime = 4 * time.Second

// View is the part of the cluster that this node's credentials may see.
type View struct {
	// Own means that they are the node's own, with which it sees itself, but neither other nodes nor the objects of add-ons.
	Own      bool
	endpoint string
	cluster  *kube.Cluster
	api      rest.Interface
	invalid  time.Duration // how long an API whose certificate is not valid is awaited
}

// NewView opens the cluster that this node is part of; nil when it is part of none.
func NewView() (*View, error) {
	for _, file := range []string{kubeadm.AdminKubeconfig, kubeadm.KubeletKubeconfig} {
		if there, err := exists(file); err != nil {
			return nil, err
		} else if !there {
			continue
		}
		config, err := Config(file)
		if err != nil {
			return nil, err
		}
		return ViewOf(config, file == kubeadm.KubeletKubeconfig)
	}
	return nil, nil
}

// ViewOf opens a cluster with given credentials, which may be a node's own.
func ViewOf(config *rest.Config, own bool) (*View, error) {
	config = rest.CopyConfig(config)
	config.Timeout = speed.Patience(askTimeout)
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		return nil, err
	}
	typed, err := typedClient(cluster)
	if err != nil {
		return nil, err
	}
	return &View{Own: own, endpoint: config.Host, cluster: cluster, api: typed.Discovery().RESTClient(), invalid: speed.Patience(invalidTime)}, nil
}

// Cluster is the client behind the view.
func (v *View) Cluster() *kube.Cluster { return v.cluster }

// API is the answer of the Kubernetes API to a node.
type API struct {
	Endpoint string `json:"endpoint"` // by which the node reaches it
	Answers  bool   `json:"answers"`
	Ready    bool   `json:"ready"`         // as it says itself
	Why      string `json:"why,omitempty"` // when it is not

	invalid bool // its certificate is not valid at this time
}

// API asks the API for its health.
func (v *View) API(ctx context.Context) API {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(healthTime))
	defer cancel()
	api := API{Endpoint: v.endpoint}
	var code int
	text, err := v.api.Get().AbsPath("/readyz").Do(ctx).StatusCode(&code).Raw()
	api.Answers, api.Ready = code != 0, err == nil
	if err == nil {
		return api
	}
	api.Why = err.Error()
	if clock := new(x509.CertificateInvalidError); errors.As(err, clock) && clock.Reason == x509.Expired {
		api.Why = fmt.Sprintf("its certificate is valid from %s to %s, and not now, by the clock of this host; if the clock of this host or of that one is wrong, set it, "+
			"for instance with timedatectl set-time; else renew the certificate there with 'sealift certs renew'", clock.Cert.NotBefore.UTC().Format(time.RFC3339), clock.Cert.NotAfter.UTC().Format(time.RFC3339))
		api.invalid = true
	}
	var failed []string
	for line := range strings.Lines(string(text)) {
		if check, bad := strings.CutPrefix(strings.TrimSpace(line), "[-]"); bad {
			failed = append(failed, check)
		}
	}
	if len(failed) > 0 {
		api.Why = strings.Join(failed, ", ")
	}
	return api
}

// OwnNode returns the node of that name, which is all that a node's own credentials show.
func (v *View) OwnNode(ctx context.Context, name string) (Node, error) {
	object, err := v.nodeObject(ctx, name)
	if err != nil {
		return Node{}, err
	}
	return node(*object), nil
}

func (v *View) nodeObject(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	nodes, err := v.cluster.Objects(ctx, nodeKind)
	if err != nil {
		return nil, fmt.Errorf("look for node %s: %w", name, err)
	}
	object, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("look for node %s: %w", name, err)
	}
	return object, nil
}

// Nodes lists the cluster's nodes by name.
func (v *View) Nodes(ctx context.Context) ([]Node, error) {
	objects, err := v.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []Node{}
	for _, object := range objects {
		nodes = append(nodes, node(object))
	}
	return nodes, nil
}

func (v *View) listNodes(ctx context.Context) ([]unstructured.Unstructured, error) {
	objects, err := v.cluster.Objects(ctx, nodeKind)
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return list.Items, nil
}

func node(o unstructured.Unstructured) Node {
	n := Node{Name: o.GetName(), Roles: []string{}}
	for label := range o.GetLabels() {
		if role, ok := strings.CutPrefix(label, roleLabel); ok {
			n.Roles = append(n.Roles, role)
		}
	}
	slices.Sort(n.Roles)
	for field, to := range map[string]*string{"kubeletVersion": &n.Version, "containerRuntimeVersion": &n.Runtime, "osImage": &n.OS, "kernelVersion": &n.Kernel, "architecture": &n.Architecture} {
		*to, _, _ = unstructured.NestedString(o.Object, "status", "nodeInfo", field)
	}
	for _, a := range mapsAt(o.Object, "status", "addresses") {
		if a["type"] == "InternalIP" && n.Address == "" {
			n.Address = fmt.Sprint(a["address"])
		}
	}
	n.Ready, n.Why = ready(o)
	if off, _, _ := unstructured.NestedBool(o.Object, "spec", "unschedulable"); off {
		n.Why = "takes no new pods"
	}
	return n
}

// ready reports whether a node or a pod is ready, and if not, why.
func ready(o unstructured.Unstructured) (bool, string) {
	for _, c := range health.Conditions(&o) {
		if c.Type == "Ready" {
			if c.Status == "True" {
				return true, ""
			}
			return false, c.Message
		}
	}
	return false, "its kubelet has not reported"
}

// NodeReady reports whether a node is ready.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func mapsAt(object map[string]any, path ...string) (found []map[string]any) {
	list, _, _ := unstructured.NestedSlice(object, path...)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// AddOnHealth is the health of an add-on's workloads.
type AddOnHealth struct {
	Ready   int
	Total   int
	Trouble string // of the first unready one
}

// Health checks the workloads of the named add-ons. A node may not see them with its own credentials.
func (v *View) Health(ctx context.Context, addOns []string) (map[string]AddOnHealth, error) {
	records, err := v.Owners(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]string)
	for _, name := range addOns {
		byID[setOf(name, records).ID()] = name
	}
	found := make(map[string]AddOnHealth)
	for _, kind := range []struct{ group, kind string }{{"apps", "Deployment"}, {"apps", "DaemonSet"}, {"apps", "StatefulSet"}, {"batch", "Job"}} {
		objects, err := v.cluster.Objects(ctx, kube.Ref{Group: kind.group, Version: "v1", Kind: kind.kind})
		if err != nil {
			return nil, fmt.Errorf("list the %ss: %w", kind.kind, err)
		}
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: partOf})
		if err != nil {
			return nil, fmt.Errorf("list the %ss: %w", kind.kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			name, ok := byID[object.GetLabels()[partOf]]
			if !ok {
				continue
			}
			h := found[name]
			h.Total++
			if state, why := health.Of(object); state == health.Ready {
				h.Ready++
			} else if h.Trouble == "" {
				h.Trouble = fmt.Sprintf("%s %s/%s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), why)
			}
			found[name] = h
		}
	}
	return found, nil
}

// partOf is the label of a set's members (KEP-3659).
const partOf = "applyset.kubernetes.io/part-of"
