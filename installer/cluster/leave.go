package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// How long a cluster is asked and waited for when a node leaves it: it may be gone, and then the node is cleaned all the same.
const (
	askTimeout   = 15 * time.Second
	evictTimeout = 2 * time.Minute
	evictPause   = 2 * time.Second
)

var (
	nodeKind = kube.Ref{Version: "v1", Kind: "Node"}
	podKind  = kube.Ref{Version: "v1", Kind: "Pod"}
)

// Member is this node as a member of the cluster that it leaves.
type Member struct {
	Node string
	// Others are the cluster's other nodes, as far as this node may know of them.
	Others  []string
	known   bool // by the cluster: another process may have removed it from the list already
	listed  bool // Others are all
	worker  bool // it has only its own credentials: the control plane is elsewhere
	address string
	cluster *kube.Cluster
	typed   kubernetes.Interface
	servers []string // host:port of the API on each control plane
	output  io.Writer
}

// Membership finds out what cluster this node is part of, with the best credentials that it has. A node without credentials
// returns nil; one whose cluster does not answer, an error.
func Membership(ctx context.Context, node string, output io.Writer) (*Member, error) {
	for _, file := range []string{kubeadm.AdminKubeconfig, kubeadm.KubeletKubeconfig} {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		config, err := Config(file)
		if err != nil {
			return nil, err
		}
		if err := rest.LoadTLSFiles(config); err != nil { // the files go before the node's last request
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		config.Timeout = speed.Patience(askTimeout)
		m := &Member{Node: node, worker: file == kubeadm.KubeletKubeconfig, output: output}
		if m.cluster, err = kube.Connect(config, nil); err != nil {
			return nil, err
		}
		if m.typed, err = typedClient(m.cluster); err != nil {
			return nil, err
		}
		return m, m.look(ctx)
	}
	return nil, nil
}

// Alone reports whether this is the cluster's only node. Who cannot list the nodes does not know, and leaves as if there were others.
func (m *Member) Alone() bool { return m.listed && len(m.Others) == 0 }

// look reads the other nodes, and where else the API is served. A worker may not know the former.
func (m *Member) look(ctx context.Context) error {
	nodes, err := m.cluster.Objects(ctx, nodeKind)
	if err != nil {
		return fmt.Errorf("the cluster does not answer: %w", err)
	}
	switch own, err := nodes.Get(ctx, m.Node, metav1.GetOptions{}); {
	case err == nil:
		m.known, m.address = true, node(*own).Address
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster does not answer: %w", err)
	}
	switch list, err := nodes.List(ctx, metav1.ListOptions{}); {
	case err == nil:
		m.listed = true
		for _, n := range list.Items {
			if n.GetName() != m.Node {
				m.Others = append(m.Others, n.GetName())
			}
		}
	case !m.worker:
		fmt.Fprintf(m.output, "list the nodes of the cluster: %v\n", err)
	}
	if m.servers, err = balancer.Discover(ctx, m.typed); err != nil {
		fmt.Fprintln(m.output, err)
	}
	return nil
}

// Drain keeps new pods from this node and moves those that it has, as their disruption budgets allow. Pods of DaemonSets and
// of the node itself stay. What does not go in time is named in the error.
func (m *Member) Drain(ctx context.Context) error {
	if !m.known {
		return nil
	}
	nodes, err := m.cluster.Objects(ctx, nodeKind)
	if err != nil {
		return err
	}
	_, err = nodes.Patch(ctx, m.Node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil {
		fmt.Fprintf(m.output, "node %s cannot be marked as unschedulable: %v\n", m.Node, err)
	}
	err = m.evictAll(ctx, speed.Patience(evictTimeout), movable)
	if _, ok := errors.AsType[*StayedError](err); ok {
		return fmt.Errorf("%w and were killed", err)
	}
	return err
}

// StayedError names the pods that did not leave a node in time.
type StayedError struct {
	Node string
	Pods []string // namespace/name, with the reason why the last eviction was refused
	Time time.Duration
}

func (e *StayedError) Error() string {
	return fmt.Sprintf("pods did not leave node %s in %v: %s", e.Node, e.Time, strings.Join(e.Pods, ", "))
}

// evictAll evicts the pods that leaves chooses, as their disruption budgets allow.
func (m *Member) evictAll(ctx context.Context, timeout time.Duration, leaves func(unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all, err := m.cluster.Objects(ctx, podKind)
	if err != nil {
		return fmt.Errorf("list the pods of node %s: %w", m.Node, err)
	}
	var waiting []string
	err = poll.Until(ctx, evictPause, nil, func(ctx context.Context) (bool, error) {
		pods, err := all.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + m.Node})
		if err != nil {
			return false, fmt.Errorf("list the pods of node %s: %w", m.Node, err)
		}
		waiting = nil
		for _, pod := range pods.Items {
			if !leaves(pod) {
				continue
			}
			name := pod.GetNamespace() + "/" + pod.GetName()
			if pod.GetDeletionTimestamp() == nil {
				fmt.Fprintf(m.output, "evicting pod %s\n", name)
				if err := m.evict(ctx, pod); err != nil {
					fmt.Fprintf(m.output, "pod %s: %v\n", name, err)
					name = fmt.Sprintf("%s (%v)", name, err)
				}
			}
			waiting = append(waiting, name)
		}
		if len(waiting) > 0 {
			lifecycle.Note(ctx, fmt.Sprintf("%d pods have not left node %s, such as %s", len(waiting), m.Node, waiting[0]))
		}
		return len(waiting) == 0, nil
	})
	if poll.Ended(err) {
		return &StayedError{m.Node, waiting, timeout}
	}
	return err
}

// movable reports whether a pod would run elsewhere once it is gone here.
func movable(pod unstructured.Unstructured) bool {
	if _, mirror := pod.GetAnnotations()["kubernetes.io/config.mirror"]; mirror {
		return false
	}
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase != "Succeeded" && phase != "Failed" &&
		!slices.ContainsFunc(pod.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
}

func (m *Member) evict(ctx context.Context, pod unstructured.Unstructured) error {
	eviction := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"name": pod.GetName(), "namespace": pod.GetNamespace()}}}
	pods, err := m.cluster.Objects(ctx, kube.RefOf(&pod))
	if err == nil {
		_, err = pods.Create(ctx, eviction, metav1.CreateOptions{}, "eviction")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Forget removes the node from the cluster's list, when nothing runs on it any longer: from an API server that is not on it. A
// control plane also records its removal, so that its certificate is no longer valid.
func (m *Member) Forget(ctx context.Context) error {
	if !m.known {
		return nil
	}
	var errs []error
	config, _ := m.cluster.Config()
	for _, host := range append([]string{config.Host}, m.servers...) {
		config.Host = host
		err := forget(ctx, config, m.Node, !m.worker)
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		errs = append(errs, err)
		if apierrors.IsForbidden(err) { // a worker may not remove itself
			return err
		}
	}
	return errors.Join(errs...)
}

func forget(ctx context.Context, config *rest.Config, node string, note bool) error {
	cluster, err := kube.Connect(config, nil)
	if err != nil {
		return err
	}
	if note {
		typed, err := typedClient(cluster)
		if err == nil {
			err = NoteRemoved(ctx, typed, node)
		}
		if err != nil {
			return err
		}
	}
	nodes, err := cluster.Objects(ctx, nodeKind)
	if err != nil {
		return err
	}
	return nodes.Delete(ctx, node, metav1.DeleteOptions{})
}

// AwaitUnlisted waits until this node's API server is no longer listed: joining hosts try all listed ones.
func (m *Member) AwaitUnlisted(ctx context.Context) error {
	if m.worker || !m.known {
		return nil
	}
	return awaitUnlisted(ctx, m.typed, m.address)
}

// CheckLeave reports whether the rest of the cluster's etcd can decide anything without this node. If it cannot now, or this node is
// not a member any longer, nothing is lost.
func CheckLeave(ctx context.Context, node string) error {
	return withEtcd(ctx, func(e *etcd) error {
		members, err := e.members(ctx)
		if err != nil {
			return nil //nolint:nilerr // as said
		}
		own, there := memberOf(members, node, "")
		others := without(members, own)
		if !there || len(others) == 0 {
			return nil
		}
		return checkMajority(others)
	}, ownEtcd())
}

// LeaveEtcd removes this node's member from the cluster's etcd, if it has one and there are others. Call it before the programs
// of this node stop: of two members, the other one could not decide it alone.
func (m *Member) LeaveEtcd(ctx context.Context) error {
	endpoints := []string{ownEtcd()}
	for _, server := range m.servers {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			return err
		}
		endpoints = append(endpoints, etcdEndpoint(host))
	}
	return leaveEtcd(ctx, m.Node, "", endpoints...)
}

// Reset undoes kubeadm's work on this node. Without kubeadm, or if kubeadm did nothing, Reset does nothing. It skips kubeadm's
// own reset of etcd, which would continue if a member could not leave, and would wait for a member that has left.
func Reset(ctx context.Context, output io.Writer) error {
	if _, err := exec.LookPath("kubeadm"); err != nil {
		return nil //nolint:nilerr // then it has done nothing
	}
	if _, err := os.Stat(kubeadm.Folder); err != nil {
		return nil //nolint:nilerr // likewise
	}
	return run(ctx, output, "kubeadm", "reset", "--force", "--skip-phases=remove-etcd-member")
}
