package install

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/bridge"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// Upgrade configures how a node is brought to the versions of a bundle.
type Upgrade struct {
	// From is the version of Kubernetes that the cluster runs, such as 1.35.4.
	From string
	// Address is the cluster's address of this node.
	Address netip.Addr
	// Endpoint is where nodes reach the API, host:port.
	Endpoint string
	// Stop is the Kubernetes version at which an upgrade over several minor versions stops: the add-ons are upgraded with the last
	// one. "" for that of the Installer.
	Stop string
	// Leads means that this node also applies the add-ons, when all nodes have the new versions. It has to be a control plane.
	Leads bool
	// Alone means that this node is the only control plane.
	Alone bool
}

// operation returns what a run with these options does.
func (o Options) operation() lifecycle.Operation {
	switch {
	case o.Upgrade != nil:
		return lifecycle.Upgrading
	case o.Join != nil:
		return lifecycle.Joining
	}
	return lifecycle.Installing
}

// follows reports that this node is upgraded by a run that another node leads.
func (j *job) follows() bool { return j.options.Upgrade != nil && !j.options.Upgrade.Leads }

func (j *job) leads() bool { return j.options.Upgrade != nil && j.options.Upgrade.Leads }

// stopOnTheWay replaces the Installer's version of Kubernetes by a stop's.
func (j *job) stopOnTheWay() {
	if j.options.Upgrade == nil || j.options.Upgrade.Stop == "" {
		return
	}
	for n := range j.spec.AddOns {
		if j.spec.AddOns[n].Name == kubernetesCapability {
			j.spec.AddOns[n].Version = j.options.Upgrade.Stop
		}
	}
}

// KubernetesVersions are all versions of Kubernetes in the bundle.
func (c *contents) KubernetesVersions() []string { return c.archive.Versions(kubernetesCapability) }

// RunPhases runs the pending steps of some phases of an upgrade.
func (i *Install) RunPhases(ctx context.Context, observe func(lifecycle.Event), phases ...lifecycle.Phase) (ran int, err error) {
	return i.run(ctx, lifecycle.Upgrading, i.plan.In(phases...), observe)
}

// upgrade orders the steps of an upgrade. The files are planned already.
//
//   - Prepare brings files, host packages and images. Nothing that runs notices.
//   - Upgrade lets kubeadm change the control plane of the node, and the configuration of its kubelet.
//   - Kubelet replaces the kubelet and the container runtime. Pods that can run elsewhere have left the node before.
//   - Install, PostInit and Outro are those of an install, on the node that leads.
func (p *planner) upgrade() {
	k, hasCluster := kubernetes(p.addOns)
	if !hasCluster { // RunPhases finds nothing to do in such a plan
		p.first()
		return
	}
	p.images(lifecycle.Prepare)
	if p.ControlPlane() {
		p.share()
	}
	p.agent()
	for n := range p.steps { // in sequence: nothing of this phase is needed by the next one
		p.steps[n].Phase, p.steps[n].Beside, p.steps[n].After = lifecycle.Prepare, false, nil
	}
	p.made = true
	p.add(lifecycle.Step{ID: "kubernetes/upgrade", Phase: lifecycle.Upgrade, AddOn: k.name(), Title: "upgrade this node with kubeadm", Timeout: kubeadmTime,
		Inputs: lifecycle.Digest(k.info.Version)}, inCluster((*Install).upgradeCluster))
	p.approval()
	p.kubelet(k)
	if p.options.Upgrade.Leads && p.options.Upgrade.Stop == "" {
		p.labels(lifecycle.Install)
		p.login()
		p.kurlState()
		p.apply(true)
		p.remove()
	}
}

// remove adds the steps that remove add-ons which the Installer no longer has.
func (p *planner) remove() {
	for _, change := range p.Changes() {
		if change.To != "" {
			continue
		}
		p.add(lifecycle.Step{ID: change.AddOn + "/" + removeStep, Phase: lifecycle.Install, AddOn: change.AddOn, Title: "remove its objects; volumes stay",
			Timeout: 2 * shortTime, Inputs: lifecycle.Digest(change.From), Again: true}, inCluster(func(i *Install, ctx context.Context) (lifecycle.State, error) {
			if err := cluster.Remove(ctx, change.AddOn, i.Log); err != nil {
				return nil, err
			}
			return nil, files.RemoveAll(filepath.Join(i.options.Root, "kustomize", change.AddOn)) // what its hook has applied, secrets too
		}))
	}
}

