// Package install turns a bundle and a host into a running cluster: it reads both, makes a plan of steps, and runs the
// steps that the host's journal does not have as finished.
//
// The package knows the order of things. The details are in packages below: lifecycle, hook, host, runtime, cluster.
//
// Comments cite rules of kURL by section (kURL §3.1): docs/reference/kurl.md has them.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/retention"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// maxSpecSize bounds an Installer.
const maxSpecSize = 1 << 20

// errResetOpen means that a reset of this node is unfinished.
var errResetOpen = errors.New("a reset of this node is unfinished; run 'sealift reset' first")

// Options select what is installed where. The zero value of a folder is its default.
type Options struct {
	Bundle string // an archive, or the folder into which it was unpacked
	// Open opens the bundle, instead of Bundle, which is then only its name. Nil means to open that file or folder.
	Open func() (*bundle.Archive, error)
	// Adjust applies the patch and the flags of the command line to the Installer of the bundle; nil changes nothing.
	Adjust func(*spec.Installer) (*spec.Installer, error)
	// Remote means that the bundle is far away. It is not read as a whole before the install: each file is verified when it is
	// used, and content that the host has is not fetched.
	Remote bool
	// Online means that the bundle comes from a server that serves many hosts. Add-ons see an air gap in other cases, and where
	// the Installer says so.
	Online bool
	// Join makes the host a node of a cluster; nil means to make a cluster.
	Join *Join
	// Seed continues a cluster whose hosts are gone; nil means to make an empty one.
	Seed *Seed
	node.Scope
	// Binary is the sealift to leave on the node: the running one.
	Binary string
	// Trusted are public keys. One of them must have signed the bundle. If there are none, signatures are not checked.
	Trusted []signature.PublicKey
	// Verdict is the file with the verdict about vulnerabilities, which the policy of this host may demand. Empty means that which came with the bundle.
	Verdict string
	// AllowDowngrade lets a bundle bring older add-ons than the node has. It does not reach what runs.
	AllowDowngrade bool
	// Upgrade brings the node to the versions of the bundle; nil for an install, which does not change what runs.
	Upgrade *Upgrade
	// Resume is the command that goes on with this install, for people who look at the status of the node later.
	Resume string
	// ChooseAddress chooses among several possible addresses of this host. Nil means the first one.
	ChooseAddress func(network.Choice) (network.Candidate, error)
	// Yes answers the questions of hooks; without it they get kURL's answers without a terminal.
	Yes bool
	// Outro receives the output of the last phase's hooks for people, and the warnings of all hooks, if Output is nil.
	Outro io.Writer
}

// Install is a job with its means on this host. Nothing is changed before Run.
type Install struct {
	job
	*node.Session
	plan    lifecycle.Plan
	refused []preflight.Result // the requirements that do not hold
	kept    []string           // notes about add-ons that others own
	hooks   *hooks
	said    *hookOutput       // what hooks print
	socket  string            // of containerd
	before  map[string]string // the host's packages before the first install, with their versions
	taken   string            // a folder with sealift-preflight, once extracted from the bundle
}

