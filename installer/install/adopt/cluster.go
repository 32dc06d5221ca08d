package adopt

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/spec"
)

// What kURL leaves in a cluster (kURL §3.7).
const (
	kurlNamespace = "kurl"
	kurlConfig    = "kurl-config"
	currentConfig = "kurl-current-config"
	clusterLabel  = "kurl.sh/cluster"
	addOnPrefix   = "addons-"
)

// partOf marks the objects that Sealift applied.
const partOf = "applyset.kubernetes.io/part-of"

// Cluster is the cluster's state, as far as this node may read it.
type Cluster struct {
	Version  string `json:"version"`  // of Kubernetes, in kubeadm's configuration
	Endpoint string `json:"endpoint"` // where nodes reach the API
	node.ClusterNetworks
	Nodes []Node `json:"nodes"` // on a worker only this node
	// Kurl is the state of kURL's installer; nil on a worker, which may not read it.
	Kurl *Kurl `json:"kurl,omitempty"`
}

// Node is one node of the cluster.
type Node struct {
	Name         string `json:"name"`
	ControlPlane bool   `json:"controlPlane"`
	Version      string `json:"version"` // of its kubelet, such as 1.35.4
	Runtime      string `json:"runtime"` // such as containerd://2.2.1
	Ready        bool   `json:"ready"`
	Labelled     bool   `json:"labelled"` // as kURL labels its nodes

	made time.Time
}

// Kurl is the state of kURL's installer in the cluster.
type Kurl struct {
	Namespace bool         `json:"namespace"` // the namespace kurl exists
	Config    bool         `json:"config"`    // kurl-config exists, which kURL writes at the end of each run
	Ours      bool         `json:"ours"`      // Sealift wrote it
	Folder    string       `json:"folder"`    // kURL's install directory
	Applied   []node.AddOn `json:"applied"`   // the add-ons that kURL noted as applied
	// Installer is the last applied one; nil if there is none.
	Installer *spec.Installer `json:"-"`
	// Lost are options of the Installer that Sealift does not know.
	Lost []string `json:"lost,omitempty"`
}

// readCluster reads the cluster. own means that the credentials are a worker's.
func readCluster(ctx context.Context, view *cluster.View, name string) (c Cluster, err error) {
	client, err := kubernetes.NewForConfigAndClient(view.Cluster().Config())
	if err != nil {
		return c, err
	}
	if err := c.readConfig(ctx, client); err != nil {
		return c, err
	}
	if view.Own {
		own, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return c, fmt.Errorf("the node of this host: %w", err)
		}
		c.Nodes = []Node{nodeOf(own)}
		return c, nil
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, fmt.Errorf("the nodes of the cluster: %w", err)
	}
	for i := range list.Items {
		c.Nodes = append(c.Nodes, nodeOf(&list.Items[i]))
	}
	c.Kurl, err = readKurl(ctx, client, view.Cluster())
	return c, err
}

// readConfig reads kubeadm's configuration of the cluster, which every node may read.
func (c *Cluster) readConfig(ctx context.Context, client kubernetes.Interface) error {
	config, err := kubeadm.ReadConfig(ctx, client)
	if err != nil {
		return err
	}
	c.Version, c.Endpoint = strings.TrimPrefix(config.KubernetesVersion, "v"), config.ControlPlaneEndpoint
	c.Pods, c.Services = config.Networking.PodSubnet, config.Networking.ServiceSubnet
	return nil
}

func nodeOf(n *corev1.Node) Node {
	_, controlPlane := n.Labels[cluster.ControlPlaneLabel]
	return Node{Name: n.Name, ControlPlane: controlPlane, Version: strings.TrimPrefix(n.Status.NodeInfo.KubeletVersion, "v"), Runtime: n.Status.NodeInfo.ContainerRuntimeVersion,
		Ready: cluster.NodeReady(n), Labelled: n.Labels[clusterLabel] == "true", made: n.CreationTimestamp.Time}
}

// First is the name of the oldest control plane, which counts as the one that created the cluster.
func (c Cluster) First() string {
	var first Node
	for _, n := range c.Nodes {
		if n.ControlPlane && (first.Name == "" || n.made.Before(first.made) || n.made.Equal(first.made) && n.Name < first.Name) {
			first = n
		}
	}
	return first.Name
}

