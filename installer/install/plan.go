package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/plaintext"
)

// hookSilence is how long a hook may print nothing, unless its add-on's addon.yaml says otherwise.
const hookSilence = 30 * time.Minute

// The timeouts of steps: several times what a slow disk needs.
const (
	shortTime = 5 * time.Minute
	hookTime  = catalog.MaxHookTime
	kubeTime  = 20 * time.Minute
	// kubeadm ends on its own
	kubeadmTime = cluster.MaxKubeadmTime
	copyTime    = time.Hour
)

// What the steps of an add-on are called, behind its name.
const (
	filesStep    = "files"
	imagesStep   = "images"
	preInitStep  = "pre-init"
	hostStep     = "host"
	installStep  = "install"
	joinHookStep = "join"
	removeStep   = "remove"
	packagesStep = "node/packages" // of the host, not of an add-on
)

// The steps that make the cluster and a node of one. Their inputs never change: an existing cluster is not created again,
// whatever bundle comes later.
const (
	initInputs   = "once"
	versionState = "SEALIFT_KUBERNETES_INITIAL_VERSION"
)

// hostHook is the suffix of the hook that brings the programs of Kubernetes to a host. It comes after the pre-init hooks of all add-ons
// and the container runtime, and on a joining host after the join hooks (kURL §3.1 and §3.2).
const hostHook = "_host"

// hookSuffixes follow the name of the add-on in the names of hooks.
func hookSuffixes() []string {
	return []string{"", "_pre_init", "_install", "_join", "_post_init", "_outro"}
}

// action is the function of a step, when the job is carried out.
type action func(*Install, context.Context) (lifecycle.State, error)

// step is a planned step.
type step struct {
	lifecycle.Step
	do       action
	restores bool // its result is restored in the shell of the hooks
}

// planner collects steps.
type planner struct {
	*job
	made    bool               // the cluster: what follows asks its API
	running map[string]running // add-ons whose steps on the host do not change
	steps   []step
	early   []string // concurrent steps that everything behind the files waits for
}

// planned lists every step. The host that makes the cluster follows kURL's install (kURL §3.1): files and packages, the
// pre-init hooks of all add-ons, the container runtime, images, kubeadm, then the hooks of the add-ons that run in the
// cluster. A host that joins follows kURL's join (kURL §3.2): of the add-ons' hooks only those for joining.
func (j *job) planned() []step {
	p := &planner{job: j, running: j.staying()}
	p.files()
	switch {
	case j.options.Upgrade != nil:
		p.upgrade()
	case j.Joins():
		p.join()
	default:
		p.first()
	}
	return p.steps
}

// makePlan converts the planned steps to runnable ones.
func (i *Install) makePlan() (plan lifecycle.Plan) {
	for _, s := range i.planned() {
		s.Run = func(ctx context.Context) (lifecycle.State, error) { return s.do(i, ctx) }
		if s.restores {
			s.Restore = i.hooks.restore
		}
		plan = append(plan, s.Step)
	}
	return plan
}

// first adds the steps of the host that makes the cluster.
func (p *planner) first() {
	k, hasCluster := kubernetes(p.addOns)
	if hasCluster {
		p.networks(lifecycle.PreInit)
		p.networkSettings()
		p.balancer()
	}
	p.eachHook(lifecycle.PreInit, preInitStep, "_pre_init")
	p.runtime(lifecycle.Install)
	p.programs(lifecycle.Install)
	if hasCluster {
		p.seedVolumes()
		p.addRestored(lifecycle.Step{ID: node.InitStep, Phase: lifecycle.Install, AddOn: kubernetesCapability, Title: "make the cluster with kubeadm",
			Timeout: kubeadmTime, Inputs: initInputs, After: p.runtimeImages(), AfterPart: p.parallelSteps(k.name())}, (*Install).initCluster)
		p.made = true
		p.settle()
		p.labels(lifecycle.Install)
		p.login()
		p.share()
		p.agent()
		p.snapshots(lifecycle.Install)
		p.kurlState()
	}
	p.apply(hasCluster)
}

// apply adds the steps of the add-ons that run in the cluster.
func (p *planner) apply(hasCluster bool) {
	for _, a := range p.addOns {
		if !a.provides(catalog.ContainerRuntime) {
			p.hook(a, lifecycle.Install, installStep, a.name())
		}
	}
	if hasCluster {
		p.kurlApplied()
		p.add(lifecycle.Step{ID: node.ReadyStep, Phase: lifecycle.Install, Title: "wait until nodes and add-ons are ready", Timeout: 2 * shortTime,
			Inputs: p.everything(), After: p.parallelSteps("")}, inCluster((*Install).waitReady))
	}
	p.eachHook(lifecycle.PostInit, "post-init", "_post_init")
	p.eachHook(lifecycle.Outro, "outro", "_outro")
}

