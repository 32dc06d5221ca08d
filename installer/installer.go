// Package installer turns a bundle and a host into a running cluster: it reads both, makes a plan of steps, and runs the
// steps that the host's journal does not have as finished.
//
// The package knows the order of things. How each thing is done lies below: lifecycle, hook, host, runtime, cluster.
//
// Its files: installer, addon and layout read and prepare; preflight, needs, programs, hookpreflight and checker look at the host before
// anything is changed; plan has the steps and their order; steps, hooks, verbs, variables, networks, surroundings,
// hostcommands and services carry them out; join and administrator are for clusters of several hosts; record, reset and
// resetsteps take it all back; status and full tell of it; images loads images without an install.
package installer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/runtime"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

const (
	// DefaultRoot is the install root, $DIR of the hooks.
	DefaultRoot = "/var/lib/sealift"
	// DefaultLogDir is where each run leaves its log.
	DefaultLogDir = "/var/log/sealift"
	// installedBinary is the sealift that stays on the node; hooks call it.
	installedBinary = "/usr/local/bin/sealift"
	maxSpecSize     = 1 << 20
)

// Options says what is installed where. The zero value of a folder is its default.
type Options struct {
	Bundle string // an archive, or the folder into which it was unpacked
	// Open opens the bundle, in place of Bundle, which then is only its name. Nil means to open that file or folder.
	Open func() (*bundle.Archive, error)
	// Adjust changes the Installer of the bundle as whoever installs wants it; nil changes nothing.
	Adjust func(*spec.Installer) (*spec.Installer, error)
	// Remote says that the bundle is far away. It is not read as a whole before the install: each file is verified while it is
	// used, and what the host has is not fetched.
	Remote bool
	// Online says that the bundle comes from a server that serves many hosts. Add-ons are told that this host is behind an air gap
	// in other cases, and where the Installer says so.
	Online bool
	// Join makes the host a node of a cluster; nil means to make a cluster.
	Join   *Join
	Root   string
	LogDir string
	// Binary is the sealift to leave on the node: the running one.
	Binary string
	// Trusted are the keys of which one must have signed the bundle; none means not to look at signatures.
	Trusted []signature.PublicKey
	// AllowDowngrade lets a bundle bring older add-ons than the node has. It does not reach what runs.
	AllowDowngrade bool
	// Upgrade looks at the host as a node that is to get newer versions. Run refuses such a plan.
	Upgrade bool
	// Resume is the command that goes on with this install, for people who look at the status of the node later.
	Resume string
	// Yes answers the questions of hooks; without it they have the answers that kURL gives where there is no terminal.
	Yes bool
	// Output receives what hooks and tools print, besides the log file; nil for nothing.
	Output io.Writer
}

// Install is one bundle about to be installed on this host. Nothing is changed before Run.
type Install struct {
	options Options
	archive *bundle.Archive
	spec    *spec.Installer
	facts   host.Facts
	addOns  []addOn // in the order in which they install
	journal *lifecycle.Journal
	plan    lifecycle.Plan
	hooks   *hooks
	log     *runLog
	socket  string            // of containerd
	before  map[string]string // the host's packages before the first install, with their versions
	signer  string            // fingerprint of the trusted key that signed the bundle
	taken   string            // a folder with sealift-preflight, once that was taken out of the bundle
}

// Prepare reads the bundle, the host and its journal, and makes the plan. Close must be called.
func Prepare(o Options) (_ *Install, err error) {
	if err := begin(&o.Root, &o.LogDir); err != nil {
		return nil, err
	}
	i := &Install{options: o, socket: runtime.Socket, log: newRunLog(o.LogDir, "install", o.Output)}
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
	if i.Joins() {
		if address := host.AddressTowards(o.Join.Server); address.IsValid() {
			i.facts.Address = address
		}
	}
	if i.addOns, err = readAddOns(i.archive, i.spec); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", o.Bundle, err)
	}
	if err := i.checkTogether(); err != nil {
		return nil, fmt.Errorf("bundle %s: the Installer cannot work: %w", o.Bundle, err)
	}
	i.setDefaults()
	if i.journal, err = lifecycle.OpenJournal(StateDir(o.Root)); err != nil {
		return nil, err
	}
	if i.journal.Began(resetStep) {
		return nil, errResetOpen
	}
	if err := i.checkRunning(); err != nil {
		return nil, err
	}
	if err := i.checkDowngrade(); err != nil {
		return nil, err
	}
	i.hooks = newHooks(o.Root, i.addOns, i.variables(), i.log)
	i.hooks.verbs, i.hooks.yes = i.verbs(), o.Yes
	if err := errors.Join(i.checkNetworks(), cluster.CheckOptions(i.hooks.variables), i.checkJoin(), i.checkProxy(), i.checkCertificates(), i.checkLabels(), i.checkSELinux()); err != nil {
		return nil, err
	}
	i.plan, err = i.makePlan()
	return i, err
}