// node returns the node with this name.
func (c Cluster) node(name string) (Node, bool) {
	at := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == name })
	if at < 0 {
		return Node{}, false
	}
	return c.Nodes[at], true
}

func readKurl(ctx context.Context, client kubernetes.Interface, objects *kube.Cluster) (*Kurl, error) {
	k := &Kurl{}
	config, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, kurlConfig, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("kURL's configuration of the cluster: %w", err)
	}
	if err == nil {
		k.Config, k.Ours, k.Folder = true, config.Labels[partOf] != "", config.Data["kurl_install_directory"]
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, kurlNamespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("kURL's namespace: %w", err)
	}
	k.Namespace = err == nil
	current, err := client.CoreV1().ConfigMaps(kurlNamespace).Get(ctx, currentConfig, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("what kURL applied: %w", err)
	}
	if err == nil {
		if k.Applied, err = applied(current.Data); err != nil {
			return nil, err
		}
	}
	k.Installer, k.Lost, err = readInstaller(ctx, objects, config.Data["installer_id"])
	return k, err
}

// applied reads the add-ons of kurl-current-config: the key names the add-on, the value has its options in base64.
func applied(data map[string]string) (found []node.AddOn, err error) {
	for key, value := range data {
		name, ok := strings.CutPrefix(key, addOnPrefix)
		if !ok {
			continue
		}
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s, key %s: %w", kurlNamespace, currentConfig, key, err)
		}
		var options struct {
			Version string `json:"version"`
		}
		if err := yaml.Unmarshal(text, &options); err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s, key %s: %w", kurlNamespace, currentConfig, key, err)
		}
		found = append(found, node.AddOn{Name: name, Version: options.Version})
	}
	slices.SortFunc(found, func(a, b node.AddOn) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// readInstaller returns the last written Installer, or the one with this name if several were written at once. kURL keeps one
// object for each name that it was ever run with.
func readInstaller(ctx context.Context, objects *kube.Cluster, id string) (_ *spec.Installer, lost []string, err error) {
	group, version, _ := strings.Cut(spec.KurlAPIVersion, "/")
	installers, err := objects.Objects(ctx, kube.Ref{Group: group, Version: version, Kind: spec.Kind, Namespace: metav1.NamespaceDefault})
	if meta.IsNoMatchError(err) {
		return nil, nil, nil // a cluster of another installer
	}
	if err != nil {
		return nil, nil, fmt.Errorf("kURL's Installers: %w", err)
	}
	list, err := installers.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("kURL's Installers: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil, nil // none was applied yet
	}
	newest := lastApplied(list.Items, id)
	text, err := yaml.Marshal(map[string]any{"apiVersion": spec.KurlAPIVersion, "kind": spec.Kind, "metadata": map[string]any{"name": newest.GetName()}, "spec": newest.Object["spec"]})
	if err != nil {
		return nil, nil, err
	}
	i, findings, err := spec.Salvage("Installer "+newest.GetName()+" of the cluster", strings.NewReader(string(text)))
	if err != nil {
		return nil, nil, err
	}
	// kURL's words for a command line add keys without a version
	i.AddOns = slices.DeleteFunc(i.AddOns, func(a spec.AddOn) bool { return a.Version == "" })
	for _, f := range findings {
		lost = append(lost, f.Message)
	}
	return i, lost, nil
}

// mergedName is the name of the Installer that kURL merged with the user's patch. kURL applies it after the unmerged one.
const mergedName = "merged"

// lastApplied returns the Installer that kURL applied last. Times are in whole seconds, so of several at once it chooses the merged
// one, and then the one with this name.
func lastApplied(installers []unstructured.Unstructured, id string) unstructured.Unstructured {
	rank := func(o unstructured.Unstructured) int { return slices.Index([]string{id, mergedName}, o.GetName()) }
	return slices.MaxFunc(installers, func(a, b unstructured.Unstructured) int {
		return cmp.Or(applyTime(a).Compare(applyTime(b)), cmp.Compare(rank(a), rank(b)))
	})
}

// labeller is the field manager of kubectl label. kURL labels the Installer that it merged after it has applied the merged one.
const labeller = "kubectl-label"

// applyTime is when an object's content was last changed.
func applyTime(o unstructured.Unstructured) time.Time {
	last := o.GetCreationTimestamp().Time
	for _, entry := range o.GetManagedFields() {
		if entry.Time != nil && entry.Manager != labeller && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}
