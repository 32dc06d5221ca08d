package machine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// podKind makes machines that are privileged pods of a cluster, from an image with systemd such as 'sealift testgrid lab image' makes.
//
// The network of an airgap test has a NetworkPolicy that lets nothing out but to the machines of the same test. Many networks ignore
// policies, so the first machine tries to reach the API server before and after the policy exists.
type podKind struct {
	image      string
	namespace  string
	kubeconfig string
	connect    func(kubeconfig string) (*rest.Config, error)
}

// The labels of pods and policies.
const (
	ownerLabel = "sealift.dev/testgrid-owner"
	groupLabel = "sealift.dev/testgrid-machines" // of one test
	// noOwner is the owner of machines if there is a single run.
	noOwner = "none"
)

const (
	// podTime is how long a machine may take until its systemd is up, including the wait for room on a node and for the image.
	podTime = 30 * time.Minute
	podPoll = time.Second
	// policyTime is how long a network may take to enforce a policy.
	policyTime = 30 * time.Second
	// removeTime is how long the removal of machines may take.
	removeTime = time.Minute
)

// cluster is the cluster of the machines.
type cluster struct {
	podKind
	config *rest.Config
	client kubernetes.Interface
}

func (k podKind) cluster() (*cluster, error) {
	config, err := k.connect(k.kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	return &cluster{podKind: k, config: config, client: client}, err
}

// Clean removes pods and policies, of one owner or of all runs in the namespace.
func (k podKind) Clean(ctx context.Context, owner string) error {
	c, err := k.cluster()
	if err != nil {
		return err
	}
	selector := ownerLabel
	if owner != "" {
		selector += "=" + owner
	}
	return c.remove(ctx, selector)
}

// remove removes objects with these labels.
func (c *cluster) remove(ctx context.Context, selector string) error {
	list := metav1.ListOptions{LabelSelector: selector}
	pods := retry(ctx, func(ctx context.Context) error {
		return c.client.CoreV1().Pods(c.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, list)
	})
	return errors.Join(pods, retry(ctx, func(ctx context.Context) error {
		return c.client.NetworkingV1().NetworkPolicies(c.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, list)
	}))
}

func (k podKind) Make(ctx context.Context, w Request) (_ []Machine, err error) {
	c, err := k.cluster()
	if err != nil {
		return nil, err
	}
	g := &podGroup{cluster: c, id: strings.ToLower(rand.Text()[:10]), left: w.Count}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.remove(ctx))
		}
	}()
	labels := map[string]string{groupLabel: g.id, ownerLabel: cmp.Or(w.Owner, noOwner)}
	var pods []*podMachine
	for i := range w.Count {
		pod := c.pod(fmt.Sprintf("machine-%s-%d", g.id, i+1), labels, w)
		if err := retry(ctx, func(ctx context.Context) error {
			_, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
			return unlessExists(err)
		}); err != nil {
			return nil, fmt.Errorf("make a machine in a pod: %w", err)
		}
		pods = append(pods, &podMachine{name: pod.Name, group: g})
	}
	var machines []Machine
	for _, m := range pods {
		if err := m.wait(ctx); err != nil {
			return nil, err
		}
		machines = append(machines, m)
	}
	if w.Airgap {
		if err := g.isolate(ctx, pods, labels); err != nil {
			return nil, err
		}
	}
	return machines, nil
}

// Adopt takes pods that were kept. The first machine that is removed removes all.
func (k podKind) Adopt(ctx context.Context, w Request, kept []Kept) (machines []Machine, err error) {
	c, err := k.cluster()
	if err != nil {
		return nil, err
	}
	g := &podGroup{cluster: c, left: len(kept)}
	for _, one := range kept {
		var pod *corev1.Pod
		err := retry(ctx, func(ctx context.Context) (err error) {
			pod, err = c.client.CoreV1().Pods(c.namespace).Get(ctx, one.Name, metav1.GetOptions{})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for the machine %s: %w", one.Name, err)
		}
		g.id = pod.Labels[groupLabel]
		machines = append(machines, &podMachine{name: one.Name, address: pod.Status.PodIP, group: g})
	}
	if w.Airgap {
		err = g.aim(ctx)
	}
	return machines, err
}

// pod is one machine. Folders in which containers mount overlays are volumes, because an overlay cannot carry overlays.
func (c *cluster) pod(name string, labels map[string]string, w Request) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), RestartPolicy: corev1.RestartPolicyNever, DNSPolicy: corev1.DNSDefault,
		Containers: []corev1.Container{{
			Name: "machine", Image: c.image, SecurityContext: &corev1.SecurityContext{Privileged: new(true)}, Env: []corev1.EnvVar{{Name: "container", Value: "kubernetes"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(int64(w.CPU), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(w.Memory, resource.BinarySI)}},
		}},
	}}
	for volume, path := range map[string]string{"run": "/run", "tmp": "/tmp", "containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"} {
		source := &corev1.EmptyDirVolumeSource{}
		if volume == "run" || volume == "tmp" {
			source.Medium = corev1.StorageMediumMemory
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: source}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
	}
	return pod
}

