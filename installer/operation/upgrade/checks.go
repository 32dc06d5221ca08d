package upgrade

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/preflight"
)

// maxClockSkew is how far the clock of a node may differ from this one's: certificates and leases are compared across nodes.
const maxClockSkew = 30 * time.Second

// Checks check the cluster as a whole, before anything is changed. They change nothing, except that nodes are asked for their
// state if ask is true.
func (c *Cluster) Checks(in *install.Install, ask bool) []preflight.Check {
	ask = ask && c.begun == nil // a busy agent answers late
	return []preflight.Check{
		{Name: "versions", Probe: func(_ context.Context, r *preflight.Reporter) { c.versions(in, r) }},
		{Name: "nodes", Probe: c.ready},
		{Name: "pods", Probe: c.stuckPods},
		{Name: "agents", Probe: func(ctx context.Context, r *preflight.Reporter) { c.hosts(ctx, ask, in, r) }},
		{Name: "etcd", Probe: c.etcd},
		{Name: "disruption budgets", Probe: c.budgets},
		{Name: "webhooks", Probe: c.webhooks},
		{Name: "removed APIs", Probe: func(ctx context.Context, r *preflight.Reporter) { c.removed(ctx, in, r) }},
		{Name: "SELinux", Probe: func(ctx context.Context, r *preflight.Reporter) { c.labels(ctx, in, r) }},
		{Name: "flags and feature gates", Probe: func(ctx context.Context, r *preflight.Reporter) { c.flags(ctx, in, r) }},
	}
}

// versions requires steps that kubeadm supports: to the same minor version, or to the next one.
func (c *Cluster) versions(in *install.Install, r *preflight.Reporter) {
	to := in.Version()
	from := in.From()
	stops, whole := Stops(in)
	switch apart := minor(to) - minor(from); {
	case to == "":
		r.Refusef("make the bundle with a Kubernetes", "the bundle has no Kubernetes")
	case catalog.CompareVersions(to, from) < 0 && apart != 0 || apart < 0:
		r.Refusef("use a bundle with the running version, or a newer one", "the cluster runs Kubernetes %s, the bundle has %s; a cluster does not go back", from, to)
	case !whole:
		r.Refusef("make the bundle with 'sealift bundle --upgrade-from "+from+"', or upgrade to each minor version with a bundle of its own",
			"the cluster runs Kubernetes %s, the bundle has %s and not what is between; kubeadm goes from one minor version to the next", from, to)
	default:
		r.Passf("Kubernetes %s", strings.Join(slices.Concat([]string{from}, stops, []string{to}), " to "))
	}
}

// minor returns the minor version, or -1 if there is none.
func minor(version string) int {
	_, minor := catalog.MajorMinor(version)
	return minor
}

func (c *Cluster) ready(_ context.Context, r *preflight.Reporter) {
	var bad []string
	for _, n := range c.nodes {
		if !n.Ready {
			bad = append(bad, fmt.Sprintf("%s (%s)", n.Name, n.Why))
		}
	}
	if len(bad) > 0 && c.begun != nil { // the upgrade may have been in the middle of one
		r.Warnf("see 'journalctl --unit kubelet' there if they stay so", "not Ready: %s", strings.Join(bad, ", "))
		return
	}
	if len(bad) > 0 {
		r.Refusef("repair them, or remove those whose hosts are lost with 'sealift node remove'", "not Ready: %s", strings.Join(bad, ", "))
		return
	}
	r.Passf("%d are Ready", len(c.nodes))
}

// agents reads the nodes' last reports about themselves.
func (c *Cluster) agents(ctx context.Context) (map[string]intent.Host, error) {
	all, err := c.view.Annotations(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]intent.Host{}
	for name, annotations := range all {
		h, err := intent.ParseHost(annotations[intent.AgentAnnotation])
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
		found[name] = h
	}
	return found, nil
}

// hosts requires every other node to have an agent, space for the bundle, and a correct clock.
func (c *Cluster) hosts(ctx context.Context, ask bool, in *install.Install, r *preflight.Reporter) {
	read := c.remember
	if ask {
		read = c.look
	}
	found, err := read(ctx)
	if err != nil {
		r.Refusef("run the command again", "the nodes cannot be asked: %v", err)
		return
	}
	brought := in.Brings()
	good := true
	for _, n := range c.nodes {
		if n.Name == c.own {
			continue
		}
		problem, hint := unfit(found[n.Name], brought)
		if other := otherPlatform(n); other != "" && in.Sealift(other) == "" {
			problem, hint = "is "+other+", and the bundle has no sealift for it", "make the bundle with --platform "+host.Platform+","+other
		}
		if problem != "" {
			good = false
			r.Refusef(hint, "node %s: %s", n.Name, problem)
		}
	}
	if good {
		r.Passf("%d other nodes take part, with room for %s", len(c.nodes)-1, plaintext.Bytes(brought.Bytes()))
	}
}

