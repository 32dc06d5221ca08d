package readdress

import (
	"context"
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/poll"
)

// The journal steps that are looked up: the one before the first change, the last, and the last of a rollback. The node works at
// its new address since worksStep.
const (
	keepStep  = exclusion.ReaddressBegin
	apiStep   = "readdress/api"
	worksStep = "readdress/works"
	LastStep  = exclusion.ReaddressEnd
	backStep  = exclusion.ReaddressBackEnd
)

// backSuffix ends the inputs of rollback steps.
const backSuffix = " back"

// The timeouts of steps that do not wait for the node: several times what a slow disk needs.
const (
	shortTime = 5 * time.Minute
	// backTime is the part of the whole time reserved for a rollback.
	backTime = 40 * time.Second
	pause    = time.Second
)

// step is a step of a change of address.
type step struct {
	id, title string
	timeout   time.Duration
	run       func(context.Context) error
}

type steps []step

// add appends steps if they apply to this node.
func (s *steps) add(when bool, more ...step) {
	if when {
		*s = append(*s, more...)
	}
}

// Plan returns the steps. Those that an interrupted change has finished are skipped when it runs.
func (r *Readdress) Plan() lifecycle.Plan {
	if r.last.back {
		return r.backPlan()
	}
	member := step{"readdress/member", "tell etcd the new address", time.Minute, func(ctx context.Context) error { return r.moveMember(ctx, r.To.String()) }}
	alone := len(r.Others) == 0
	var all steps
	all.add(true, step{keepStep, "keep a copy of what changes", shortTime, r.keep})
	all.add(r.state.etcd && !alone, member) // while the member still works, or by the majority of the others
	all.add(true,
		step{"readdress/stop", r.stopTitle(), shortTime, r.stop},
		step{"readdress/files", fmt.Sprintf("write %d files and %d certificates", len(r.Edits), len(r.Certificates)), shortTime, r.write},
		step{"readdress/start", "start the services and the kubelet", shortTime, r.start})
	all.add(r.ControlPlane, step{apiStep, "wait for the API server at " + r.To.String(), r.bound(), r.waitServer})
	all.add(r.state.etcd && alone, member)
	all.add(true, step{worksStep, r.worksTitle(), r.bound(), r.waitWorks})
	all.add(r.ControlPlane, step{"readdress/cluster", "write the new address to the cluster's configuration", shortTime, r.configure})
	all.add(true, step{"readdress/pods", "restart the pods that use the network of this host", shortTime, r.restartPods})
	all.add(true, step{LastStep, "wait until the cluster knows this node by its new address", shortTime, r.finish})
	return r.plan(all, r.last.inputs)
}

func (r *Readdress) plan(all steps, inputs string) (plan lifecycle.Plan) {
	for _, s := range all {
		plan = append(plan, lifecycle.Step{ID: s.id, Phase: lifecycle.Readdress, Title: s.title, Timeout: s.timeout, Fixed: r.hasOld() && (s.id == apiStep || s.id == worksStep), Inputs: inputs,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, s.run(ctx) }})
	}
	return plan
}

func (r *Readdress) stopTitle() string {
	if r.ControlPlane {
		return "stop the kubelet, the API server and etcd"
	}
	return "stop the kubelet"
}

func (r *Readdress) worksTitle() string {
	if r.ControlPlane && len(r.Others) > 0 {
		return "wait until another control plane reaches this node at " + r.To.String()
	}
	return "wait until this node is Ready at " + r.To.String()
}

// bound is how long the new address may take to work. Without the old one, there is nothing to return to, and a host that has just
// booted is slow.
func (r *Readdress) bound() time.Duration {
	if !r.hasOld() {
		return max(2*shortTime, r.options.Timeout)
	}
	back := speed.Stretch(backTime)
	if r.options.Timeout < 2*back {
		return r.options.Timeout / 2
	}
	return r.options.Timeout - back
}

// Run changes the address of the node. If the node does not work there, Run rolls the change back and returns why.
func (r *Readdress) Run(ctx context.Context, observe func(lifecycle.Event)) error {
	for _, note := range r.Notes {
		fmt.Fprintln(r.Log, note)
	}
	// The work of held ends when the Lease is lost, which may be caused by an address that does not work: the rollback does not need
	// it.
	run := func(held context.Context) error {
		err := r.runPlan(held, observe)
		if err == nil || r.last.back || !r.mustGoBack(ctx) {
			return err
		}
		fmt.Fprintf(r.Log, "going back to %s: %v\n", r.From, err)
		if backErr := r.rollBack(ctx, observe); backErr != nil {
			return fmt.Errorf("%w\nthe way back to %s failed, too: %w", err, r.From, backErr)
		}
		return &TakenBackError{From: r.From, Why: err}
	}
	if len(r.Others) == 0 || !r.answers {
		return run(ctx)
	}
	view, err := cluster.NewView()
	if err != nil {
		return err
	}
	waiting := func(holder string) { fmt.Fprintf(r.Log, "waiting for %s, which restarts control planes\n", holder) }
	return exclusion.WithClusterLock(ctx, view.Cluster(), exclusion.Host{Root: r.options.Root}, r.begins(), waiting, run)
}

