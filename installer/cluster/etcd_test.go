package cluster

import (
	"context"
	"net"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/sealift/sealift/testgrid/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
	"github.com/sealift/sealift/testgrid/scratch"
)

// startEtcd runs an etcd of one member and gives its endpoint.
func startEtcd(t *testing.T) string {
	t.Helper()
	workshop, err := upstream.NewWorkshop(upstream.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := workshop.File(t.Context(), upstream.FileOf{Component: "etcd-v3.6.8", Name: "etcd"})
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
	const peer = "unix://peer:1"
	etcd, err := daemon.Start(daemon.Command{Path: binary, Dir: dir.Path(), Log: dir.File("log"), Args: []string{
		"--name=one", "--data-dir=" + dir.File("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=unix://" + dir.File("etcd.sock"), "--advertise-client-urls=unix://etcd:1",
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=one=" + peer,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := etcd.WaitReady(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", dir.File("etcd.sock"))
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		t.Fatalf("%v\n%s", err, etcd.LogTail())
	}
	return "unix://" + dir.File("etcd.sock")
}

func TestAMemberThatNeverCameIsTakenOut(t *testing.T) {
	endpoint := startEtcd(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.MemberAddAsLearner(ctx, []string{"https://10.0.0.2:2380"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		peer string
		left int
	}{
		{"https://10.0.0.3:2380", 2}, // of nobody
		{"https://10.0.0.2:2380", 1},
		{"https://10.0.0.2:2380", 1}, // is gone already
	} {
		if err := removeMember(ctx, nil, []string{endpoint}, row.peer); err != nil {
			t.Fatalf("%s: %v", row.peer, err)
		}
		list, err := client.MemberList(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Members) != row.left {
			t.Errorf("after %s: %v", row.peer, list.Members)
		}
	}
}

func TestAHostWithoutCredentialsIsNoMember(t *testing.T) {
	if _, err := etcdCredentials(t.TempDir()); err == nil {
		t.Error("credentials out of nothing")
	}
}
