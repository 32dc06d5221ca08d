package hub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/poll"
)

// hubLease is the label of the Leases by which hubs share the fleet. Its value is shardLease or memberLease.
const (
	hubLease    = "fleet.sealift.dev/hub-lease"
	shardLease  = "shard"
	memberLease = "member"
)

// forgotten is after how many durations an expired Lease of a member is deleted.
const forgotten = 20

func shardName(n int) string { return fmt.Sprintf("%s-shard-%d", lease, n) }

func (s *shards) memberName() string { return lease + "-member-" + s.me }

// NeedLeaderElection implements manager.LeaderElectionRunnable: all hubs share the work.
func (s *shards) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *shards) Start(ctx context.Context) error {
	ticker := time.NewTicker(s.period)
	defer ticker.Stop()
	for {
		if err := s.readLeases(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the Leases of the fleet's shards were not renewed", "error", err)
		}
		select {
		case <-ctx.Done():
			s.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
	}
}

// readLeases reads all Leases once, and renews, takes or releases them.
func (s *shards) readLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.deadline/2)
	defer cancel()
	list, err := s.leases.List(ctx, metav1.ListOptions{LabelSelector: hubLease})
	if err != nil {
		return err
	}
	members := s.members(list.Items)
	for n := range shardCount {
		var l *coordinationv1.Lease
		if at := slices.IndexFunc(list.Items, func(l coordinationv1.Lease) bool { return l.Name == shardName(n) }); at >= 0 {
			l = &list.Items[at]
		}
		if e := s.stepShard(ctx, n, l, members[n%len(members)] == s.me); e != nil && !apierrors.IsConflict(e) && !apierrors.IsAlreadyExists(e) {
			err = e // with a conflict, another hub was faster
		}
	}
	if e := s.renewMember(ctx, list.Items); e != nil {
		err = e
	}
	return err
}

// members returns the hubs that are alive, in one order on all of them.
func (s *shards) members(leases []coordinationv1.Lease) []string {
	members := []string{s.me}
	now := time.Now()
	known := make(map[string]sighting, len(leases))
	for _, l := range leases {
		had := s.seen[l.Name]
		if had.version != l.ResourceVersion {
			had = sighting{l.ResourceVersion, now}
		}
		known[l.Name] = had
		if holder := holderOf(&l); holder != "" && now.Sub(had.at) < s.duration {
			members = append(members, holder)
		}
	}
	s.seen = known
	slices.Sort(members)
	return slices.Compact(members)
}

func holderOf(l *coordinationv1.Lease) string {
	if l == nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// stepShard takes the next step for a shard. wanted means that this hub should own it.
func (s *shards) stepShard(ctx context.Context, n int, l *coordinationv1.Lease, wanted bool) error {
	held, holder := s.holds(n), holderOf(l)
	if held != nil && holder == s.me {
		s.yield(held, wanted)
	} else if held != nil {
		held.end(errLost)
	}
	switch now := time.Now(); {
	case held != nil && s.ended(held):
		s.drop(n)
		if holder != s.me {
			return nil
		}
		s.log.InfoContext(ctx, "this hub gives a shard of the fleet up", "shard", n)
		return s.write(ctx, l, shardName(n), shardLease, "")
	case held != nil && holder == s.me: // also while its work ends
		if err := s.write(ctx, l, shardName(n), shardLease, s.me); err != nil {
			return err
		}
		s.renewed(held, now)
	case held == nil && wanted && (holder == "" || holder == s.me || now.Sub(s.seen[l.Name].at) >= s.duration):
		if err := s.write(ctx, l, shardName(n), shardLease, s.me); err != nil {
			return err
		}
		s.log.InfoContext(ctx, "this hub works on a shard of the fleet", "shard", n, "before", holder)
		s.hold(n, now)
	}
	return nil
}

// write sets the holder of a Lease. It fails if the Lease has changed since it was read.
func (s *shards) write(ctx context.Context, l *coordinationv1.Lease, name, kind, holder string) error {
	now := metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: new(int32(max(1, s.duration/time.Second)))}
	if l == nil {
		_, err := s.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hubLease: kind}}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	after := l.DeepCopy()
	after.Spec = spec
	_, err := s.leases.Update(ctx, after, metav1.UpdateOptions{})
	return err
}

// renewMember renews the Lease of this hub while it has no shard. It deletes it when it has one, and also those of dead hubs.
func (s *shards) renewMember(ctx context.Context, leases []coordinationv1.Lease) error {
	busy := s.any()
	var mine *coordinationv1.Lease
	for i := range leases {
		l := &leases[i]
		if l.Name == s.memberName() {
			mine = l
		}
		if l.Labels[hubLease] == memberLease && (l == mine && busy || time.Since(s.seen[l.Name].at) > forgotten*s.duration) {
			if err := s.leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &l.ResourceVersion}}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	if busy {
		return nil
	}
	return s.write(ctx, mine, s.memberName(), memberLease, s.me)
}

// leave ends all work, and releases each shard as soon as its work has ended. One whose work does not end keeps none of the others.
func (s *shards) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	var all sync.WaitGroup
	for n := range shardCount {
		if held := s.holds(n); held != nil {
			held.end(errYielded)
			all.Go(func() { s.release(ctx, n, held) })
		}
	}
	_ = s.leases.Delete(ctx, s.memberName(), metav1.DeleteOptions{}) // it is forgotten otherwise
	all.Wait()
}

// release releases the Lease of a shard when its work has ended. If that takes too long, others wait until the Lease expires.
func (s *shards) release(ctx context.Context, n int, held *shard) {
	if poll.Until(ctx, 10*time.Millisecond, nil, func(context.Context) (bool, error) { return s.idle(held), nil }) != nil {
		return
	}
	s.drop(n)
	l, err := s.leases.Get(ctx, shardName(n), metav1.GetOptions{})
	if err == nil && holderOf(l) == s.me {
		err = s.write(ctx, l, l.Name, shardLease, "")
	}
	if err != nil {
		s.log.WarnContext(ctx, "a shard of the fleet was not released; other hubs wait for it", "shard", n, "error", err)
	}
}
