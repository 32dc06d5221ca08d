// Package adopt takes over a node of a kURL cluster, so that Sealift upgrades, joins, checks and resets it like its own.
//
// It reads kURL's state in the cluster and on the host, and writes the state of a Sealift install: the journal, the Installer,
// the baseline of the host, the records of the add-ons' owner, and Sealift's services. It changes no workload: no pod, no kubelet
// and no container runtime restarts. Each node is adopted by itself, the first control plane before the others.
//
// Comments cite rules of kURL by section (kURL §3.7): docs/reference/kurl.md has them.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/preflight"
)

// Resume returns the command that resumes an adoption, or begins one.
func Resume() string { return hostpath.Sudo("adopt") }

// Options says which node is adopted. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// Binary is the sealift to leave on the node: the running one.
	Binary string
}

// Adoption is a node that is about to be adopted. Nothing is changed before Run.
type Adoption struct {
	Found Found

	options Options
	view    *cluster.View
	*node.Session
	adopted bool // nothing is left to do
	plan    lifecycle.Plan
}

// Prepare inspects this host and its cluster. Close must be called.
func Prepare(ctx context.Context, o Options) (_ *Adoption, err error) {
	session, err := o.Begin(lifecycle.Adopting)
	if err != nil {
		return nil, err
	}
	a := &Adoption{options: o, Session: session}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err = a.Lock(); err != nil {
		return nil, err
	}
	if a.adopted, err = adopted(a.Journal); err != nil {
		return nil, err
	}
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	if a.Found.Host, err = readHost(ctx, "/", name); err != nil {
		return nil, fmt.Errorf("inspect the host: %w", err)
	}
	if a.view, err = cluster.NewView(); err != nil {
		return nil, err
	}
	if a.view == nil || !a.Found.Host.Member {
		return nil, noNode()
	}
	if a.Found.Cluster, err = readCluster(ctx, a.view, name); err != nil {
		return nil, fmt.Errorf("query the cluster: %w", err)
	}
	a.plan, err = a.makePlan()
	return a, err
}

// noNode refuses a host that is part of no cluster.
func noNode() error {
	return &preflight.RefusedError{Against: []preflight.Result{{Check: "kURL", Status: preflight.Fail, Final: true,
		Message: "this host is not a node of a cluster", Hint: "adopt takes over nodes that kURL made; 'sealift install' makes one"}}}
}

// adopted reports whether the journal has the whole adoption, and refuses a node that Sealift itself installed.
func adopted(j *lifecycle.Journal) (done bool, err error) {
	for _, rec := range j.Records() {
		if rec.Step != node.InitStep && rec.Step != node.JoinStep {
			continue
		}
		if rec.Operation != lifecycle.Adopting {
			return false, &preflight.RefusedError{Against: []preflight.Result{{Check: "kURL", Status: preflight.Fail, Final: true,
				Message: "Sealift made this node itself, and keeps it already", Hint: "see 'sealift status'"}}}
		}
		done = done || rec.Outcome == lifecycle.Finished
	}
	if j.Began(node.ResetStep) {
		return false, errors.New("a reset of this node is unfinished; run 'sealift reset' first")
	}
	return done, nil
}

// Check looks for obstacles to the adoption.
func (a *Adoption) Check(ctx context.Context) (preflight.Report, error) {
	if a.adopted {
		return preflight.Report{Results: []preflight.Result{}}, nil
	}
	return preflight.Run(ctx, a.Found.Checks())
}

// First reports whether this node counts as the one that created the cluster.
func (a *Adoption) First() bool { return a.Found.Cluster.First() == a.Found.Host.Name }

// Pending returns the steps that Run would run.
func (a *Adoption) Pending() lifecycle.Plan {
	if a.adopted {
		return nil
	}
	return a.plan.Pending(a.Journal)
}

// Stays lists what a reset will leave on the host, since kURL installed it.
func (a *Adoption) Stays() []string { return a.Found.stays() }

// Close releases the lock of the node.
func (a *Adoption) Close() error {
	var err error
	if a.Journal != nil {
		err = a.Journal.Close()
	}
	return errors.Join(err, a.Log.Close())
}

// Run runs the pending steps. It may be repeated after an interruption.
func (a *Adoption) Run(ctx context.Context, observe func(lifecycle.Event)) (ran int, err error) {
	if a.adopted {
		return 0, nil
	}
	if err := node.MarkRoot(a.options.Root); err != nil {
		return 0, fmt.Errorf("mark %s as sealift's: %w", a.options.Root, err)
	}
	if err := a.Journal.Begin(); err != nil {
		return 0, err
	}
	record, err := node.OpenBaseline(a.options.Root, a.options.LogDir)
	if err != nil {
		return 0, err
	}
	if c := a.Found.Cluster; c.Kurl != nil && c.Kurl.Installer != nil {
		record.Unwatch(c.Kurl.Installer.HostPaths()...)
	}
	if err := record.BeginWithout(ctx, strings.Join(a.Journal.Open(), ", "), forgetCluster); err != nil {
		return 0, err
	}
	if err := a.writeRun(); err != nil {
		return 0, err
	}
	plan := slices.Clone(a.plan)
	for n, step := range plan {
		plan[n].Run = func(ctx context.Context) (lifecycle.State, error) {
			state, err := step.Run(ctx)
			return state, errors.Join(err, record.Note(context.WithoutCancel(ctx), step.ID))
		}
	}
	return lifecycle.Run(ctx, lifecycle.Adopting, plan, a.Journal, a.Log.Narrate(observe))
}

// writeRun records this run.
func (a *Adoption) writeRun() error {
	c := a.Found.Cluster
	run := node.Run{Bundle: "none yet: kURL made this node", Log: a.Log.Name(), Resume: Resume(), Began: time.Now().UTC(), Plan: a.plan,
		AddOns: append([]node.AddOn{{Name: "kubernetes", Version: c.Version}}, a.Found.AddOns()...), Networks: c.ClusterNetworks.List()}
	if c.Kurl != nil && c.Kurl.Installer != nil {
		run.Installer = c.Kurl.Installer.Name
	}
	return run.Write(a.options.Root)
}
