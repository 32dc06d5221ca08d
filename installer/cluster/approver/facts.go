package approver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// facts are the owners of names and addresses in a cluster.
type facts struct {
	nodes    map[string]node
	services map[netip.Addr]bool
	api      claims                // names and addresses of the API, and of control planes
	chosen   map[netip.Addr]string // the Services for which users chose addresses: those of nodes, too
	removed  map[string]cluster.RemovedNode
}

// node is a node of the cluster.
type node struct {
	Name         string
	ControlPlane bool
	Ready        bool
	Addresses    []netip.Addr
	// Served are the addresses of its first serving certificate. No user can have them for a Service since.
	Served []netip.Addr
}

func (n node) has(address netip.Addr) bool { return slices.Contains(n.Addresses, address) }

// readFacts asks the cluster and this control plane. Every source must answer: an unknown name would be given away.
func (a *Approver) readFacts(ctx context.Context, client kubernetes.Interface) (facts, error) {
	f := facts{nodes: map[string]node{}, services: map[netip.Addr]bool{}, api: newClaims(), chosen: map[netip.Addr]string{}}
	removed, err := cluster.RemovedNodes(ctx, client)
	f.removed = removed
	for _, read := range []func(context.Context, kubernetes.Interface) error{f.readNodes, f.readServices, f.readServers, f.readConfiguration, f.readPublished} {
		err = errors.Join(err, read(ctx, client))
	}
	if a.Members != nil {
		members, failed := a.Members(ctx)
		err = errors.Join(err, failed)
		for _, m := range members {
			f.api.controlPlane(m.Name)
			f.api.add("an address of etcd", m.Peers...)
		}
	}
	own, failed := a.own()
	f.api.add("a name of the API", own...)
	return f, errors.Join(err, failed)
}

func (f *facts) readNodes(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		_, controlPlane := n.Labels[cluster.ControlPlaneLabel]
		known := node{Name: n.Name, ControlPlane: controlPlane, Ready: cluster.NodeReady(n)}
		for _, address := range n.Status.Addresses {
			if ip, ok := parseAddress(address.Address); ok {
				known.Addresses = append(known.Addresses, ip)
			}
			if controlPlane {
				f.api.add("a name of control plane "+n.Name, address.Address)
			}
		}
		f.nodes[n.Name] = known
		if controlPlane {
			f.api.controlPlane(n.Name)
		}
	}
	return nil
}

func (f *facts) readServices(ctx context.Context, client kubernetes.Interface) error {
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range services.Items {
		texts, what := slices.Clone(s.Spec.ClusterIPs), "an address of Service "+s.Namespace+"/"+s.Name
		for _, balancer := range s.Status.LoadBalancer.Ingress {
			texts = append(texts, balancer.IP)
			f.api.add("a name of Service "+s.Namespace+"/"+s.Name, balancer.Hostname)
		}
		for _, text := range texts {
			if ip, ok := parseAddress(text); ok {
				f.services[ip] = true
			}
		}
		f.api.add(what, texts...)
		for _, ip := range addressesOf(append(s.Spec.ExternalIPs, s.Spec.LoadBalancerIP)) { // the latter may be any text, such as the name of a node
			f.chosen[ip] = what
		}
	}
	return nil
}

// readServers reads the list of API servers: also of one that has started, and whose node is not labelled as a control plane yet.
func (f *facts) readServers(ctx context.Context, client kubernetes.Interface) error {
	slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return err
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			f.api.add("an address of an API server", e.Addresses...)
		}
	}
	return nil
}

