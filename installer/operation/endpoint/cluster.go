package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/ensure"
	"github.com/sealift/sealift/spec"
)

// Underway is a change that has begun and is not over.
type Underway struct {
	From string `json:"from"`
	To   string `json:"to"`
	Next string `json:"next"` // the command that resumes
}

// FindUnderway asks a cluster for the change of its load balancer; it is nil if there is none.
func FindUnderway(ctx context.Context, c *kube.Cluster) (*Underway, error) {
	client, err := kubernetes.NewForConfigAndClient(c.Config())
	if err != nil {
		return nil, err
	}
	all, err := record.Store{Client: client}.Read(ctx)
	r, known := all[Kind.Name]
	if err != nil || !known {
		return nil, err
	}
	var p params
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	u := &Underway{From: p.From, To: p.To, Next: hostpath.Sudo("node load-balancer " + p.To)}
	if r.Waits && !p.Back {
		u.Next = hostpath.Sudo("node load-balancer --finish")
	}
	return u, nil
}

// change changes a ConfigMap, if the cluster has it and there is something to change.
func change(ctx context.Context, client kubernetes.Interface, namespace, name string, edit func(data map[string]string) (changed bool, err error)) error {
	err := ensure.EditConfigMap(ctx, client.CoreV1(), namespace, name, edit)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// nameServers gives kubeadm's configuration one more name for the certificates of API servers, and takes one. A control plane that
// joins gets its certificate by it.
func nameServers(ctx context.Context, client kubernetes.Interface, add, drop string) error {
	return changeConfig(ctx, client, func(text string) (string, error) {
		return kubeadm.EditServer(text, func(server *kubeadm.Server) error {
			server.Name(add, drop)
			return nil
		})
	})
}

// changeConfig changes kubeadm's configuration, if the cluster has one.
func changeConfig(ctx context.Context, client kubernetes.Interface, edit func(text string) (string, error)) error {
	err := kubeadm.EditConfig(ctx, client, edit)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// configure writes the new load balancer into the cluster's configuration: that of kubeadm, of joining hosts, of kube-proxy, of flannel,
// and of kURL.
func configure(ctx context.Context, client kubernetes.Interface, from, to string) error {
	field := func(namespace, name, key string, set func(text, was, is string) (string, int)) error {
		return change(ctx, client, namespace, name, func(data map[string]string) (bool, error) {
			text, places := set(data[key], from, to)
			if places > 0 {
				data[key] = text
			}
			return places > 0, nil
		})
	}
	return errors.Join(
		changeConfig(ctx, client, func(text string) (string, error) {
			text, _ = setField(text, "controlPlaneEndpoint", from, to)
			return text, nil
		}),
		field(metav1.NamespacePublic, "cluster-info", "kubeconfig", setServer),
		field(metav1.NamespaceSystem, "kube-proxy", "kubeconfig.conf", setServer),
		change(ctx, client, "kube-flannel", "kube-flannel-cfg", func(data map[string]string) (bool, error) {
			if host, port := "api-host", "api-port"; net.JoinHostPort(data[host], data[port]) == from {
				var err error
				data[host], data[port], err = net.SplitHostPort(to)
				return true, err
			}
			return false, nil
		}),
		field(metav1.NamespaceSystem, "kurl-config", "kubernetes_api_address", func(text, was, is string) (string, int) {
			if text == was {
				return is, 1
			}
			return text, 0
		}))
}

// configureInstallers gives kURL's Installers in the cluster the new load balancer.
func configureInstallers(ctx context.Context, objects *kube.Cluster, from, to string) error {
	group, version, _ := strings.Cut(spec.KurlAPIVersion, "/")
	installers, err := objects.Objects(ctx, kube.Ref{Group: group, Version: version, Kind: spec.Kind, Namespace: metav1.NamespaceDefault})
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kURL's Installers: %w", err)
	}
	list, err := installers.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("kURL's Installers: %w", err)
	}
	for _, one := range list.Items {
		named, _, _ := unstructured.NestedString(one.Object, "spec", "kubernetes", "loadBalancerAddress")
		if _, places := setInstaller("loadBalancerAddress: "+named, from, to); places == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"kubernetes": map[string]any{"loadBalancerAddress": to}}})
		if err == nil {
			_, err = installers.Patch(ctx, one.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return fmt.Errorf("kURL's Installer %s: %w", one.GetName(), err)
		}
	}
	return nil
}

// daemon is a DaemonSet whose pods ask the API where the cluster's configuration says, and read that when they start.
type daemon struct{ name, namespace, label string }

var daemons = []daemon{
	{"kube-proxy", metav1.NamespaceSystem, "k8s-app=kube-proxy"},
	{"flannel", "kube-flannel", "app=flannel"}, // of the catalogue that ships; kURL's own asks through a Service
}

// restartDaemons lets the daemons reread their configuration: pods from before a time are deleted, in sequence, and their DaemonSet
// recreates them. A rollout of the DaemonSet would wait for the pods of nodes that are off. fields selects pods, and only says on
// which nodes.
func restartDaemons(ctx context.Context, client kubernetes.Interface, fields string, before time.Time, only func(node string) bool) error {
	for _, d := range daemons {
		if err := d.restart(ctx, client, fields, before, only); err != nil {
			return err
		}
	}
	return nil
}

func (d daemon) restart(ctx context.Context, client kubernetes.Interface, fields string, before time.Time, only func(node string) bool) error {
	moved := time.Now()
	return poll.Until(ctx, pause, nil, func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: d.label, FieldSelector: fields})
		if err != nil {
			return false, fmt.Errorf("the pods of %s: %w", d.name, err)
		}
		var old *corev1.Pod
		starting := ""
		for i, p := range pods.Items {
			switch {
			case !only(p.Spec.NodeName):
			case !p.CreationTimestamp.After(before):
				old = &pods.Items[i]
			case !cluster.PodReady(p):
				starting = p.Name
			}
		}
		switch {
		case starting != "":
		case old == nil:
			return true, nil
		case old.DeletionTimestamp == nil:
			err = client.CoreV1().Pods(old.Namespace).Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}})
			if err != nil && !apierrors.IsNotFound(err) {
				return false, fmt.Errorf("restart pod %s: %w", old.Name, err)
			}
			moved = time.Now()
		}
		err = fmt.Errorf("%s does not restart with the new load balancer (pod %s): see 'kubectl --namespace %s get pods', and run the command again", d.name, starting, d.namespace)
		if time.Since(moved) <= speed.Patience(shortTime) {
			err = poll.NotYet(err)
		}
		return false, err
	})
}

// refuseNode refuses an endpoint that is a node's own address: a node is not a load balancer.
func refuseNode(all []cluster.Node, endpoint, instead string) error {
	for _, one := range all {
		if one.Address == cluster.HostOf(endpoint) {
			return fmt.Errorf("%s is the address of node %s, not of a load balancer%s", endpoint, one.Name, instead)
		}
	}
	return nil
}