// begin gives folders that the options leave open their defaults, and goes no further without root. Hooks have other working
// folders: the install root is absolute.
func begin(root, logDir *string) (err error) {
	if *root == "" {
		*root = DefaultRoot
	}
	if *root, err = filepath.Abs(*root); err != nil {
		return err
	}
	if *logDir == "" {
		*logDir = DefaultLogDir
	}
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	return nil
}

// StateDir is where the journal of an install root lies.
func StateDir(root string) string { return filepath.Join(root, "state") }

// errNotRoot is the refusal that comes before everything else: without root, not even the journal can be read.
var errNotRoot = &preflight.RefusedError{Against: []preflight.Result{{
	Check: "root", Status: preflight.Fail, Message: "changes of packages and services want root", Hint: "run the command with sudo",
}}}

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
	if i.Joins() && i.options.Adjust != nil { // by the Installer of the cluster, as far as this host may know it
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
func (i *Install) Pending() lifecycle.Plan { return i.plan.Pending(i.journal) }

// Resume is the command that goes on with this install.
func (i *Install) Resume() string { return i.options.Resume }

// LogFile is where the output of this run goes; the file is made with the first output.
func (i *Install) LogFile() string { return i.log.name }

// Run runs what is pending.
func (i *Install) Run(ctx context.Context, observe func(lifecycle.Event)) (ran int, err error) {
	if i.options.Upgrade {
		return 0, errors.New("an install does not upgrade a node")
	}
	plan, err := i.recorded(ctx)
	if err != nil {
		return 0, i.explainFull(err)
	}
	operation := lifecycle.Installing
	if i.Joins() {
		operation = lifecycle.Joining
	}
	ran, err = lifecycle.Run(ctx, operation, plan, i.journal, i.log.narrate(observe))
	return ran, i.explainFull(err)
}

// Close ends the hooks' shell and gives the node free.
func (i *Install) Close() error {
	var errs []error
	if i.hooks != nil {
		errs = append(errs, i.hooks.close())
	}
	if i.journal != nil {
		errs = append(errs, i.journal.Close())
	}
	if i.archive != nil {
		errs = append(errs, i.archive.Close())
	}
	return errors.Join(append(errs, i.dropProgram(), i.log.close())...)
}

// runLog is the log file of one run, made when first written to.
type runLog struct {
	name string
	also io.Writer
	mu   sync.Mutex
	file *os.File
}

func newRunLog(dir, what string, also io.Writer) *runLog {
	if also == nil {
		also = io.Discard
	}
	return &runLog{name: filepath.Join(dir, what+"-"+time.Now().UTC().Format("20060102T150405Z")+".log"), also: also}
}

// Write never fails: a log that cannot be written must not stop the work that it tells of.
func (l *runLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.also.Write(p)
	if l.file == nil {
		if err := os.MkdirAll(filepath.Dir(l.name), 0o700); err != nil {
			return len(p), nil
		}
		file, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return len(p), nil
		}
		l.file = file
	}
	_, _ = l.file.Write(p)
	return len(p), nil
}

// narrate tells the log what it tells observe.
func (l *runLog) narrate(observe func(lifecycle.Event)) func(lifecycle.Event) {
	return func(e lifecycle.Event) {
		if !e.Skipped {
			fmt.Fprintf(l, "== %s step %s %s: %s\n", time.Now().UTC().Format(time.RFC3339), e.Step.ID, e.Outcome, e.Step.Title)
		}
		if e.Err != nil {
			fmt.Fprintln(l, e.Err)
		}
		observe(e)
	}
}

func (l *runLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
