package installer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/lifecycle"
)

// How long a step may take before it is stopped: several times what a slow disk needs.
const (
	shortTime = 5 * time.Minute
	hookTime  = 20 * time.Minute
	copyTime  = time.Hour
)

// The step that makes the cluster. Its inputs never change: a cluster that was made is not made again, whatever bundle
// comes later.
const (
	initStep     = "kubernetes/init"
	initInputs   = "once"
	versionState = "SEALIFT_KUBERNETES_INITIAL_VERSION"
)

// planner collects steps.
type planner struct {
	*Install
	steps lifecycle.Plan
}

// makePlan lists every step in the order of kURL's install (kURL §3.1): files and packages, the pre-init hooks of all
// add-ons, the container runtime, images, kubeadm, then the hooks of the add-ons that run in the cluster.
func (i *Install) makePlan() (lifecycle.Plan, error) {
	p := &planner{Install: i}
	if err := p.files(); err != nil {
		return nil, err
	}
	_, hasCluster := kubernetes(i.addOns)
	if hasCluster {
		p.add(lifecycle.Step{ID: networkStep, Phase: lifecycle.PreInit, Title: "choose pod and service networks", Timeout: shortTime,
			Inputs: i.networkInputs(), Run: i.chooseNetworks, Restore: i.hooks.restore})
		p.surroundings()
	}
	for _, a := range i.addOns {
		p.hook(a, lifecycle.PreInit, "pre-init", a.name()+"_pre_init")
	}
	for _, a := range i.addOns {
		if a.provides(catalog.ContainerRuntime) {
			p.hook(a, lifecycle.Install, "install", a.name()+"_install")
		}
	}
	for _, a := range i.addOns {
		if len(a.layout.Images) > 0 {
			p.addFor(a, lifecycle.Install, "images", "load "+count(len(a.layout.Images), "image")+" into containerd", copyTime, i.loadImages(a))
		}
	}
	if hasCluster {
		p.add(lifecycle.Step{ID: initStep, Phase: lifecycle.Install, AddOn: kubernetesCapability, Title: "make the cluster with kubeadm",
			Timeout: hookTime, Inputs: initInputs, Run: i.initCluster, Restore: i.hooks.restore})
	}
	for _, a := range i.addOns {
		if !a.provides(catalog.ContainerRuntime) {
			p.hook(a, lifecycle.Install, "install", a.name())
		}
	}
	if hasCluster {
		p.add(lifecycle.Step{ID: "cluster/ready", Phase: lifecycle.Install, Title: "wait until the nodes are Ready", Timeout: shortTime,
			Inputs: p.everything(), Run: i.waitReady})
	}
	for _, a := range i.addOns {
		p.hook(a, lifecycle.PostInit, "post-init", a.name()+"_post_init")
	}
	for _, a := range i.addOns {
		p.hook(a, lifecycle.Outro, "outro", a.name()+"_outro")
	}
	return p.steps, nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (p *planner) add(s lifecycle.Step) { p.steps = append(p.steps, s) }

// addFor adds a step that depends on nothing but its package and the host's kind.
func (p *planner) addFor(a addOn, phase lifecycle.Phase, what, title string, timeout time.Duration, run func(context.Context) (lifecycle.State, error)) {
	p.add(lifecycle.Step{ID: a.name() + "/" + what, Phase: phase, AddOn: a.name(), Title: title, Timeout: timeout,
		Inputs: lifecycle.Digest(a.info.Index, p.facts.Target()), Run: run})
}

// hook adds the call of a function, if the add-on has it. It depends on the package and on the variables that it reads.
func (p *planner) hook(a addOn, phase lifecycle.Phase, what, function string) {
	if !a.hasHook(function) {
		return
	}
	p.add(lifecycle.Step{ID: a.name() + "/" + what, Phase: phase, AddOn: a.name(), Title: "run its hook " + function, Timeout: hookTime,
		Inputs:  lifecycle.Digest(a.info.Index, a.reads(p.hooks.variables)),
		Run:     func(ctx context.Context) (lifecycle.State, error) { return p.hooks.call(ctx, function) },
		Restore: p.hooks.restore})
}

// everything is the inputs of steps that depend on all add-ons.
func (p *planner) everything() string {
	var indexes []string
	for _, a := range p.addOns {
		indexes = append(indexes, a.info.Index)
	}
	slices.Sort(indexes)
	return lifecycle.Digest(indexes, p.hooks.variables)
}

// files adds the steps that bring the sealift binary, the add-ons' files and the host packages to the node.
func (p *planner) files() error {
	binary, err := bundle.DiskFile(bundle.BinaryName, 0o755, p.options.Binary)
	if err != nil {
		return fmt.Errorf("read the running sealift: %w", err)
	}
	p.add(lifecycle.Step{ID: "node/sealift", Phase: lifecycle.PreInit, Title: "keep sealift at " + installedBinary, Timeout: shortTime,
		Inputs: lifecycle.Digest(binary.SHA256), Run: p.keepBinary})
	for _, a := range p.addOns {
		p.addFor(a, lifecycle.PreInit, "files", "extract its files", copyTime, p.extract(a))
	}
	if names := hostPackages(p.addOns, p.facts.Target()); len(names) > 0 {
		p.add(lifecycle.Step{ID: "node/packages", Phase: lifecycle.PreInit, Title: "install " + count(len(names), "host package") + " with apt-get",
			Timeout: hookTime, Inputs: lifecycle.Digest(names, p.hostRepositories()), Run: p.installPackages(names)})
	}
	return nil
}