// Prepare is Inspect for a run: the error is a *preflight.RefusedError if a requirement does not hold.
func Prepare(ctx context.Context, o Options) (*Install, error) {
	i, err := Inspect(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := i.refusal(); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// Inspect reads the bundle, the host and its journal, and makes the plan. Where a requirement does not hold, Preflight reports it and
// Run refuses to begin. Close must be called.
func Inspect(ctx context.Context, o Options) (_ *Install, err error) {
	session, err := o.Begin(o.operation())
	if err != nil {
		return nil, err
	}
	i := &Install{job: job{options: o}, socket: runtime.Socket, Session: session}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	if err := i.readBundle(); err != nil {
		return nil, err
	}
	if err := i.Lock(); err != nil {
		return nil, err
	}
	if i.Journal.Began(node.ResetStep) {
		return nil, errResetOpen
	}
	if err := i.readHost(ctx); err != nil {
		return nil, err
	}
	i.settings = i.newSettings()
	i.prepareHooks()
	i.refused = i.unmet(requirements())
	i.plan = i.makePlan()
	if len(i.refused) == 0 {
		i.readOwners(ctx)
	}
	return i, nil
}

// readBundle reads the contents of the bundle, as the options change them.
func (i *Install) readBundle() (err error) {
	name := i.options.Bundle
	if err := i.openBundle(); err != nil {
		return err
	}
	if err := i.readSpec(); err != nil {
		return fmt.Errorf("bundle %s: %w", name, err)
	}
	if i.upgrade, err = i.UpgradeID(); err != nil {
		return err
	}
	i.stopOnTheWay()
	if i.addOns, err = readAddOns(i.archive, i.spec); err != nil {
		return fmt.Errorf("bundle %s: %w", name, err)
	}
	if err := i.checkTogether(); err != nil {
		return fmt.Errorf("bundle %s: the Installer cannot work: %w", name, err)
	}
	i.setDefaults()
	return nil
}

// openBundle opens the bundle, if it is to be trusted and the policies of this host allow it.
func (j *job) openBundle() (err error) {
	name := j.options.Bundle
	open := j.options.Open
	if open == nil {
		open = func() (*bundle.Archive, error) { return bundle.Open(name, j.options.Trusted...) }
	}
	if j.archive, err = open(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if err := j.checkTrust(j.options.Trusted); err != nil {
		return fmt.Errorf("bundle %s is not to be trusted: %w", name, err)
	}
	if file := j.options.Verdict; file != "" {
		j.archive.SetVerdict(func() (verdict.Signed, error) { return verdict.Load(file) })
	}
	if err := bundlepolicy.Check(j.archive); err != nil {
		return fmt.Errorf("bundle %s: %w", name, err)
	}
	return nil
}

// readHost reads the facts of the host and chooses its address, with ChooseAddress where several are possible.
func (i *Install) readHost(ctx context.Context) (err error) {
	i.past = i.Journal
	if i.facts, err = host.Discover(); err != nil {
		return fmt.Errorf("inspect the host: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(shortTime))
	defer cancel()
	i.firewalls, i.cramped = firewall.Active(ctx), speed.Cramped()
	if i.sealift, err = sealiftDigest(i.options.Binary); err != nil {
		return err
	}
	return i.chooseAddress()
}

// refusal lists the requirements that do not hold; nil if all do.
func (i *Install) refusal() error {
	return preflight.Report{Results: i.refused}.Err(preflight.Policy{})
}

// prepareHooks creates the shell of the hooks, which starts when the first hook runs.
func (i *Install) prepareHooks() {
	o := i.options
	people := o.Outro
	if o.Output != nil { // where all of it is
		people = nil
	}
	i.said = newHookOutput(i.Log, people)
	i.said.hide(i.secrets()...)
	i.vars = i.variables()
	i.hooks = newHooks(o.Root, i.addOns, i.vars, i.said)
	i.hooks.secret = i.said.hide
	i.hooks.verbs, i.hooks.yes, i.hooks.upgrade = i.verbs(), o.Yes, i.upgradeVariables()
}

// checkTrust refuses a bundle that none of the trusted keys signed as a whole: signed packages alone do not cover the
// Installer.
func (c *contents) checkTrust(trusted []signature.PublicKey) error {
	if len(trusted) == 0 {
		return nil
	}
	trust, err := c.archive.VerifySignature(trusted...)
	c.signer = trust.Signer
	if err == nil && trust.Signer == "" {
		err = fmt.Errorf("its packages are signed, but the bundle itself is %w; sign it with 'sealift bundle --key'", bundle.ErrUntrusted)
	}
	return err
}

// Trust says in words who signed the bundle, as far as that was looked at.
func (c *contents) Trust() string {
	switch {
	case c.signer != "":
		return "signed by " + c.signer
	case c.archive.Signed():
		return "has a signature that was not checked, and may be anybody's: name the public key with --key"
	}
	return "not signed: nothing says who made it"
}

func (j *job) readSpec() error {
	if j.archive.Index.Kind != bundle.KindBundle {
		return errors.New("is a package; make a bundle of it with 'sealift bundle'")
	}
	if j.options.Adjust != nil && (j.Joins() && !j.leads() || j.follows()) { // by the Installer of the cluster, as far as this host may know it
		var err error
		j.spec, err = j.options.Adjust(nil)
		return err
	}
	data, err := j.archive.ReadFile(bundle.InstallerName, maxSpecSize)
	if err != nil {
		return err
	}
	if j.spec, err = spec.Parse(bundle.InstallerName, bytes.NewReader(data)); err != nil || j.options.Adjust == nil {
		return err
	}
	j.spec, err = j.options.Adjust(j.spec)
	return err
}

// setDefaults sets the add-ons' declared default options that the Installer does not set.
func (c *contents) setDefaults() {
	for n, wanted := range c.spec.AddOns {
		for _, a := range c.addOns {
			if a.name() == wanted.Name {
				c.spec.AddOns[n].Options = a.meta.WithDefaults(wanted.Options)
			}
		}
	}
}

// Plan returns all steps, including finished ones.
func (i *Install) Plan() lifecycle.Plan { return i.plan }

// Pending returns the steps that Run would run.
func (i *Install) Pending() lifecycle.Plan { return i.plan.Pending(i.Journal) }

// Resume is the command that resumes this install.
func (j *job) Resume() string { return j.options.Resume }

// Run runs the pending steps.
func (i *Install) Run(ctx context.Context, observe func(lifecycle.Event)) (ran int, err error) {
	switch {
	case i.options.Upgrade != nil:
		return 0, errors.New("an install does not upgrade a node")
	case i.Joins():
		return i.run(ctx, lifecycle.Joining, i.plan, observe)
	}
	return i.run(ctx, lifecycle.Installing, i.plan, observe)
}

// run runs those of some steps that are pending.
func (i *Install) run(ctx context.Context, operation lifecycle.Operation, steps lifecycle.Plan, observe func(lifecycle.Event)) (ran int, err error) {
	if err := i.refusal(); err != nil {
		return 0, err
	}
	plan, err := i.recorded(ctx, steps)
	if err != nil {
		return 0, i.explainDiskFull(err)
	}
	if err := retention.Record(i.options.Root, i.packageInfos()); err != nil {
		return 0, i.explainDiskFull(err)
	}
	ran, err = lifecycle.Run(ctx, operation, plan, i.Journal, i.Log.Narrate(observe))
	return ran, i.explainDiskFull(err)
}

func (i *Install) packageInfos() (all []bundle.PackageInfo) {
	for _, a := range i.addOns {
		all = append(all, a.info)
	}
	return all
}

// Close ends the hooks' shell and releases the lock.
func (i *Install) Close() error {
	var errs []error
	if i.hooks != nil {
		errs = append(errs, i.hooks.close())
	}
	if i.archive != nil {
		errs = append(errs, i.archive.Close())
	}
	return errors.Join(append(errs, i.dropProgram(), i.Session.Close())...)
}
