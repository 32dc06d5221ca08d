package restore

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/internal/testing/kubeadm"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// planeOfThree is a member of a real etcd of three on loopback.
type planeOfThree struct {
	member
	client string // URL for clients
	d      dataFolder
	runs   *daemon.Daemon
}

type three struct {
	t       *testing.T
	program string
	planes  [3]*planeOfThree
}

func freeURL(t *testing.T) string {
	t.Helper()
	address, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + address
}

// newThree starts three members as one cluster.
func newThree(t *testing.T) *three {
	t.Helper()
	c := &three{t: t}
	var err error
	if c.program, err = lab.Workshop(t).File(t.Context(), upstream.Program("etcd")); err != nil {
		t.Fatal(err)
	}
	for n := range c.planes {
		name, dir := fmt.Sprintf("host-%d", n+1), t.TempDir()
		c.planes[n] = &planeOfThree{member: member{Name: name, Peers: freeURL(t), Data: dir}, client: freeURL(t), d: dataFolder{path: dir}}
	}
	for n := range c.planes {
		c.start(n)
	}
	t.Cleanup(func() {
		for n := range c.planes {
			c.stop(n)
		}
	})
	return c
}

func (c *three) members() (all []cluster.EtcdMember) {
	for _, p := range c.planes {
		all = append(all, p.etcd())
	}
	return all
}

// start starts a member with the data that it has. The flags about the cluster count only without data, as on a control plane.
func (c *three) start(n int) {
	c.t.Helper()
	p, err := c.planes[n], error(nil)
	p.runs, err = daemon.Start(daemon.Command{Path: c.program, Dir: c.t.TempDir(), Log: filepath.Join(c.t.TempDir(), "etcd.log"), Args: []string{
		"--name=" + p.Name, "--data-dir=" + p.Data, "--log-level=error", "--unsafe-no-fsync", "--initial-cluster=" + initialCluster(c.members()),
		"--listen-client-urls=" + p.client, "--advertise-client-urls=" + p.client, "--listen-peer-urls=" + p.Peers, "--initial-advertise-peer-urls=" + p.Peers}})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *three) stop(n int) {
	if p := c.planes[n]; p.runs != nil {
		p.runs.Stop()
		p.runs = nil
	}
}

