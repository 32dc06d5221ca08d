package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
)

// explainTime is how long a failed wait may take to find the reasons.
const explainTime = 15 * time.Second

// How long an unreachable API is awaited, how often it is probed, and how long it may take to recover on its own. The kubelet restarts
// crashing pods only every five minutes: first etcd, and after it the API server. On a slow host that is as long as kubeadm may wait for
// a control plane there. An API server that gets a new certificate has the old one for a moment.
const (
	apiTime     = 6 * time.Minute
	apiPause    = time.Second
	apiPatience = time.Minute
	invalidTime = 20 * time.Second
)

// WaitAPI waits until the API of this node's cluster is ready: after a power loss, or when etcd's disk was full, it first answers
// without knowing anybody's rights. Of no cluster there is nothing to wait for.
func WaitAPI(ctx context.Context, output io.Writer) error {
	return waitAPI(ctx, output, revival{})
}

// BringAPI waits as WaitAPI does. On a control plane whose API does not recover, it restarts the kubelet once, which then starts etcd
// and the API server at once.
func BringAPI(ctx context.Context, output io.Writer) error {
	serves, err := exists(kubeadm.APIServerManifest)
	if err != nil {
		return err
	}
	if !serves {
		return WaitAPI(ctx, output)
	}
	late := time.NewTimer(speed.Now().Of(apiPatience))
	defer late.Stop()
	return waitAPI(ctx, output, revival{late.C, func() error { return run(ctx, output, "systemctl", "restart", "kubelet") }})
}

// revival restarts an API that is still unreachable when late is due.
type revival struct {
	late <-chan time.Time
	act  func() error
}

func waitAPI(ctx context.Context, output io.Writer, then revival) error {
	view, err := NewView()
	if err != nil || view == nil {
		return err
	}
	if err := checkClock("", time.Now()); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, max(apiTime, speed.Now().Of(componentHealthTime)))
	defer cancel()
	return view.waitAPI(bounded, output, then)
}

func (v *View) waitAPI(ctx context.Context, output io.Writer, then revival) error {
	endpoint, invalid := "", time.Time{}
	say := func(why error) { fmt.Fprintf(output, "waiting for the Kubernetes API at %s: %s\n", endpoint, why) }
	err := poll.Until(ctx, apiPause, say, func(ctx context.Context) (bool, error) {
		api := v.API(ctx)
		endpoint = api.Endpoint
		if api.Ready {
			return true, nil
		}
		switch {
		case !api.invalid:
			invalid = time.Time{}
		case invalid.IsZero():
			invalid = time.Now()
		case time.Since(invalid) > v.invalid:
			return false, fmt.Errorf("the Kubernetes API at %s cannot be used: %s", endpoint, api.Why)
		}
		lifecycle.Note(ctx, "waiting for the Kubernetes API at "+endpoint)
		select {
		case <-then.late:
			fmt.Fprintln(output, "the Kubernetes API stays away: restarting the kubelet, which waits longer each time before it starts what ended again")
			if err := then.act(); err != nil {
				return false, err
			}
		default:
		}
		return false, poll.NotYet(errors.New(api.Why))
	})
	if poll.Ended(err) {
		return fmt.Errorf("the Kubernetes API at %s is not ready: %w; see 'journalctl --unit kubelet' and /var/log/pods; "+
			"'systemctl restart kubelet' on a control plane starts at once what ended too often", endpoint, err)
	}
	return err
}

// WaitReady waits until every node is Ready, kubeadm's own deployments are rolled out, and the objects of the named add-ons are
// healthy. The add-ons may belong to another owner by now.
func WaitReady(ctx context.Context, addOns []string, output io.Writer) error {
	here, err := administrator()
	if err != nil {
		return err
	}
	view, err := NewView()
	if err != nil {
		return err
	}
	nodes, err := view.Nodes(ctx)
	if err != nil {
		return err
	}
	all := []*unstructured.Unstructured{named("apps/v1", "DaemonSet", "kube-system", "kube-proxy"), named("apps/v1", "Deployment", "kube-system", "coredns")}
	for _, n := range nodes {
		all = append(all, named("v1", "Node", "", n.Name))
	}
	records, err := here.records.List(ctx)
	if err != nil {
		return err
	}
	for _, name := range addOns {
		members, err := here.engine.Members(ctx, setOf(name, records))
		if err != nil {
			return err
		}
		all = append(all, members...)
	}
	left, err := untilDeadline(ctx)
	if err != nil {
		return err
	}
	return waitFor(ctx, here.engine, all, left-explainTime, output)
}

func waitFor(ctx context.Context, engine *kube.Engine, objects []*unstructured.Unstructured, timeout time.Duration, output io.Writer) error {
	return engine.Wait(ctx, objects, kube.WaitOptions{Timeout: timeout, Progress: func(s kube.ObjectState) {
		fmt.Fprintln(output, s)
		if s.State != health.Ready {
			lifecycle.Note(ctx, fmt.Sprintf("%s is not ready: %s", s.Object, s.Reason))
		}
	}})
}

func named(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// WaitNode waits until this host is a Ready node, with the credentials that a node has.
func WaitNode(ctx context.Context, node string, output io.Writer) error {
	for _, args := range [][]string{
		{"wait", "--for=create", "node/" + node}, // the kubelet has its credentials some moments before that
		{"wait", "--for=condition=Ready", "node/" + node},
	} {
		left, err := untilDeadline(ctx)
		if err != nil {
			return err
		}
		said, err := kubectl(ctx, kubeadm.KubeletKubeconfig, append(args, "--timeout="+left.Round(time.Second).String())...)
		fmt.Fprint(output, said)
		if err != nil {
			return err
		}
	}
	return nil
}

func untilDeadline(ctx context.Context) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, errors.New("waiting for the cluster needs a timeout")
	}
	return time.Until(deadline), nil
}

// WaitReport waits until the kubelet of this host reports, and its node is Ready. The API's state of a node may be old.
func WaitReport(ctx context.Context, node string, output io.Writer) error {
	client, err := Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return err
	}
	err = poll.Until(ctx, apiPause, poll.Print(output, "the kubelet of node "+node), poll.Success(func(ctx context.Context) error {
		reports, err := (&NodeLeftovers{Node: node, client: client}).reports(ctx)
		if err == nil && !reports {
			err = errors.New("it does not renew its lease")
		}
		return err
	}))
	if err != nil {
		return fmt.Errorf("the kubelet of node %s does not report: %w; see 'journalctl --unit kubelet'", node, err)
	}
	return WaitNode(ctx, node, output)
}