func (r *Readdress) runPlan(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.Readdressing, r.Plan(), r.Journal, r.Log.Narrate(observe))
	switch {
	case err != nil:
		return err
	case r.last.back:
		return &TakenBackError{From: r.From, Why: r.last.why}
	}
	return Forget(r.options.Root) // a change to another address may have been announced
}

// hasOld reports whether the host still has the old address.
func (r *Readdress) hasOld() bool { return network.HasAddress(r.From.String()) }

// mustGoBack reports whether something was changed, the node has not worked since, and it could work at the old address. A person who
// interrupts resumes later.
func (r *Readdress) mustGoBack(ctx context.Context) bool {
	return ctx.Err() == nil && r.hasOld() && r.finished(keepStep) && !r.finished(worksStep)
}

// keep copies the files that change, and etcd's data if it answers.
func (r *Readdress) keep(ctx context.Context) error {
	set, err := r.copies().Keep(r.last.generation(), r.From.String(), time.Now())
	if err != nil || !r.state.etcd {
		return err
	}
	if _, _, err := cluster.EtcdHealth(ctx); err != nil {
		fmt.Fprintf(r.Log, "etcd does not answer, so there is no snapshot of it: %v\n", err)
		return nil
	}
	_, err = snapshot.SaveEtcd(ctx, set.Etcd())
	return err
}

func (r *Readdress) moveMember(ctx context.Context, address string) error {
	return cluster.MoveEtcdMember(ctx, r.Node, address, r.Others)
}

func (r *Readdress) stop(ctx context.Context) error {
	if r.ControlPlane {
		return restore.StopControlPlane(ctx, r.Log)
	}
	return command.Run(ctx, r.Log, "systemctl", "stop", "kubelet")
}

// write determines the changes again: an interrupted run may have written a part. It stops first, because the host may have been
// started again since.
func (r *Readdress) write(ctx context.Context) error {
	if err := r.stop(ctx); err != nil {
		return err
	}
	now := time.Now()
	issued, err := r.certificates(now)
	if err == nil {
		err = issued.Issue(now)
	}
	if err != nil {
		return err
	}
	edits, err := r.host.edits(r.Change)
	if err != nil {
		return err
	}
	return r.host.write(edits)
}

// start starts what reads the files. A host with a default route has no service for the route, and a cluster with a load balancer
// has no balancer on its nodes.
func (r *Readdress) start(ctx context.Context) error {
	services := []string{"containerd", service.Balancer(r.options.Root).Name, routeUnit}
	if r.ControlPlane {
		services = append(services, service.Sharer(r.options.Root).Name)
	}
	if err := command.Run(ctx, r.Log, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	if err := command.TryRestart(ctx, r.Log, services...); err != nil {
		return err
	}
	return restore.StartKubelet(ctx, r.Log)
}

// waitServer waits until the API server of this host works at the address.
func (r *Readdress) waitServer(ctx context.Context) error { return r.waitServerAt(ctx, r.To.String()) }

func (r *Readdress) waitServerAt(ctx context.Context, address string) error {
	prober := balancer.NewProber()
	return r.until(ctx, "the API server at "+address, func(ctx context.Context) error { return prober.Ready(ctx, joined(address)) })
}

// until repeats a request until ctx ends.
func (r *Readdress) until(ctx context.Context, what string, ask func(context.Context) error) error {
	if err := poll.Until(ctx, pause, poll.Print(r.Log, what), poll.Success(ask)); err != nil {
		return fmt.Errorf("%s: %w; see 'journalctl --unit kubelet' and /var/log/pods", what, err)
	}
	return nil
}

// TakenBackError reports that a node has its old address again.
type TakenBackError struct {
	From fmt.Stringer
	Why  error
}

func (e *TakenBackError) Error() string {
	return fmt.Sprintf("%v\nthe new address was taken back: this node has the settings for %s again", e.Why, e.From)
}

func (e *TakenBackError) Unwrap() error { return e.Why }

// rollBack rolls the change back.
func (r *Readdress) rollBack(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.Readdressing, r.backPlan(), r.Journal, r.Log.Narrate(observe))
	return err
}

// backPlan are the steps of the way back. If the host no longer has the old address, nothing can be waited for.
func (r *Readdress) backPlan() lifecycle.Plan {
	alone, has := len(r.Others) == 0, r.hasOld()
	member := step{"readdress/back-member", "tell etcd the old address", time.Minute, func(ctx context.Context) error { return r.moveMember(ctx, r.From.String()) }}
	var all steps
	all.add(r.state.etcd && !alone, member)
	all.add(true,
		step{"readdress/back-files", "write the old files", shortTime, r.putBack},
		step{"readdress/back-start", "start the services and the kubelet", shortTime, r.start})
	all.add(r.ControlPlane && has, step{"readdress/back-api", "wait for the API server at " + r.From.String(), shortTime, func(ctx context.Context) error {
		return r.waitServerAt(ctx, r.From.String())
	}})
	all.add(r.state.etcd && alone && has, member)
	all.add(true, step{backStep, "end the way back", shortTime, func(context.Context) error { return nil }})
	return r.plan(all, r.last.inputs+backSuffix)
}

func (r *Readdress) putBack(ctx context.Context) error {
	if err := r.stop(ctx); err != nil {
		return err
	}
	store := r.copies()
	set, err := store.Of(r.last.generation())
	if err != nil {
		return err
	}
	return set.PutBackHost(ctx, store, r.Log)
}