// join adds the steps of a host that becomes a node of a cluster.
func (p *planner) join() {
	p.networkSettings()
	p.balancer()
	for _, a := range p.addOns {
		if a.provides(kubernetesCapability) {
			p.hook(a, lifecycle.PreInit, preInitStep, a.name()+"_pre_init")
		}
	}
	p.runtime(lifecycle.Join)
	if registry := p.options.Join.Cluster.Registry; registry != "" {
		p.add(lifecycle.Step{ID: "node/registry", Phase: lifecycle.Join, Title: "trust the registry in the cluster", Timeout: shortTime, Inputs: lifecycle.Digest(registry)},
			callHook("sealift_trust_registry"))
	}
	p.eachHook(lifecycle.Join, joinHookStep, "_join")
	p.programs(lifecycle.Join)
	p.add(lifecycle.Step{ID: node.JoinStep, Phase: lifecycle.Join, AddOn: kubernetesCapability, Title: "join the cluster with kubeadm",
		Timeout: kubeadmTime, Inputs: initInputs}, (*Install).joinCluster)
	if p.options.Join.ControlPlane {
		p.share()
		p.snapshots(lifecycle.Join)
	}
	p.agent()
	p.add(lifecycle.Step{ID: node.ReadyStep, Phase: lifecycle.Join, Title: "wait until this node is Ready", Timeout: shortTime,
		Inputs: p.everything(), After: p.parallelSteps("")}, (*Install).waitNode)
	p.labels(lifecycle.Join)
}

// runtime adds the container runtime and the images in it.
func (p *planner) runtime(phase lifecycle.Phase) {
	for _, a := range p.addOns {
		if a.provides(catalog.ContainerRuntime) && a.hasHook(a.name()+"_install") {
			p.hook(a, phase, installStep, a.name()+"_install")
			installed := &p.steps[len(p.steps)-1]
			installed.do = settled(installed.do)
		}
	}
	p.images(phase)
}

// programs adds the hook that brings the programs of Kubernetes.
func (p *planner) programs(phase lifecycle.Phase) {
	if k, ok := kubernetes(p.addOns); ok {
		p.hook(k, phase, hostStep, k.name()+hostHook)
	}
}

// images adds the steps that load images, in sequence: those of the container runtime and of Kubernetes first. On the host that creates the
// cluster they are loaded beside the other steps, because nothing uses an add-on's images before its hook, or kubeadm: unless they would
// keep the API server of a slow host from starting. kubeadm begins when all images of Kubernetes but that of the DNS server are loaded: a kubelet
// that lacks an image asks the registry, which may be reachable, and have another one.
func (p *planner) images(phase lifecycle.Phase) {
	var before []string
	for _, first := range []bool{true, false} {
		for _, a := range p.addOns {
			count := len(p.nodeImages(a).Images)
			if count == 0 || first != a.carries() {
				continue
			}
			step := p.stepOf(a, phase, imagesStep, "load "+plaintext.Count(count, "image")+" into containerd", copyTime)
			step.Inputs = p.imageInputs(a, step.ID)
			if step.Beside = !p.Joins() && !p.cramped; step.Beside {
				step.After = before
				before = []string{step.ID}
			}
			p.add(step, func(i *Install, ctx context.Context) (lifecycle.State, error) { return i.loadImages(a)(ctx) })
		}
	}
}

// runtimeImages are the concurrent steps that load the images of the container runtime.
func (p *planner) runtimeImages() (steps []string) {
	for _, a := range p.addOns {
		if a.provides(catalog.ContainerRuntime) {
			steps = append(steps, p.parallelSteps(a.name())...)
		}
	}
	return steps
}

func (p *planner) add(s lifecycle.Step, do action) { p.append(step{Step: s, do: do}) }

// addRestored adds a step whose state is put back into the shell of the hooks.
func (p *planner) addRestored(s lifecycle.Step, do action) {
	p.append(step{Step: s, do: do, restores: true})
}

// append adds a step. The first one in sequence waits for the early ones, and with it all behind it.
func (p *planner) append(s step) {
	s.After = slices.Concat(p.early, s.After)
	if !s.Beside {
		p.early = nil
	}
	p.steps = append(p.steps, s)
}

// networks adds the step that chooses the networks of the cluster.
func (p *planner) networks(phase lifecycle.Phase) {
	p.addRestored(lifecycle.Step{ID: node.NetworkStep, Phase: phase, Title: "choose pod and service networks", Timeout: shortTime,
		Inputs: p.networkInputs()}, (*Install).chooseNetworks)
}

// stepOf makes a step that depends on nothing but its package and the host's kind.
func (p *planner) stepOf(a addOn, phase lifecycle.Phase, what, title string, timeout time.Duration) lifecycle.Step {
	return lifecycle.Step{ID: a.name() + "/" + what, Phase: phase, AddOn: a.name(), Title: title, Timeout: timeout,
		Inputs: lifecycle.Digest(a.info.Index, p.facts.Target())}
}