// readConfiguration reads the API's addresses from the cluster's configuration: those of kubeadm, of joining hosts, of kube-proxy,
// and of an unfinished change of the load balancer.
func (f *facts) readConfiguration(ctx context.Context, client kubernetes.Interface) error {
	c, err := kubeadm.ReadConfig(ctx, client)
	if apierrors.IsNotFound(err) || err == nil && c.Text == "" {
		return errors.New("the cluster has no configuration of kubeadm")
	}
	if err != nil {
		return err
	}
	f.api.add("the endpoint of the API", c.ControlPlaneEndpoint)
	f.api.add("a name of the API", c.APIServer.CertSANs...)
	f.api.add("a name of etcd", slices.Concat(c.Etcd.Local.ServerCertSANs, c.Etcd.Local.PeerCertSANs, c.Etcd.External.Endpoints)...)
	f.api.domain(c.Networking.DNSDomain)
	for _, source := range [][3]string{{metav1.NamespacePublic, "cluster-info", "kubeconfig"}, {metav1.NamespaceSystem, "kube-proxy", "kubeconfig.conf"}} {
		text, err := configured(ctx, client, source[0], source[1], source[2])
		if err != nil {
			return err
		}
		config, err := clientcmd.Load([]byte(text))
		if err != nil {
			return fmt.Errorf("ConfigMap %s/%s: %w", source[0], source[1], err)
		}
		for _, c := range config.Clusters {
			f.api.add("the endpoint of the API", c.Server)
		}
	}
	return f.readBalancers(ctx, client)
}

// readBalancers reads the load balancers between which a cluster changes: see packages endpoint and record. An earlier sealift has a
// ConfigMap for that alone; it is read for one release.
func (f *facts) readBalancers(ctx context.Context, client kubernetes.Interface) error {
	type balancers struct{ From, To string }
	var now struct{ Params balancers }
	var earlier balancers
	for _, source := range []struct {
		name, key string
		into      any
	}{{"sealift-operations", "load-balancer", &now}, {"sealift-load-balancer", "change", &earlier}} {
		text, err := configured(ctx, client, metav1.NamespaceSystem, source.name, source.key)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), source.into); err != nil {
			return fmt.Errorf("the record of the load balancer: %w", err)
		}
	}
	for _, change := range []balancers{now.Params, earlier} {
		if change.To != "" {
			f.api.add("a load balancer of the API", change.From, change.To)
		}
	}
	return nil
}

// configured returns the value of a ConfigMap, "" if there is none.
func configured(ctx context.Context, client kubernetes.Interface, namespace, name, key string) (string, error) {
	config, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
	}
	return config.Data[key], nil
}

// namesPrefix starts the keys of cluster.ApproverConfig under which control planes publish their names, each with its node's name.
const namesPrefix = "names."

// own lists the names and addresses of this control plane.
func (a *Approver) own() ([]string, error) {
	if a.Own == nil {
		return nil, nil
	}
	names, err := a.Own()
	if err != nil {
		return nil, fmt.Errorf("the names of this control plane: %w", err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// publish announces the names and addresses of this control plane to the other approvers, including those that only its own
// certificate has, and its next address. data is that of cluster.ApproverConfig.
func (a *Approver) publish(ctx context.Context, client kubernetes.Interface, data map[string]string) error {
	names, err := a.own()
	if err != nil || a.Node == "" || strings.Join(names, " ") == data[namesPrefix+a.Node] {
		return err
	}
	// the agent of a host that was lost, removed, and is back
	if removed, err := cluster.RemovedNodes(ctx, client); err != nil || removed[a.Node].Gone() {
		return err
	}
	if err := cluster.SetApproverConfig(ctx, client, namesPrefix+a.Node, strings.Join(names, " ")); err != nil {
		return fmt.Errorf("publish the names of this control plane: %w", err)
	}
	return nil
}

// readPublished reads what control planes have published, and what nodes serve at. The names of a removed control plane are free, even if it
// joined as a worker.
func (f *facts) readPublished(ctx context.Context, client kubernetes.Interface) error {
	data, err := cluster.ReadApproverConfig(ctx, client)
	for key, text := range data {
		if name, ok := strings.CutPrefix(key, cluster.ServedPrefix); ok {
			if n, there := f.nodes[name]; there {
				n.Served = addressesOf(strings.Fields(text))
				f.nodes[name] = n
			}
			continue
		}
		node, ok := strings.CutPrefix(key, namesPrefix)
		if now, there := f.nodes[node]; ok && !f.removed[node].Gone() && (now.ControlPlane || !there) {
			f.api.add("a name of control plane "+node, strings.Fields(text)...)
		}
	}
	return err
}

// hostOf returns the host of a URL, of a host with a port, or of a plain host.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		text = u.Host
	}
	return cluster.HostOf(text)
}