// ask asks one member until it answers.
func (c *three) ask(n int, what string, question func(context.Context, *clientv3.Client) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.planes[n].client}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	for {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := question(one, client)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("%s: %s: %v", c.planes[n].Name, what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *three) put(n int, key, value string) {
	c.t.Helper()
	c.ask(n, "put "+key, func(ctx context.Context, e *clientv3.Client) error {
		_, err := e.Put(ctx, key, value)
		return err
	})
}

// has checks that a key has a value, or none for "", by a majority read, and returns the ID of the cluster.
func (c *three) has(n int, key, value string) (id uint64) {
	c.t.Helper()
	c.ask(n, "get "+key, func(ctx context.Context, e *clientv3.Client) error {
		got, err := e.Get(ctx, key)
		if err != nil {
			return err
		}
		id = got.Header.ClusterId
		found := ""
		for _, kv := range got.Kvs {
			found = string(kv.Value)
		}
		if found != value {
			c.t.Errorf("%s: %s is %q, want %q", c.planes[n].Name, key, found, value)
		}
		return nil
	})
	return id
}

// arm makes the data of a member, as a control plane does while its etcd runs.
func (c *three) prepare(n int, snapshot, token string) {
	c.t.Helper()
	p := c.planes[n]
	p.d.generation, p.d.together = token, &Together{Token: token, Members: c.members()}
	f, err := os.Open(snapshot)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if err := p.d.make(c.t.Context(), etcdutl{kubeadm.Etcdutl(c.t), p.member, io.Discard}, f, true); err != nil {
		c.t.Fatal(err)
	}
}

// rollBack takes one member back.
func (c *three) rollBack(n int) {
	c.t.Helper()
	c.stop(n)
	if err := c.planes[n].d.exchange(); err != nil {
		c.t.Fatal(err)
	}
	c.start(n)
}

// TestThreeMembersRestoreOneSnapshotTogether restores three members in sequence, with kills in between: at every moment at most one of
// the two clusters has a majority, and in the end there is one cluster with all of the old data and none of the newer.
func TestThreeMembersRestoreOneSnapshotTogether(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	for n := range 100 {
		c.put(n%3, fmt.Sprintf("%sconfigmaps/default/object-%d", objectPrefix, n), "before")
	}
	was := c.has(0, objectPrefix+"configmaps/default/object-7", "before")
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	c.ask(0, "snapshot", func(ctx context.Context, e *clientv3.Client) error {
		r, err := e.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		f, err := os.Create(snapshot)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(f, r)
		return err
	})
	c.put(1, objectPrefix+"configmaps/default/late", "lost")
	const late = objectPrefix + "configmaps/default/late"
	for n := range c.planes {
		c.prepare(n, snapshot, "fedcba9876543210") // by a run that was given up
		c.prepare(n, snapshot, "0123456789abcdef")
	}
	if id := c.has(2, late, "lost"); id != was {
		t.Error("the cluster has changed before the time")
	}

	c.rollBack(0)
	if id := c.has(1, late, "lost"); id != was { // two of three continue
		t.Errorf("another cluster answers: %x", id)
	}
	c.stop(1) // killed: the old data is moved away, and the new data not in place
	p := c.planes[1]
	if err := os.MkdirAll(p.d.old(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.d.member(), p.d.free()); err != nil {
		t.Fatal(err)
	}
	c.rollBack(1)
	is := c.has(0, late, "") // two of three are back
	if is == was {
		t.Error("the restored members are in the cluster of before")
	}
	c.put(1, objectPrefix+"configmaps/default/since", "back")
	c.rollBack(2)
	c.rollBack(0) // again, after it was restored
	for n := range c.planes {
		if id := c.has(n, late, ""); id != is {
			t.Errorf("%s is in the cluster %x, others in %x", c.planes[n].Name, id, is)
		}
		c.has(n, objectPrefix+"configmaps/default/since", "back")
	}
	c.ask(2, "list", func(ctx context.Context, e *clientv3.Client) error {
		list, err := e.MemberList(ctx)
		if err != nil {
			return err
		}
		all, err := e.Get(ctx, objectPrefix, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		if len(list.Members) != 3 || len(all.Kvs) != 101 || all.Header.Revision < 1_000_000_000 {
			t.Errorf("%d members, %d objects, revision %d", len(list.Members), len(all.Kvs), all.Header.Revision)
		}
		return nil
	})
}

// TestNonMemberHostRestoresNothing refuses an order without this host, or with another address of it.
func TestNonMemberHostRestoresNothing(t *testing.T) {
	t.Parallel()
	one, two := cluster.EtcdMember{Name: "host-1", Peers: []string{"https://10.0.0.1:2380"}}, cluster.EtcdMember{Name: "host-2", Peers: []string{"https://10.0.0.2:2380"}}
	for name, row := range map[string]struct {
		members []cluster.EtcdMember
		others  int
		refused bool
	}{
		"all":             {[]cluster.EtcdMember{one, two}, 1, false},
		"not this one":    {[]cluster.EtcdMember{two}, 2, true},
		"another address": {[]cluster.EtcdMember{{Name: one.Name, Peers: two.Peers}, two}, 2, true},
	} {
		r := &Restore{member: member{Name: one.Name, Peers: one.Peers[0]}, others: []peer{{two.Name, two.Peers}, {"host-3", nil}}}
		if err := r.Join(Together{Token: "0123456789abcdef", Members: row.members}); (err != nil) != row.refused || len(r.others) != row.others {
			t.Errorf("%s: %v, others %v", name, err, r.others)
		}
	}
}
