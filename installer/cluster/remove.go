package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// How long a node that counts as Ready has to show that it is (a kubelet renews its lease every ten seconds), and how long an API
// server may stay on the list of those that there are (its lease is good for fifteen).
const (
	beatTime   = 25 * time.Second
	forgetTime = time.Minute
)

// NodeLeftovers are a cluster's leftovers of a node that is removed from another one, since its host is lost.
type NodeLeftovers struct {
	Node      string   `json:"node"`
	Known     bool     `json:"known"`               // among the nodes
	Ready     bool     `json:"ready"`               // according to the cluster, which takes a while to notice
	Member    string   `json:"member,omitempty"`    // of etcd, as the others reach it
	Answers   bool     `json:"answers,omitempty"`   // that member
	Pods      []string `json:"pods"`                // that are bound to the node
	APIServer string   `json:"apiServer,omitempty"` // on the list that the nodes' balancers read
	// Broken is why etcd could not decide to continue without the member; "" when it can.
	Broken string `json:"broken,omitempty"`

	client  kubernetes.Interface
	address string
}

// FindLeftovers looks for the cluster's leftovers of a node. The caller's host is a control plane.
func FindLeftovers(ctx context.Context, client kubernetes.Interface, node string) (*NodeLeftovers, error) {
	r := &NodeLeftovers{Node: node, Pods: []string{}, client: client}
	members, err := ownMembers(ctx)
	var majority *MajorityError
	if errors.As(err, &majority) { // the API would say nothing of use, late
		return nil, fmt.Errorf("%w; no member can be removed from a cluster without its majority: start one of these hosts", majority)
	}
	if err != nil {
		return nil, err
	}
	if err := r.findNode(ctx); err != nil {
		return nil, err
	}
	member, there := memberOf(members, node, r.address)
	if there {
		r.Member, r.Answers = strings.Join(member.peers, ","), member.answers
		if r.address == "" {
			r.address = member.address()
		}
		if errors.As(checkMajority(without(members, member)), &majority) {
			r.Broken = majority.Error()
		}
	}
	if !there && !r.Known {
		return nil, r.unknown(ctx)
	}
	r.APIServer, err = listed(ctx, client, r.address)
	return r, err
}

// ownMembers lists the members of this host's etcd; of a cluster with its etcd elsewhere there are none.
func ownMembers(ctx context.Context) (members []etcdMember, err error) {
	err = withEtcd(ctx, func(e *etcd) error {
		members, err = e.members(ctx)
		return err
	}, ownEtcd())
	return members, err
}

func (r *NodeLeftovers) findNode(ctx context.Context) error {
	found, err := r.client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for node %s: %w", r.Node, err)
	}
	r.Known = true
	r.Ready = NodeReady(found)
	for _, a := range found.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && r.address == "" {
			r.address = a.Address
		}
	}
	pods, err := r.pods(ctx)
	for _, pod := range pods {
		r.Pods = append(r.Pods, pod.Namespace+"/"+pod.Name)
	}
	return err
}

func (r *NodeLeftovers) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + r.Node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", r.Node, err)
	}
	return list.Items, nil
}

// ErrUnknownNode means that a cluster has nothing of a node.
var ErrUnknownNode = errors.New("the cluster knows no node")

func (r *NodeLeftovers) unknown(ctx context.Context) error {
	var names []string
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err == nil {
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
	}
	return errors.Join(fmt.Errorf("%w %s; its nodes are: %s", ErrUnknownNode, r.Node, strings.Join(names, ", ")), err)
}

// listed returns the API server at an address in the balancers' list, if any.
func listed(ctx context.Context, client kubernetes.Interface, address string) (string, error) {
	servers, err := balancer.Discover(ctx, client)
	for _, server := range servers {
		if host, _, err := net.SplitHostPort(server); err == nil && host == address {
			return server, nil
		}
	}
	return "", err
}

