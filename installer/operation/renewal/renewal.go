// Package renewal keeps the certificates of a node from ending, without being asked.
//
// It runs in the agent of each node rather than by a timer of systemd. A control plane also has to approve the serving certificates
// of kubelets within seconds, which needs a permanent process; and an agent killed during a renewal is restarted at once and resumes
// it.
//
// A Keeper renews what package pki can renew on this node, four months before the end. Control planes do it in sequence, under the
// Lease that upgrades also take; manual renewals take turns with them. Package approver approves the requests of kubelets. A TokenKeeper
// lets the kubelet replace the tokens of pods after the clock of the host was set back.
package renewal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/approver"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/readdress"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// pause is the time between two checks of the certificates. It is short because clocks may be set.
const pause = 10 * time.Minute

// Keeper renews the certificates of a node. New makes one for this host.
type Keeper struct {
	Log *slog.Logger
	Now func() time.Time
	// List reads the certificates of the node.
	List func(now time.Time) ([]pki.Entry, error)
	// Renew renews them.
	Renew func(context.Context) error
	// Cluster connects to the cluster with the rights of a control plane. It is nil on a worker.
	Cluster func() (*kube.Cluster, error)
	// Settled reports whether the other control planes can do without this one.
	Settled func(context.Context) error
	// Answers reports whether the API is ready for this node.
	Answers func(context.Context) bool

	// Elapsed is a clock that runs evenly while the host's clock, Now, is set. Nil means that nobody sets it.
	Elapsed func() time.Duration

	last time.Time     // of the last pass
	even time.Duration // Elapsed then
}

// Run renews the certificates of this host, and approves those of kubelets on a control plane, until ctx ends.
func Run(ctx context.Context, root string, log *slog.Logger) error {
	k, err := New(root, log)
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	if k.Cluster != nil {
		name, err := host.Name()
		if err != nil {
			return err
		}
		approves := &approver.Approver{Log: log, Node: name, Own: func() ([]string, error) { return ownNames(root) }, Members: cluster.EtcdMembers}
		beside.Go(func() { approves.Run(ctx, kubeadm.AdminKubeconfig) })
	}
	beside.Go(func() { NewTokenKeeper(log).Run(ctx) })
	k.Run(ctx)
	return nil
}

// ownNames lists the names and addresses by which this control plane serves, and the address that it is about to get.
func ownNames(root string) ([]string, error) {
	names, err := pki.ServerNames("")
	if err != nil {
		return nil, err
	}
	coming, err := readdress.Expected(root)
	if coming != "" {
		names = append(names, coming)
	}
	return names, err
}

// New makes a Keeper for this host. A node that was adopted keeps its certificates until its first upgrade: a renewal restarts pods.
func New(root string, log *slog.Logger) (*Keeper, error) {
	list := func(now time.Time) ([]pki.Entry, error) {
		if adopted, err := node.Adopted(root); adopted || err != nil {
			return nil, err
		}
		return pki.List(now)
	}
	began := time.Now()
	k := &Keeper{
		Log: log, Now: time.Now, Elapsed: func() time.Duration { return time.Since(began) }, List: list, Settled: Settled, Answers: answers,
		Renew: func(ctx context.Context) error { return renew(ctx, root, log) },
	}
	_, err := os.Stat(kubeadm.APIServerManifest)
	switch {
	case err == nil:
		k.Cluster = administrator
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return k, nil
}

func answers(ctx context.Context) bool {
	view, err := cluster.NewView()
	return err == nil && view != nil && view.API(ctx).Ready
}

func administrator() (*kube.Cluster, error) {
	config, err := cluster.Config(kubeadm.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	return kube.Connect(config, nil)
}

// Run checks the certificates at once and then periodically, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if err := k.Pass(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("the certificates of this node were not renewed", "error", err, "again in", pause)
		}
		return pause
	})
}

// maxJump is the largest plausible jump of the clock between two passes.
const maxJump = time.Hour

