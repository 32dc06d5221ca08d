package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// oldestMinor is the oldest minor version of Kubernetes 1 that is adopted. 'sealift upgrade' continues from there.
const oldestMinor = 31

// Found is the state of the host and its cluster.
type Found struct {
	Host    Host    `json:"host"`
	Cluster Cluster `json:"cluster"`
}

// AddOns are the add-ons that kURL's last run applied, with the container runtime of this host.
func (f Found) AddOns() []node.AddOn {
	own, _ := f.Cluster.node(f.Host.Name)
	found := []node.AddOn{{Name: "containerd", Version: strings.TrimPrefix(own.Runtime, containerd)}}
	if f.Cluster.Kurl == nil {
		return found
	}
	for _, one := range f.Cluster.Kurl.Applied {
		if one.Version == "" && f.Cluster.Kurl.Installer != nil {
			one.Version = f.Cluster.Kurl.Installer.AddOn(one.Name).Version
		}
		found = append(found, one)
	}
	return found
}

// Checks refuse unadoptable nodes, and name the remedy.
func (f Found) Checks() []preflight.Check {
	check := func(name string, probe func(*preflight.Reporter)) preflight.Check {
		return preflight.Check{Name: name, Probe: func(_ context.Context, r *preflight.Reporter) { probe(r) }}
	}
	return []preflight.Check{
		check("kURL", f.kurl), check("versions", f.versions), check("container runtime", f.runtime), check("nodes", f.nodes),
		check("add-ons", f.addOns), check("API", f.api),
	}
}

// again is the remedy for an unfinished run of kURL.
const again = "run kURL's install.sh again until it ends without an error, and adopt the cluster then"

// kurl requires a kURL cluster whose last run finished.
func (f Found) kurl(r *preflight.Reporter) {
	own, _ := f.Cluster.node(f.Host.Name)
	k := f.Cluster.Kurl
	const others = "adopt clusters of kURL only; install a new cluster with 'sealift install'"
	switch {
	case k == nil && !own.Labelled && len(f.Host.Kurl) == 0:
		r.Refusef(others, "kURL did not make this node: it has none of kURL's folders, and no label %s", clusterLabel)
	case k == nil:
		r.Passf("kURL made this worker")
	case k.Ours:
		r.Refusef("see 'sealift status' on the other control planes", "Sealift made or upgraded this cluster already")
	case !k.Config && !k.Namespace:
		r.Refusef(others, "kURL did not make this cluster: it has neither the ConfigMap %s nor the namespace %s", kurlConfig, kurlNamespace)
	case !k.Config:
		r.Refusef(again, "kURL's install did not come to its end: the ConfigMap %s is not there", kurlConfig)
	case k.Installer == nil:
		r.Refusef(again, "the cluster has no Installer of kURL")
	case len(k.Lost) > 0:
		r.Warnf("name what replaces it in the Installer of the first upgrade", "made by kURL, with the Installer %s; what Sealift does not know is left out: %s", k.Installer.Name, strings.Join(k.Lost, "; "))
	default:
		r.Passf("made by kURL, with the Installer %s", k.Installer.Name)
	}
}

// versions requires one version of Kubernetes on all nodes, which is not too old.
func (f Found) versions(r *preflight.Reporter) {
	version := f.Cluster.Version
	if major, minor := catalog.MajorMinor(version); major != 1 || minor < oldestMinor {
		r.Refusef(fmt.Sprintf("upgrade the cluster with kURL to 1.%d or newer first", oldestMinor), "the cluster runs Kubernetes %s, which is too old", version)
		return
	}
	var other []string
	for _, n := range f.Cluster.Nodes {
		if n.Version != version {
			other = append(other, n.Name+" "+n.Version)
		}
	}
	if len(other) > 0 {
		r.Refusef("finish kURL's upgrade first", "the cluster has Kubernetes %s, and these nodes another version: %s", version, strings.Join(other, ", "))
		return
	}
	r.Passf("Kubernetes %s", version)
}

// The prefixes of container runtimes in the nodes' reports.
const (
	containerd = "containerd://"
	docker     = "docker://"
)

func (f Found) runtime(r *preflight.Reporter) {
	var dockers, others []string
	for _, n := range f.Cluster.Nodes {
		switch {
		case strings.HasPrefix(n.Runtime, docker):
			dockers = append(dockers, n.Name)
		case !strings.HasPrefix(n.Runtime, containerd):
			others = append(others, fmt.Sprintf("%s (%s)", n.Name, n.Runtime))
		}
	}
	if len(dockers) > 0 {
		r.Refusef("name containerd in place of docker in kURL's Installer, and run kURL's install.sh with it on every node: it moves them", "these nodes have docker: %s", strings.Join(dockers, ", "))
	}
	if len(others) > 0 {
		r.Refusef("move these nodes to containerd first, which Sealift needs", "these nodes have another container runtime: %s", strings.Join(others, ", "))
	}
	if !f.Host.Containerd {
		r.Warnf("look at what starts containerd here", "/etc/containerd/config.toml is not there, as kURL writes it")
	}
	if len(dockers)+len(others) == 0 {
		r.Passf("containerd on every node that this one may ask about")
	}
}

// nodes requires this host to be a node, and all nodes to be Ready.
func (f Found) nodes(r *preflight.Reporter) {
	own, known := f.Cluster.node(f.Host.Name)
	switch {
	case !known:
		r.Refusef("was the host renamed? give it its former name back", "the cluster has no node %s, as this host is called", f.Host.Name)
		return
	case own.ControlPlane != f.Host.ControlPlane:
		r.Refusef("repair this node with kURL first", "the cluster and the disk of node %s do not agree on whether it is a control plane", own.Name)
		return
	}
	var away []string
	for _, n := range f.Cluster.Nodes {
		if !n.Ready {
			away = append(away, n.Name)
		}
	}
	if len(away) > 0 {
		r.Refusef("repair them first, or remove lost ones with 'kubectl delete node'", "not Ready: %s", strings.Join(away, ", "))
		return
	}
	r.Passf("%d, all Ready", len(f.Cluster.Nodes))
}

// addOns requires kURL to have applied everything in its Installer.
func (f Found) addOns(r *preflight.Reporter) {
	k := f.Cluster.Kurl
	if k == nil || k.Installer == nil {
		return
	}
	var missing []string
	for _, a := range k.Installer.AddOns {
		onHost := slices.Contains([]string{"kubernetes", "containerd", "docker"}, a.Name)
		if !onHost && !slices.ContainsFunc(k.Applied, func(one node.AddOn) bool { return one.Name == a.Name }) {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) > 0 {
		r.Refusef(again, "kURL has not applied these add-ons of its Installer: %s", strings.Join(missing, ", "))
		return
	}
	r.Passf("%d applied by kURL", len(k.Applied))
}

// api describes how the API will be reached.
func (f Found) api(r *preflight.Reporter) {
	switch local := balancer.Serves(f.Cluster.Endpoint); {
	case f.Cluster.Endpoint == "":
		r.Refusef("give kubeadm-config a controlPlaneEndpoint, as kURL does", "kubeadm's configuration does not say where nodes reach the API")
	case local && !f.Host.Haproxy:
		r.Passf("nodes reach it at %s, where Sealift's balancer will listen", f.Cluster.Endpoint)
	case local:
		r.Passf("nodes reach it at %s, where kURL's haproxy listens; it stays", f.Cluster.Endpoint)
	default:
		r.Passf("nodes reach it at %s, which stays; no balancer is needed", f.Cluster.Endpoint)
	}
}