// dated is a node's report about itself, and when it was written by the clock of this host: after asked, and before answered.
type dated struct {
	intent.Host

	asked, answered time.Time
}

// unfit returns why a node cannot take part in an upgrade, and the remedy; "" if it can. The install root and containerd may
// share a file system, so containerd's must have room for everything.
func unfit(h dated, brought install.Brought) (problem, hint string) {
	switch off := max(h.Time.Sub(h.answered), h.asked.Sub(h.Time)); {
	case h.Time.IsZero():
		return "no agent there takes part in upgrades", "copy " + node.Binary + " of this host there, and run 'sealift node agent --start' as root, or 'sealift adopt' if kURL made the node"
	case h.Images.Bytes < brought.Bytes():
		return fmt.Sprintf("%s are left for images and files, the bundle brings up to %s", plaintext.Bytes(h.Images.Bytes), plaintext.Bytes(brought.Bytes())), "make room there"
	case h.Free.Bytes < brought.Files:
		return fmt.Sprintf("%s are left below the install root, the bundle brings files of up to %s", plaintext.Bytes(h.Free.Bytes), plaintext.Bytes(brought.Files)), "make room there"
	case h.Free.Inodes > 0 && h.Free.Inodes < brought.Count:
		return fmt.Sprintf("%d inodes are left, the bundle brings %d files", h.Free.Inodes, brought.Count), "make room there"
	case off > maxClockSkew:
		return fmt.Sprintf("its clock is %s from that of this one", off.Round(time.Second)), "set the clocks, for instance with timedatectl set-time"
	}
	return "", ""
}

// remember returns the nodes' last reports. An old report can prove only that a clock is ahead.
func (c *Cluster) remember(ctx context.Context) (map[string]dated, error) {
	last, err := c.agents(ctx)
	found := map[string]dated{}
	for name, h := range last {
		found[name] = dated{Host: h, answered: time.Now()}
	}
	return found, err
}

// look asks every other node for its current state.
func (c *Cluster) look(ctx context.Context) (map[string]dated, error) {
	before, err := c.agents(ctx)
	if err != nil {
		return nil, err
	}
	delete(before, c.own)
	maps.DeleteFunc(before, func(_ string, h intent.Host) bool { return h.Time.IsZero() })
	id := "look-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	return lookAtAll(ctx, slices.Collect(maps.Keys(before)), func(ctx context.Context, name string) (intent.Host, error) {
		in := intent.Intent{Upgrade: id, Operation: intent.Look, Index: strings.Repeat("0", 64), Sealift: strings.Repeat("0", 64), Server: "127.0.0.1:1"}
		if err := c.askToLook(ctx, name, in); err != nil {
			return intent.Host{}, err
		}
		annotations, err := c.view.AnnotationsOf(ctx, name)
		if err != nil {
			return intent.Host{}, err
		}
		return intent.ParseHost(annotations[intent.AgentAnnotation])
	})
}

// maxLooks is how many nodes are asked at a time.
const maxLooks = 8

// lookAtAll asks nodes, and notes the time around each answer: in a large cluster, the first answer is old when the last one comes.
func lookAtAll(ctx context.Context, names []string, ask func(ctx context.Context, name string) (intent.Host, error)) (map[string]dated, error) {
	var lock sync.Mutex
	found := map[string]dated{}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(maxLooks)
	for _, name := range names {
		all.Go(func() error {
			asked := time.Now()
			h, err := ask(ctx, name)
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			lock.Lock()
			defer lock.Unlock()
			found[name] = dated{h, asked, time.Now()}
			return nil
		})
	}
	return found, all.Wait()
}

// lookBound is how long a node may take to report its state.
const lookBound = time.Minute

func (c *Cluster) askToLook(ctx context.Context, name string, in intent.Intent) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(lookBound))
	defer cancel()
	if err := leader.Of(c.view).Ask(ctx, func(string) {}, name, in); err != nil {
		return fmt.Errorf("its agent does not answer: %w; see 'systemctl status sealift-agent' there", err)
	}
	return nil
}

func (c *Cluster) etcd(ctx context.Context, r *preflight.Reporter) {
	silent, all, err := cluster.EtcdHealth(ctx)
	switch {
	case err != nil:
		r.Refusef("see 'sealift status'", "%v", err)
	case len(silent) > 0:
		r.Refusef("repair them first: an upgrade restarts the members one by one", "members that do not answer: %s", strings.Join(silent, ", "))
	case all == 0:
		r.Passf("is not on the nodes of this cluster")
	default:
		r.Passf("%d of %d members answer", all, all)
	}
}