// podGroup is the machines of one test.
type podGroup struct {
	*cluster
	id    string
	probe string // script that reaches the API server from a machine with a way out; "" if the machines may have one

	mu   sync.Mutex
	left int // unremoved machines
}

// remove removes all machines and their policy, even if ctx has ended.
func (g *podGroup) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	return g.cluster.remove(ctx, groupLabel+"="+g.id)
}

// probes is how often a machine tries to reach a forbidden address. One failure may be caused by a busy machine, or a restarting
// server.
const probes = 3

// aim finds what machines without a way out must not reach.
func (g *podGroup) aim(ctx context.Context) error {
	var api *corev1.Service
	err := retry(ctx, func(ctx context.Context) (err error) {
		api, err = g.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("find an address that the machines must not reach: %w", err)
	}
	g.probe = fmt.Sprintf("timeout 3 bash -c '>/dev/tcp/%s/%d'", api.Spec.ClusterIP, api.Spec.Ports[0].Port)
	return nil
}

// reaches reports whether a machine reaches the API server.
func (g *podGroup) reaches(ctx context.Context, m *podMachine) (reaches bool, err error) {
	tries := 0
	err = poll.Until(ctx, podPoll, nil, func(ctx context.Context) (bool, error) {
		err := m.try(ctx, g.probe)
		if exit := (*ExitError)(nil); !errors.As(err, &exit) {
			reaches = err == nil
			return true, err
		}
		tries++
		return tries == probes, nil
	})
	return reaches, err
}

// isolate cuts the machines off from everything but each other.
func (g *podGroup) isolate(ctx context.Context, machines []*podMachine, labels map[string]string) error {
	if err := g.aim(ctx); err != nil {
		return err
	}
	for _, m := range machines {
		if reaches, err := g.reaches(ctx, m); err != nil {
			return err
		} else if !reaches {
			return fmt.Errorf("%s cannot reach the API server, so NetworkPolicies cannot be tested", m.name)
		}
	}
	among := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: g.id}}}}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "machines-" + g.id, Labels: labels}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: *among[0].PodSelector, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: among}}, Egress: []networkingv1.NetworkPolicyEgressRule{{To: among}},
	}}
	if err := retry(ctx, func(ctx context.Context) error {
		_, err := g.client.NetworkingV1().NetworkPolicies(g.namespace).Create(ctx, policy, metav1.CreateOptions{})
		return unlessExists(err)
	}); err != nil {
		return fmt.Errorf("isolate the machines: %w", err)
	}
	end := time.Now().Add(policyTime)
	for _, m := range machines { // a policy takes effect on one node after the other
		err := poll.Until(ctx, podPoll, nil, func(ctx context.Context) (bool, error) {
			reaches, err := g.reaches(ctx, m)
			if reaches && time.Now().After(end) {
				err = fmt.Errorf("%w: the network of this cluster does not enforce NetworkPolicies, since %s reaches the API server in spite of one; use a network that does, such as Calico or Cilium", ErrUnable, m.name)
			}
			return err == nil && !reaches, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outageTime is how long the API server may be unreachable during one request.
const outageTime = time.Minute

// retry repeats a request over an outage of the API server.
func retry(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, outageTime)
	defer cancel()
	return poll.Until(ctx, podPoll, nil, func(ctx context.Context) (bool, error) {
		err := request(ctx)
		if err != nil && passes(err) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
}

// passes reports whether the same request to the API server may succeed later.
func passes(err error) bool {
	var status apierrors.APIStatus
	return kube.Transient(err) || errors.As(err, &status) && outage.StatusPasses(int(status.Status().Code))
}

// unlessExists drops the error of an existing object: its name is new, so this program created it, and the response was lost.
func unlessExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