// parallelSteps returns the steps that may be unfinished when the next one is reached: those of one add-on, or all.
func (p *planner) parallelSteps(addOn string) (steps []string) {
	for _, step := range p.steps {
		if step.Beside && (addOn == "" || step.AddOn == addOn) {
			steps = append(steps, step.ID)
		}
	}
	return steps
}

// hook adds the call of a function, if the add-on has it. It depends on the package and on the variables that it reads, and the
// add-on's images are loaded.
func (p *planner) hook(a addOn, phase lifecycle.Phase, what, function string) {
	if !a.hasHook(function) {
		return
	}
	do := callHook(function)
	if phase == lifecycle.Outro {
		do = func(i *Install, ctx context.Context) (lifecycle.State, error) {
			i.said.outro.Store(true)
			return i.hooks.call(ctx, function)
		}
	}
	if p.made {
		do = inCluster(do)
	}
	step := lifecycle.Step{ID: a.name() + "/" + what, Phase: phase, AddOn: a.name(), Title: "run its hook " + function, Timeout: hookTime,
		Inputs: lifecycle.Digest(a.info.Index, a.reads(p.vars)), Options: a.options}
	if what != hostStep { // programs come beside the images
		step.After = p.parallelSteps(a.name())
	}
	if a.provides(catalog.ModuleOperator) { // it starts the pods of modules
		for _, m := range p.modules() {
			step.After = append(step.After, p.parallelSteps(m.name())...)
		}
	}
	if what == preInitStep || what == hostStep || what == joinHookStep || a.provides(catalog.ContainerRuntime) && what == installStep {
		p.keep(a, &step)
	}
	p.addRestored(step, do)
}

// callHook calls a function in the shell of the hooks.
func callHook(function string) action {
	return func(i *Install, ctx context.Context) (lifecycle.State, error) { return i.hooks.call(ctx, function) }
}

// eachHook adds one hook of every add-on that has it.
func (p *planner) eachHook(phase lifecycle.Phase, what, suffix string) {
	for _, a := range p.addOns {
		p.hook(a, phase, what, a.name()+suffix)
	}
}

// everything is the inputs of steps that depend on all add-ons.
func (p *planner) everything() string {
	var indexes []string
	for _, a := range p.addOns {
		indexes = append(indexes, a.info.Index)
	}
	slices.Sort(indexes)
	return lifecycle.Digest(indexes, p.vars)
}

// files adds the steps that bring the sealift binary, the add-ons' files and the host packages to the node. Host packages of a
// local bundle are installed while the files are extracted. With a remote one they come after the files, so that they are fetched once.
func (p *planner) files() {
	beside := p.archive.Local() && p.options.Upgrade == nil
	if beside {
		p.packages(true)
	}
	p.add(lifecycle.Step{ID: "node/sealift", Phase: lifecycle.PreInit, Title: "keep sealift at " + node.Binary, Timeout: shortTime,
		Inputs: lifecycle.Digest(p.sealift)}, (*Install).keepBinary)
	for _, a := range p.addOns {
		do := func(i *Install, ctx context.Context) (lifecycle.State, error) { return i.extract(a)(ctx) }
		if a.provides(kubernetesCapability) {
			do = func(i *Install, ctx context.Context) (lifecycle.State, error) { return i.extractKubernetes(a)(ctx) }
		}
		p.add(p.stepOf(a, lifecycle.PreInit, filesStep, "extract its files", copyTime), do)
	}
	if beside {
		p.early = p.parallelSteps("")
	} else {
		p.packages(false)
	}
}

// sealiftDigest is the digest of the running sealift.
func sealiftDigest(name string) (string, error) {
	file, err := bundle.DiskFile(bundle.BinaryName, 0o755, name)
	if err != nil {
		return "", fmt.Errorf("read the running sealift: %w", err)
	}
	return file.SHA256, nil
}

// packages adds the step that installs host packages, beside those that follow or before them.
func (p *planner) packages(beside bool) {
	names, inputs := p.packagesToInstall()
	if len(names) == 0 {
		return
	}
	p.add(lifecycle.Step{ID: packagesStep, Phase: lifecycle.PreInit, Title: "install " + plaintext.Count(len(names), "host package") + " with apt-get",
		Timeout: kubeTime, Inputs: inputs, Beside: beside}, func(i *Install, ctx context.Context) (lifecycle.State, error) { return i.installPackages(names)(ctx) })
}

// packagesToInstall returns the host packages of the add-ons, and the inputs of their step. On a node of a cluster, running add-ons are
// not changed.
func (j *job) packagesToInstall() (names []string, inputs string) {
	if j.settings.skipPackages {
		return nil, ""
	}
	names = hostPackages(j.addOns, j.facts.Target())
	if rec, finished := j.past.Last(packagesStep); finished {
		more := hostPackages(j.arriving(), j.facts.Target())
		if len(more) == 0 {
			return names, rec.Inputs
		}
		names = more
	}
	return names, lifecycle.Digest(names, j.hostRepositories())
}
