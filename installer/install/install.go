// Package install turns a bundle and a host into a running cluster: it reads both, makes a plan of steps, and runs the
// steps that the host's journal does not have as finished.
//
// The package knows the order of things. How each thing is done lies below: lifecycle, hook, host, runtime, cluster.
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
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// maxSpecSize bounds an Installer.
const maxSpecSize = 1 << 20

// errResetOpen says that this node is being taken back.
var errResetOpen = errors.New("a reset of this node was begun and did not end; run 'sealift reset' first")

// Options says what is installed where. The zero value of a folder is its default.
type Options struct {
	Bundle string // an archive, or the folder into which it was unpacked
	// Open opens the bundle, in place of Bundle, which then is only its name. Nil means to open that file or folder.
	Open func() (*bundle.Archive, error)
	// Adjust applies the patch and the flags of the command line to the Installer of the bundle; nil changes nothing.
	Adjust func(*spec.Installer) (*spec.Installer, error)
	// Remote says that the bundle is far away. It is not read as a whole before the install: each file is verified while it is
	// used, and what the host has is not fetched.
	Remote bool
	// Online says that the bundle comes from a server that serves many hosts. Add-ons are told that this host is behind an air gap
	// in other cases, and where the Installer says so.
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
	// AllowDowngrade lets a bundle bring older add-ons than the node has. It does not reach what runs.
	AllowDowngrade bool
	// Upgrade brings the node to the versions of the bundle; nil for an install, which leaves what runs as it is.
	Upgrade *Upgrade
	// Resume is the command that goes on with this install, for people who look at the status of the node later.
	Resume string
	// ChooseAddress is asked for the address of this host where several could be meant. Nil means to take the first one.
	ChooseAddress func(network.Choice) (network.Candidate, error)
	// Yes answers the questions of hooks; without it they have the answers that kURL gives where there is no terminal.
	Yes bool
	// Outro receives what the hooks of the last phase print for people, if Output is nil.
	Outro io.Writer
}

// Install is one bundle about to be installed on this host. Nothing is changed before Run.
type Install struct {
	options Options
	archive *bundle.Archive
	spec    *spec.Installer
	// settings are those of this node, made of spec and facts
	settings settings
	facts    host.Facts
	address  network.Choice // by which other nodes reach this host, unless the Installer names one
	dual     bool           // the cluster is dual-stack
	addOns   []addOn        // in the order in which they install
	*node.Session
	plan   lifecycle.Plan
	kept   []string // notes about add-ons that others own
	hooks  *hooks
	said   *hookOutput       // what hooks print
	socket string            // of containerd
	before map[string]string // the host's packages before the first install, with their versions
	signer string            // fingerprint of the trusted key that signed the bundle
	taken  string            // a folder with sealift-preflight, once that was taken out of the bundle
	// packageNames are the host packages that the plan installs
	packageNames []string
	upgrade      string             // identifies an upgrade with all its stops
	refused      []preflight.Result // the requirements that do not hold
}

// Prepare is Inspect for a run: the error is a *preflight.RefusedError if a requirement does not hold.
func Prepare(o Options) (*Install, error) {
	i, err := Inspect(o)
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
func Inspect(o Options) (_ *Install, err error) {
	session, err := o.Begin(o.operation())
	if err != nil {
		return nil, err
	}
	i := &Install{options: o, socket: runtime.Socket, Session: session}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	if o.Open == nil {
		o.Open = func() (*bundle.Archive, error) { return bundle.Open(o.Bundle, o.Trusted...) }
	}
	if i.archive, err = o.Open(); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	if err := i.checkTrust(); err != nil {
		return nil, fmt.Errorf("bundle %s is not to be trusted: %w", o.Bundle, err)
	}
	if err := i.readSpec(); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", o.Bundle, err)
	}
	if i.facts, err = host.Discover(); err != nil {
		return nil, fmt.Errorf("look at the host: %w", err)
	}
	if i.upgrade, err = i.UpgradeID(); err != nil {
		return nil, err
	}
	i.stopOnTheWay()
	if i.addOns, err = readAddOns(i.archive, i.spec); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", o.Bundle, err)
	}
	if err := i.checkTogether(); err != nil {
		return nil, fmt.Errorf("bundle %s: the Installer cannot work: %w", o.Bundle, err)
	}
	i.setDefaults()
	if err = i.Lock(); err != nil {
		return nil, err
	}
	if i.Journal.Began(node.ResetStep) {
		return nil, errResetOpen
	}
	if err := i.chooseAddress(); err != nil {
		return nil, err
	}
	i.settings = i.newSettings()
	i.prepareHooks()
	i.refused = i.unmet()
	if i.plan, err = i.makePlan(); err != nil {
		return nil, err
	}
	if len(i.refused) == 0 {
		i.lookAtOwners()
	}
	return i, nil
}