// budgets finds the PodDisruptionBudgets under which no drain would ever end.
func (c *Cluster) budgets(ctx context.Context, r *preflight.Reporter) {
	if len(c.nodes) == 1 {
		r.Passf("no pod has to leave the only node")
		return
	}
	list, err := c.admin.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Refusef("run the command again", "%v", err)
		return
	}
	var never []string
	for i := range list.Items {
		if forbidsAll(&list.Items[i]) {
			never = append(never, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
	}
	if len(never) > 0 {
		r.Refusef("raise their maxUnavailable, or the number of replicas, during the upgrade", "these allow no pod to leave its node, ever: %s", strings.Join(never, ", "))
		return
	}
	r.Passf("%d; all let pods leave", len(list.Items))
}

// forbidsAll reports whether a budget allows no disruption although all its pods are healthy.
func forbidsAll(b *policyv1.PodDisruptionBudget) bool {
	s := b.Status
	return s.ExpectedPods > 0 && s.DisruptionsAllowed == 0 && s.DesiredHealthy >= s.ExpectedPods
}

// webhooks finds unreachable ones without which the API server refuses requests.
func (c *Cluster) webhooks(ctx context.Context, r *preflight.Reporter) {
	hooks := c.admin.Client.AdmissionregistrationV1()
	validating, err := hooks.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Refusef("run the command again", "%v", err)
		return
	}
	mutating, err := hooks.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Refusef("run the command again", "%v", err)
		return
	}
	services := map[[2]string]string{}
	note := func(name string, policy *admissionv1.FailurePolicyType, client admissionv1.WebhookClientConfig) {
		if client.Service != nil && (policy == nil || *policy == admissionv1.Fail) {
			services[[2]string{client.Service.Namespace, client.Service.Name}] = name
		}
	}
	for _, config := range validating.Items {
		for _, w := range config.Webhooks {
			note(config.Name, w.FailurePolicy, w.ClientConfig)
		}
	}
	for _, config := range mutating.Items {
		for _, w := range config.Webhooks {
			note(config.Name, w.FailurePolicy, w.ClientConfig)
		}
	}
	var dead []string
	for service, name := range services {
		answered, err := c.answered(ctx, service[0], service[1])
		if err != nil {
			r.Refusef("run the command again", "%v", err)
			return
		}
		if !answered {
			dead = append(dead, fmt.Sprintf("%s (Service %s/%s)", name, service[0], service[1]))
		}
	}
	if len(dead) > 0 {
		slices.Sort(dead)
		r.Refusef("repair what answers them, or remove the configurations", "nobody answers these webhooks, and the API refuses what they are asked about: %s", strings.Join(dead, ", "))
		return
	}
	r.Passf("%d Services, all with endpoints", len(services))
}

// answered reports whether a Service has an endpoint that is ready.
func (c *Cluster) answered(ctx context.Context, namespace, name string) (bool, error) {
	slicesOf, err := c.admin.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
	if err != nil {
		return false, err
	}
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true, nil
			}
		}
	}
	return false, nil
}

// deprecated is a line of the API server's metrics: an API that was requested since its start, and the minor version that no
// longer has it.
var deprecated = regexp.MustCompile(`(?m)^apiserver_requested_deprecated_apis\{([^}]*)\} [1-9]`)

// removed finds APIs in use that the new version does not have.
func (c *Cluster) removed(ctx context.Context, in *install.Install, r *preflight.Reporter) {
	text, err := c.admin.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		r.Warnf("look for them in the audit log", "the API server does not tell which old APIs are in use: %v", err)
		return
	}
	used := removedAPIs(string(text), minor(in.Version()))
	if len(used) > 0 {
		r.Refusef("change their clients to newer versions, and restart the API servers to clear these counters", "Kubernetes %s does not have these APIs, which are in use: %s", in.Version(), strings.Join(used, ", "))
		return
	}
	r.Passf("none in use since this API server started")
}

// removedAPIs names the APIs in metrics that a minor version does not have, as resource.version.group.
func removedAPIs(metrics string, minorVersion int) (used []string) {
	for _, line := range deprecated.FindAllStringSubmatch(metrics, -1) {
		labels := map[string]string{}
		for label := range strings.SplitSeq(line[1], ",") {
			name, value, _ := strings.Cut(label, "=")
			labels[name] = strings.Trim(value, `"`)
		}
		if gone := minor(labels["removed_release"]); gone >= 0 && gone <= minorVersion {
			api := strings.TrimSuffix(labels["resource"]+"."+labels["version"]+"."+labels["group"], ".")
			if !slices.Contains(used, api) {
				used = append(used, api)
			}
		}
	}
	slices.Sort(used)
	return used
}