// kubelet adds the steps that replace what runs the pods of this node.
func (p *planner) kubelet(k addOn) {
	if !p.Joins() {
		p.networks(lifecycle.Kubelet)
	}
	for _, a := range p.addOns {
		if !p.Joins() || a.provides(kubernetesCapability) {
			p.hook(a, lifecycle.Kubelet, preInitStep, a.name()+"_pre_init")
		}
	}
	for _, a := range p.addOns {
		if a.provides(catalog.ContainerRuntime) && a.hasHook(a.name()+"_install") {
			p.hook(a, lifecycle.Kubelet, installStep, a.name()+"_install")
			installed := &p.steps[len(p.steps)-1]
			// its configuration names the sandbox image of Kubernetes
			installed.Inputs, installed.do = lifecycle.Digest(installed.Inputs, k.sandboxImage()), settled(installed.do)
		}
	}
	if p.Joins() {
		p.eachHook(lifecycle.Kubelet, joinHookStep, "_join")
	}
	p.programs(lifecycle.Kubelet)
	p.add(lifecycle.Step{ID: node.KubeletStep, Phase: lifecycle.Kubelet, AddOn: k.name(), Title: "run kubelet " + k.info.Version, Timeout: 3 * shortTime,
		Inputs: lifecycle.Digest(k.info.Version)}, func(i *Install, ctx context.Context) (lifecycle.State, error) {
		return nil, i.bridged(ctx, func() error { return i.restartKubelet(ctx, k.info.Version) })
	})
}

// agent adds the step for the service that renews certificates, and lets another node lead an upgrade of this one.
func (p *planner) agent() {
	folder, err := metricsFolder(p.spec.Section("metrics").Options)
	if err != nil { // checkMetrics reported it
		return
	}
	unit := service.AgentWith(p.options.Root, service.AgentOptions{Metrics: folder, Mirror: isTrue(p.spec.AddOn("containerd").Options, "mirror")})
	p.add(lifecycle.Step{ID: "node/agent", Phase: lifecycle.Install, Title: "renew certificates, and take part in upgrades", Timeout: shortTime,
		Inputs: lifecycle.Digest(unit.Text), Beside: true}, func(i *Install, ctx context.Context) (lifecycle.State, error) {
		if i.follows() { // this is the agent, which a restart would kill at this step each time; it ends on its own afterwards
			return nil, unit.Install(ctx, i.Log)
		}
		return nil, unit.Start(ctx, i.Log)
	})
}

// approval adds the step after which the cluster does not approve certificates of nodes itself, as one of an earlier Sealift does. It
// comes after the snapshot for an undo: agents of an earlier Sealift do not approve.
func (p *planner) approval() {
	if !p.ControlPlane() {
		return
	}
	p.add(lifecycle.Step{ID: node.ApprovalStep, Phase: lifecycle.Upgrade, Title: "let agents approve certificates of nodes, and not the cluster itself", Timeout: shortTime,
		Inputs: lifecycle.Digest(node.ApprovalStep)}, inCluster(func(i *Install, ctx context.Context) (lifecycle.State, error) {
		return nil, cluster.LetAgentsApprove(ctx, i.Log)
	}))
}

func (i *Install) upgradeCluster(ctx context.Context) (lifecycle.State, error) {
	k, _ := kubernetes(i.addOns)
	asset, ok := i.asset(k, "kubeadm")
	if !ok {
		return nil, fmt.Errorf("kubernetes %s has no asset kubeadm for %s", k.info.Version, host.Platform)
	}
	program := filepath.Join(i.options.Root, asset)
	return nil, i.bridged(ctx, func() error { return i.kubeadm(k).Upgrade(ctx, program, k.info.Version) })
}

// bridged has a second API server answer on a control plane while do replaces the first one.
func (i *Install) bridged(ctx context.Context, do func() error) error {
	if !i.ControlPlane() {
		return do()
	}
	client, err := cluster.Client(kubeadm.AdminKubeconfig)
	if err != nil {
		return err
	}
	first := bridge.Bridge{Manifest: kubeadm.APIServerManifest, Folder: filepath.Dir(node.Binary), Client: client, Alone: i.options.Upgrade.Alone, Output: i.Log}
	return first.While(ctx, do)
}

// restartKubelet runs the new kubelet. On a control plane, it also waits for the static pods, which a kubelet of another minor version
// starts again.
func (i *Install) restartKubelet(ctx context.Context, version string) error {
	if err := cluster.RestartKubelet(ctx, i.facts.Hostname, version, i.Log); err != nil || !i.ControlPlane() {
		return err
	}
	return cluster.WaitStaticPods(ctx, i.facts.Hostname, i.Log)
}