// awaitUnlisted waits until the API server is off the list: the others remove it when its lease expires.
func awaitUnlisted(ctx context.Context, client kubernetes.Interface, address string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(forgetTime))
	defer cancel()
	err := kube.Poll(ctx, retryPause, func(ctx context.Context) error {
		server, err := listed(ctx, client, address)
		if err == nil && server != "" {
			err = kube.NotYet(fmt.Errorf("%s is still on the list of API servers", server))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait until the API server at %s is removed from the list: %w; run the same command again in a minute", address, err)
	}
	return nil
}

// Check refuses to remove a live node, and one without which etcd could decide nothing. It may have to wait: a host that went down
// some moments ago still counts as Ready.
func (r *NodeLeftovers) Check(ctx context.Context, force bool) error {
	if r.Broken != "" {
		return fmt.Errorf("without node %s the cluster would stop: %s; start one of these hosts first", r.Node, r.Broken)
	}
	if force {
		return nil
	}
	alive := ""
	if r.Answers {
		alive = "its etcd answers"
	} else if r.Ready {
		reports, err := r.reports(ctx)
		if err != nil {
			return err
		}
		if reports {
			alive = "its kubelet reports"
		}
	}
	if alive == "" {
		return nil
	}
	return fmt.Errorf("node %s is alive: %s; run 'sealift reset' there, or give --force if that cannot be done", r.Node, alive)
}

// reports reports whether the kubelet renews the node's lease.
func (r *NodeLeftovers) reports(ctx context.Context) (beats bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Stretch(beatTime))
	defer cancel()
	first := ""
	err = poll.Until(ctx, retryPause, nil, func(ctx context.Context) (bool, error) {
		lease, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, r.Node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("check whether node %s reports: %w", r.Node, err)
		case first == "":
			first = lease.ResourceVersion
		}
		beats = lease.ResourceVersion != first
		return beats, nil
	})
	if end, ok := errors.AsType[*poll.EndedError](err); ok && !end.Canceled() {
		return false, nil // it has had its time
	}
	return beats, err
}

// Remove removes the node from the cluster, its member of etcd first: while that member counts, the loss of another one could
// stop the cluster. It prints each step. If it is repeated, it does the remaining work. The node's certificate becomes invalid.
func (r *NodeLeftovers) Remove(ctx context.Context, say func(string)) error {
	if r.Member != "" {
		if err := leaveEtcd(ctx, r.Node, r.address, ownEtcd()); err != nil {
			return err
		}
		say("etcd goes on without " + r.Member)
	}
	if err := NoteRemoved(ctx, r.client, r.Node); err != nil {
		return err
	}
	if r.Known {
		if err := r.client.CoreV1().Nodes().Delete(ctx, r.Node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete node %s: %w", r.Node, err)
		}
		say("node " + r.Node + " is deleted")
	}
	if err := r.deletePods(ctx, say); err != nil {
		return err
	}
	if r.APIServer == "" {
		return nil
	}
	if err := awaitUnlisted(ctx, r.client, r.address); err != nil {
		return err
	}
	say("API server " + r.APIServer + " is on no list any more")
	return nil
}

// deletePods ends the waiting for pods whose kubelet will never report their end. Those that it creates itself come back as long
// as it exists.
func (r *NodeLeftovers) deletePods(ctx context.Context, say func(string)) error {
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	now := int64(0)
	for _, pod := range pods {
		err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s/%s of node %s: %w", pod.Namespace, pod.Name, r.Node, err)
		}
	}
	if len(pods) > 0 {
		say(fmt.Sprintf("%d of its pods are deleted", len(pods)))
	}
	return nil
}

// Lines describes what exists, for people.
func (r *NodeLeftovers) Lines() []string {
	var lines []string
	if r.Member != "" {
		lines = append(lines, "member of etcd at "+r.Member+": "+either(r.Answers, "answers", "does not answer"))
	}
	if r.Known {
		lines = append(lines, "node "+r.Node+": "+either(r.Ready, "counts as Ready", "is not Ready"))
	}
	if len(r.Pods) > 0 {
		slices.Sort(r.Pods)
		lines = append(lines, fmt.Sprintf("%d pods: %s", len(r.Pods), strings.Join(r.Pods, ", ")))
	}
	if r.APIServer != "" {
		lines = append(lines, "API server "+r.APIServer+" on the list of the nodes' balancers")
	}
	return lines
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
