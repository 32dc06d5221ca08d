package cluster

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// etcds are the members of one etcd, by the names of their nodes. Etcd requires host:port in what it advertises; in a unix URL
// that is a file in the working directory, which all of them and the test share.
type etcds map[string]*daemon.Daemon

func peerOf(name string) string   { return "unix://" + name + ":2380" }
func clientOf(name string) string { return "unix://" + name + ":2379" }

// startEtcds runs an etcd with the named members, and waits for a leader.
func startEtcds(t *testing.T, names ...string) (etcds, *etcd) {
	t.Helper()
	workshop := lab.Workshop(t)
	binary, err := workshop.File(t.Context(), upstream.Program("etcd"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := scratch.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Remove(); err != nil {
			t.Error(err)
		}
	})
	t.Chdir(dir.Path())
	var initial, endpoints []string
	for _, name := range names {
		initial, endpoints = append(initial, name+"="+peerOf(name)), append(endpoints, clientOf(name))
	}
	all := etcds{}
	for _, name := range names {
		all[name], err = daemon.Start(daemon.Command{Path: binary, Dir: dir.Path(), Log: dir.File(name + ".log"), Args: []string{
			"--name=" + name, "--data-dir=" + dir.File(name), "--unsafe-no-fsync", "--initial-cluster=" + strings.Join(initial, ","),
			"--listen-client-urls=" + clientOf(name), "--advertise-client-urls=" + clientOf(name),
			"--listen-peer-urls=" + peerOf(name), "--initial-advertise-peer-urls=" + peerOf(name),
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(all[name].Stop)
	}
	e, err := newEtcd(t.Context(), nil, endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	eventually(t, "all members answer", func(ctx context.Context) error {
		members, err := e.members(ctx)
		if err != nil || slices.ContainsFunc(members, func(m etcdMember) bool { return !m.answers }) {
			return fmt.Errorf("%+v %w", members, err)
		}
		return nil
	})
	eventually(t, "it takes a value", e.writes)
	return all, e
}

// writes checks that the members can decide something together.
func (e *etcd) writes(ctx context.Context) error {
	_, err := e.Put(ctx, "key", "value")
	return err
}

// eventually waits generously.
func eventually(t *testing.T, what string, is func(context.Context) error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = is(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("not after two minutes: %s: %v", what, err)
}

func (e *etcd) leader(t *testing.T) string {
	t.Helper()
	members, err := e.members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		status, err := e.Status(t.Context(), m.clients[0])
		if err != nil {
			t.Fatal(err)
		}
		if status.Leader == m.id {
			return m.name
		}
	}
	t.Fatal("no leader")
	return ""
}

func (e *etcd) names(t *testing.T) (names []string) {
	t.Helper()
	members, err := e.members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return names
}

func TestEtcdLeaderLeavesUntilOneMemberRemains(t *testing.T) {
	all, e := startEtcds(t, "a", "b", "c")
	for left := 2; left > 0; left-- {
		leader := e.leader(t)
		if err := e.leave(t.Context(), leader, ""); err != nil {
			t.Fatal(err)
		}
		all[leader].Stop()
		if names := e.names(t); len(names) != left || slices.Contains(names, leader) {
			t.Errorf("after %s left: %v", leader, names)
		}
		eventually(t, "the others go on", e.writes)
	}
	last := e.names(t)
	if err := e.leave(t.Context(), last[0], ""); err != nil {
		t.Error(err)
	}
	if names := e.names(t); !slices.Equal(names, last) {
		t.Errorf("the last member left: %v", names)
	}
}

func TestRequiredMemberDoesNotLeave(t *testing.T) {
	all, e := startEtcds(t, "a", "b", "c")
	all["c"].Stop()
	var majority *MajorityError
	if err := e.tryLeave(t.Context(), "b", ""); !errors.As(err, &majority) || !slices.Equal(majority.Silent, []string{"c"}) || majority.Members != 2 {
		t.Errorf("got %v", err)
	}
	if err := e.leave(t.Context(), "c", ""); err != nil { // the dead one may
		t.Error(err)
	}
	if names := e.names(t); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("members are %v", names)
	}
	all["b"].Stop()
	if err := e.tryLeave(t.Context(), "b", ""); !errors.As(err, &majority) || !slices.Equal(majority.Silent, []string{"b"}) || majority.Members != 2 {
		t.Errorf("without a majority: %v", err)
	}
}

func TestUnstartedEtcdMemberIsRemoved(t *testing.T) {
	_, e := startEtcds(t, "a")
	if _, err := e.MemberAddAsLearner(t.Context(), []string{"https://10.0.0.2:2380"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		address string
		left    int
	}{
		{"10.0.0.3", 2}, // unowned
		{"10.0.0.2", 1},
		{"10.0.0.2", 1}, // is gone already
	} {
		if err := e.leave(t.Context(), "b", row.address); err != nil {
			t.Fatalf("%s: %v", row.address, err)
		}
		if names := e.names(t); len(names) != row.left {
			t.Errorf("after %s: %v", row.address, names)
		}
	}
}

func TestSnapshotReportsMemberWithoutLeader(t *testing.T) {
	all, _ := startEtcds(t, "a", "b")
	own, err := newEtcd(t.Context(), nil, clientOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	is := func(led bool) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := own.snapshot(ctx, clientOf("a"))
			if err != nil {
				return err
			}
			s.stop()
			if s.Led != led {
				return fmt.Errorf("led is %t", s.Led)
			}
			return nil
		}
	}
	eventually(t, "a has a leader", is(true))
	all["b"].Stop()
	eventually(t, "a has lost the other member", is(false))
}

func TestHostWithoutCredentialsIsNotAMember(t *testing.T) {
	dir := t.TempDir()
	if _, err := etcdCredentials(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("credentials out of nothing: %v", err)
	}
	ended := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: fixture.EndedCertificate(t, "127.0.0.1").Certificate[0]})
	for _, name := range []string{"ca.crt", "healthcheck-client.crt", "healthcheck-client.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), ended, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := etcdCredentials(dir); err == nil || !strings.Contains(err.Error(), "healthcheck-client.crt is valid from") || !strings.Contains(err.Error(), "the clock of this host says") {
		t.Errorf("a certificate that has ended: %v", err)
	}
}

// TestMemberMovesWithMajority gives members of a real etcd other addresses: one that runs, and one whose host has lost
// its address.
func TestMemberMovesWithMajority(t *testing.T) {
	all, e := startEtcds(t, "a", "b", "c")
	peers := func(name string) []string {
		t.Helper()
		members, err := e.members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, _ := memberOf(members, name, "")
		return m.peers
	}
	const first, second = "https://10.0.0.9:2380", "https://10.0.0.10:2380"
	for range 2 { // the second time nothing is left to do
		if err := e.move(t.Context(), "a", first); err != nil {
			t.Fatal(err)
		}
		if got := peers("a"); !slices.Equal(got, []string{first}) {
			t.Errorf("the others reach a at %v", got)
		}
	}
	all["a"].Stop()
	if err := e.move(t.Context(), "a", second); err != nil {
		t.Fatal(err)
	}
	if got := peers("a"); !slices.Equal(got, []string{second}) {
		t.Errorf("the others reach a at %v", got)
	}
	var majority *MajorityError
	if err := e.tryMove(t.Context(), "b", first); !errors.As(err, &majority) {
		t.Errorf("b moves while a does not answer: %v", err)
	}
	if err := e.tryMove(t.Context(), "d", first); err == nil || !strings.Contains(err.Error(), "no member d") {
		t.Errorf("a stranger moves: %v", err)
	}
}

func TestOnlyMemberMoves(t *testing.T) {
	_, e := startEtcds(t, "a")
	const peer = "https://[fd00::9]:2380"
	if err := e.move(t.Context(), "a", peer); err != nil {
		t.Fatal(err)
	}
	members, err := e.members(t.Context())
	if err != nil || !slices.Equal(members[0].peers, []string{peer}) {
		t.Errorf("%+v, %v", members, err)
	}
	eventually(t, "it goes on", e.writes)
}

func TestOwnMemberIsQueriedAtListenAddress(t *testing.T) {
	for manifest, want := range map[string]string{
		"    - --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.1:2379\n": "https://127.0.0.1:2379",
		"    - --listen-client-urls=https://[::1]:2379,https://[fd00::2]:2379\n":    "https://[::1]:2379",
		"    - --listen-client-urls=https://[fd00::2]:2379,https://[::1]:2379\n":    "https://[::1]:2379",
		"    - --listen-client-urls=https://10.0.0.1:2379\n    - --name=host-1\n":   "https://127.0.0.1:2379",
		"    - --listen-client-urls=%zz\n":                                          "https://127.0.0.1:2379",
		"":                                                                          "https://127.0.0.1:2379",
	} {
		if got := loopbackOf([]byte("spec:\n  containers:\n  - command:\n    - etcd\n" + manifest)); got != want {
			t.Errorf("%q: got %s, want %s", manifest, got, want)
		}
	}
}