// upgradeVariables are the variables of an upgrade for hooks (kURL §3.1, step 12), whatever an Installer says.
func (j *job) upgradeVariables() map[string]string {
	if j.options.Upgrade == nil {
		return nil
	}
	k, _ := kubernetes(j.addOns)
	from := cmp.Or(j.options.Upgrade.From, k.info.Version)
	return map[string]string{
		"CURRENT_KUBERNETES_VERSION": from, "KUBERNETES_UPGRADE": flag(catalog.CompareVersions(from, k.info.Version) < 0),
	}
}

// Replaces reports whether what pods run on gets another version or other options: Kubernetes or the container runtime.
func (j *job) Replaces() bool {
	return slices.ContainsFunc(j.Changes(), func(c Change) bool {
		return slices.ContainsFunc(j.addOns, func(a addOn) bool { return a.name() == c.AddOn && a.carries() })
	})
}

// Version is the version of Kubernetes in the bundle; "" where it has none.
func (c *contents) Version() string {
	k, _ := kubernetes(c.addOns)
	return k.info.Version
}

// Digest identifies the bundle.
func (c *contents) Digest() string { return c.archive.Digest }

// From is the cluster's version of Kubernetes before the upgrade; "" for an install.
func (j *job) From() string {
	if j.options.Upgrade == nil {
		return ""
	}
	return j.options.Upgrade.From
}

// UpgradeID identifies an upgrade: the same bundle and Installer are the same upgrade.
func (c *contents) UpgradeID() (string, error) {
	text, err := c.spec.Canonical()
	return lifecycle.Digest(c.archive.Digest, string(text))[:16], err
}

// WholeUpgrade identifies an upgrade with all its stops.
func (c *contents) WholeUpgrade() string { return c.upgrade }

// Binary is the sealift that nodes get.
func (j *job) Binary() string { return j.options.Binary }

// Change is an upgrade's change of one add-on.
type Change struct {
	AddOn string `json:"addOn"`
	From  string `json:"from,omitempty"` // the version that runs; "" for an add-on that is new
	To    string `json:"to,omitempty"`   // "" for an add-on that the Installer no longer has
	// Options means that the Installer's options of it differ from before.
	Options bool `json:"options,omitempty"`
	// Adopted means that another installer installed it, and that this upgrade replaces its files.
	Adopted bool `json:"adopted,omitempty"`
}

// String says it in words.
func (c Change) String() string {
	switch {
	case c.From == "":
		return fmt.Sprintf("%s %s is new", c.AddOn, c.To)
	case c.To == "":
		return fmt.Sprintf("%s %s is no longer in the Installer", c.AddOn, c.From)
	case c.From != c.To:
		return fmt.Sprintf("%s %s -> %s", c.AddOn, c.From, c.To)
	case c.Adopted:
		return fmt.Sprintf("%s %s of another installer is replaced by that of the bundle", c.AddOn, c.From)
	}
	return fmt.Sprintf("%s %s gets other options", c.AddOn, c.From)
}

// Changes compares the bundle with what runs on this node.
func (j *job) Changes() (changes []Change) {
	runs := j.runningAddOns()
	var names []string
	for _, a := range j.addOns {
		names = append(names, a.name())
		has, there := runs[a.name()]
		other := has.options != "" && has.options != a.options
		if !there || has.version != a.info.Version || other || has.adopted {
			changes = append(changes, Change{AddOn: a.name(), From: has.version, To: a.info.Version, Options: there && other, Adopted: has.adopted})
		}
	}
	for name, has := range runs {
		if !slices.Contains(names, name) {
			changes = append(changes, Change{AddOn: name, From: has.version})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.AddOn, b.AddOn) })
	return changes
}

// Brought is the content of a bundle that the bundle before had not.
type Brought struct {
	Files, Images uint64 // bytes: of files below the install root, and of images for containerd
	Count         uint64 // number of entries
}

// Bytes is the most that a node fetches.
func (b Brought) Bytes() uint64 { return b.Files + b.Images }

// Brings counts the content that the bundle has and the bundle before had not, each content once. Without a bundle before, that is
// everything.
func (j *job) Brings() (b Brought) {
	seen := map[string]bool{}
	if before, err := bundle.Open(j.options.Root); err == nil {
		defer before.Close()
		for _, e := range before.Index.Entries {
			seen[e.SHA256] = true
		}
	}
	for _, e := range j.archive.Index.Entries {
		if seen[e.SHA256] || bundle.OfPatches(e) {
			continue
		}
		seen[e.SHA256] = true
		b.Count++
		if strings.Contains(e.Path, "/images/") {
			b.Images += uint64(e.Size)
		} else {
			b.Files += uint64(e.Size)
		}
	}
	return b
}