// jumped returns how far the clock of the host was set since the last pass.
func (k *Keeper) jumped() time.Duration {
	if k.Elapsed == nil {
		return 0
	}
	last, even := k.last, k.even
	k.last, k.even = k.Now().Round(0), k.Elapsed() // without the monotonic part of the time
	if last.IsZero() {
		return 0
	}
	return k.last.Sub(last) - (k.even - even)
}

// Pass renews the certificates that are due. After the clock was set, it leaves that to the next pass: a person who mistypes the year sets
// it once more.
func (k *Keeper) Pass(ctx context.Context) error {
	jump := k.jumped()
	due, err := k.due()
	if err != nil || len(due.Due) == 0 {
		return err
	}
	if jump > maxJump {
		k.Log.Warn("the clock of this host was set ahead; if that was wrong, set it back before the certificates are renewed",
			"by", jump.Round(time.Second), "now", k.Now().UTC().Format(time.RFC3339), "renewed in", pause, "files", strings.Join(due.Due, " "))
		return nil
	}
	if k.Cluster == nil || due.Ended { // a worker disturbs nobody; and the API accepts no expired certificate
		return k.renew(ctx, due)
	}
	c, err := k.Cluster()
	if err != nil {
		return err
	}
	waiting := func(holder string) {
		k.Log.Info("certificates are renewed when another control plane has done its work", "holder", holder)
	}
	return exclusion.WithClusterLock(ctx, c, exclusion.Host{}, exclusion.Renew, waiting, func(ctx context.Context) error {
		due, err := k.due() // the other one may have been an upgrade of this node
		if err != nil || len(due.Due) == 0 {
			return err
		}
		if err := k.Settled(ctx); err != nil && !due.Late {
			return fmt.Errorf("the cluster has to settle before: %w", err)
		}
		return k.renew(ctx, due)
	})
}

// InTurn runs a manual renewal: on a control plane under the Lease, so that no other one is down at the same time. waiting gets the
// holder. There is no lock on a worker, nor while the API does not answer this node: nobody could take the Lease.
func (k *Keeper) InTurn(ctx context.Context, waiting func(holder string), work func(context.Context) error) error {
	if k.Cluster == nil {
		return work(ctx)
	}
	if due, err := k.due(); err != nil || due.Ended || !k.Answers(ctx) { // work reports the error, if it meets it
		return work(ctx)
	}
	c, err := k.Cluster()
	if err != nil {
		return err
	}
	return exclusion.WithClusterLock(ctx, c, exclusion.Host{}, exclusion.Renew, waiting, work)
}

func (k *Keeper) due() (pki.Schedule, error) {
	now := k.Now()
	entries, err := k.List(now)
	return pki.ScheduleOf(entries, now), err
}

func (k *Keeper) renew(ctx context.Context, due pki.Schedule) error {
	k.Log.Info("renewing certificates", "files", strings.Join(due.Due, " "))
	return k.Renew(ctx)
}

// renew does what 'sealift certs renew' does.
func renew(ctx context.Context, root string, log *slog.Logger) (err error) {
	r, err := pki.Prepare(ctx, pki.Options{Scope: node.Scope{Root: root}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.Run(ctx, func(e lifecycle.Event) {
		if e.Outcome != lifecycle.Started && e.Outcome != lifecycle.Waiting {
			log.Info(e.Step.Title, "step", e.Step.ID, "outcome", e.Outcome, "log", r.LogFile())
		}
	})
}

// Settled requires every member of etcd to answer, and every control plane to be Ready.
func Settled(ctx context.Context) error {
	silent, _, err := cluster.EtcdHealth(ctx)
	if err != nil {
		return err
	}
	if len(silent) > 0 {
		return fmt.Errorf("etcd members do not answer: %s", strings.Join(silent, ", "))
	}
	view, err := cluster.NewView()
	if err != nil {
		return err
	}
	nodes, err := view.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.ControlPlane() && !n.Ready {
			return fmt.Errorf("control plane %s is not ready: %s", n.Name, n.Why)
		}
	}
	return nil
}
