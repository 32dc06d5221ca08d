package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/kube"
)

// Node is one node as the cluster sees it.
type Node struct {
	Name    string   `json:"name"`
	Roles   []string `json:"roles"`
	Ready   bool     `json:"ready"`
	Why     string   `json:"why,omitempty"` // when it is not ready, or takes no pods
	Version string   `json:"version"`       // of its kubelet
	Address string   `json:"address"`
}

// View is what this node's credentials let it see of its cluster.
type View struct {
	client dynamic.Interface
}

// NewView opens the cluster that this node is part of; nil when it is part of none.
func NewView() (*View, error) {
	for _, file := range []string{AdminKubeconfig, KubeletKubeconfig} {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		config.Timeout = askTimeout
		client, err := dynamic.NewForConfig(config)
		return &View{client}, err
	}
	return nil, nil
}

// Nodes lists the cluster's nodes by name.
func (v *View) Nodes(ctx context.Context) ([]Node, error) {
	list, err := v.client.Resource(nodesResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	nodes := []Node{}
	for _, object := range list.Items {
		nodes = append(nodes, node(object))
	}
	return nodes, nil
}

func node(o unstructured.Unstructured) Node {
	n := Node{Name: o.GetName(), Roles: []string{}}
	for label := range o.GetLabels() {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
			n.Roles = append(n.Roles, role)
		}
	}
	slices.Sort(n.Roles)
	n.Version, _, _ = unstructured.NestedString(o.Object, "status", "nodeInfo", "kubeletVersion")
	for _, a := range maps(o.Object, "status", "addresses") {
		if a["type"] == "InternalIP" && n.Address == "" {
			n.Address = fmt.Sprint(a["address"])
		}
	}
	n.Why = "its kubelet has not reported"
	for _, c := range maps(o.Object, "status", "conditions") {
		if c["type"] == "Ready" {
			n.Ready, n.Why = c["status"] == "True", fmt.Sprint(c["message"])
		}
	}
	if n.Ready {
		n.Why = ""
	}
	if off, _, _ := unstructured.NestedBool(o.Object, "spec", "unschedulable"); off {
		n.Why = "takes no new pods"
	}
	return n
}

func maps(object map[string]any, path ...string) (found []map[string]any) {
	list, _, _ := unstructured.NestedSlice(object, path...)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// AddOnHealth says how the workloads are that an add-on applied under its name.
type AddOnHealth struct {
	Ready   int
	Total   int
	Trouble string // of the first that is not ready
}

// Health looks at the workloads of the named add-ons. A worker may not see them.
func (v *View) Health(ctx context.Context, addOns []string) (map[string]AddOnHealth, error) {
	byID := make(map[string]string)
	for _, name := range addOns {
		byID[kube.Set{Name: name}.ID()] = name
	}
	found := make(map[string]AddOnHealth)
	for _, kind := range []struct{ group, resource string }{{"apps", "deployments"}, {"apps", "daemonsets"}, {"apps", "statefulsets"}, {"batch", "jobs"}} {
		resource := schema.GroupVersionResource{Group: kind.group, Version: "v1", Resource: kind.resource}
		list, err := v.client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: partOf})
		if err != nil {
			return nil, fmt.Errorf("list the %s: %w", kind.resource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			name, ok := byID[object.GetLabels()[partOf]]
			if !ok {
				continue
			}
			health := found[name]
			health.Total++
			if state, why := kube.Health(object); state == kube.Ready {
				health.Ready++
			} else if health.Trouble == "" {
				health.Trouble = fmt.Sprintf("%s %s/%s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), why)
			}
			found[name] = health
		}
	}
	return found, nil
}

// partOf is the label of a set's members (KEP-3659).
const partOf = "applyset.kubernetes.io/part-of"