// refusal lists the requirements that do not hold; nil if all do.
func (i *Install) refusal() error {
	return preflight.Report{Results: i.refused}.Err(preflight.Policy{})
}

// prepareHooks makes the shell of the hooks, which starts with the first of them.
func (i *Install) prepareHooks() {
	o := i.options
	i.Log.Hide(i.secrets()...)
	i.said = &hookOutput{log: i.Log}
	if o.Output == nil {
		i.said.people = o.Outro
	}
	i.hooks = newHooks(o.Root, i.addOns, i.variables(), i.said)
	i.hooks.secret = i.Log.Hide
	i.hooks.verbs, i.hooks.yes, i.hooks.upgrade = i.verbs(), o.Yes, i.upgradeVariables()
}

// checkTrust refuses a bundle that none of the trusted keys signed as a whole: signed packages alone say nothing of the
// Installer.
func (i *Install) checkTrust() error {
	if len(i.options.Trusted) == 0 {
		return nil
	}
	trust, err := i.archive.VerifySignature(i.options.Trusted...)
	i.signer = trust.Signer
	if err == nil && trust.Signer == "" {
		err = fmt.Errorf("its packages are signed, but the bundle itself is %w; sign it with 'sealift bundle --key'", bundle.ErrUntrusted)
	}
	return err
}

// Trust says in words who signed the bundle, as far as that was looked at.
func (i *Install) Trust() string {
	switch {
	case i.signer != "":
		return "signed by " + i.signer
	case i.archive.Signed():
		return "has a signature that was not checked, and may be anybody's: name the public key with --key"
	}
	return "not signed: nothing says who made it"
}

func (i *Install) readSpec() error {
	if i.archive.Index.Kind != bundle.KindBundle {
		return errors.New("is a package; make a bundle of it with 'sealift bundle'")
	}
	if i.options.Adjust != nil && (i.Joins() && !i.leads() || i.follows()) { // by the Installer of the cluster, as far as this host may know it
		var err error
		i.spec, err = i.options.Adjust(nil)
		return err
	}
	data, err := i.archive.ReadFile(bundle.InstallerName, maxSpecSize)
	if err != nil {
		return err
	}
	if i.spec, err = spec.Parse(bundle.InstallerName, bytes.NewReader(data)); err != nil || i.options.Adjust == nil {
		return err
	}
	i.spec, err = i.options.Adjust(i.spec)
	return err
}

// setDefaults gives add-ons the options that they declare with a default and that the Installer does not set.
func (i *Install) setDefaults() {
	for n, wanted := range i.spec.AddOns {
		for _, a := range i.addOns {
			if a.name() == wanted.Name {
				i.spec.AddOns[n].Options = a.meta.WithDefaults(wanted.Options)
			}
		}
	}
}

// Plan gives all steps, finished ones too.
func (i *Install) Plan() lifecycle.Plan { return i.plan }

// Pending gives the steps that Run would run.
func (i *Install) Pending() lifecycle.Plan { return i.plan.Pending(i.Journal) }

// Resume is the command that goes on with this install.
func (i *Install) Resume() string { return i.options.Resume }

// Run runs what is pending.
func (i *Install) Run(ctx context.Context, observe func(lifecycle.Event)) (ran int, err error) {
	switch {
	case i.options.Upgrade != nil:
		return 0, errors.New("an install does not upgrade a node")
	case i.Joins():
		return i.run(ctx, lifecycle.Joining, i.plan, observe)
	}
	return i.run(ctx, lifecycle.Installing, i.plan, observe)
}

// run runs what is pending of some steps.
func (i *Install) run(ctx context.Context, operation lifecycle.Operation, steps lifecycle.Plan, observe func(lifecycle.Event)) (ran int, err error) {
	if err := i.refusal(); err != nil {
		return 0, err
	}
	plan, err := i.recorded(ctx, steps)
	if err != nil {
		return 0, i.explainDiskFull(err)
	}
	ran, err = lifecycle.Run(ctx, operation, plan, i.Journal, i.Log.Narrate(observe))
	return ran, i.explainDiskFull(err)
}

// Close ends the hooks' shell and gives the node free.
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
