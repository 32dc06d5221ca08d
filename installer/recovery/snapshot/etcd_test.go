package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/mod/semver"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/isolation"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// values is how many keys filledEtcd puts, each with a kilobyte.
const values = 2000

// filledEtcd runs an etcd with values that are more than one message of a snapshot.
func filledEtcd(t *testing.T, folder string) cluster.EtcdAddress {
	t.Helper()
	at := cluster.EtcdAddress{Endpoint: kubeadmtest.Etcd(t, folder), PKI: filepath.Join(folder, "pki/etcd")}
	client := kubeadmtest.EtcdClient(t, at.Endpoint, at.PKI)
	for n := 0; n < values; n += 100 {
		var puts []clientv3.Op
		for i := range 100 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/%d", n+i), strings.Repeat("x", 1000)))
		}
		if _, err := client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func TestEtcdutlRestoresSnapshot(t *testing.T) {
	at := filledEtcd(t, kubeadmtest.Folder(t))
	name := filepath.Join(t.TempDir(), "etcd.db")
	saved, err := saveEtcd(t.Context(), at, name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() != saved.Size || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; it says %d bytes", info, err, saved.Size)
	}
	minor := semver.MajorMinor("v" + releases.Current("kubernetes").With["etcd"])
	if saved.Revision < values/100 || "v"+saved.Version != minor+".0" || saved.Cluster == "" {
		t.Errorf("it says %+v", saved)
	}
	if err := VerifyEtcd(name); err != nil {
		t.Error(err)
	}
	restore := exec.CommandContext(t.Context(), kubeadmtest.Etcdutl(t), "snapshot", "restore", name, "--data-dir", filepath.Join(t.TempDir(), "data"))
	if out, err := restore.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRestoredEtcdMatchesSnapshot follows docs/snapshots.md, except for the restart of a host's pods.
func TestRestoredEtcdMatchesSnapshot(t *testing.T) {
	s := controlPlane(t)
	saved := kubeadmtest.EtcdClient(t, s.Etcd.Endpoint, s.Etcd.PKI)
	was, err := saved.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil || len(was.Kvs) != values {
		t.Fatalf("%d values, %v", len(was.Kvs), err)
	}
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Save(t.Context(), name, to...); err != nil {
		t.Fatal(err)
	}
	if _, err := saved.Put(t.Context(), "/registry/after", "lost"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := s.reader(t, keys).Unpack(bytes.NewReader(read(t, name)), filepath.Join(dir, "unpacked")); err != nil {
		t.Fatal(err)
	}
	restore := exec.CommandContext(t.Context(), kubeadmtest.Etcdutl(t), "snapshot", "restore", filepath.Join(dir, "unpacked/etcd.db"), "--data-dir", filepath.Join(dir, "data"),
		"--name", kubeadmtest.Node, "--initial-cluster", kubeadmtest.Node+"="+kubeadmtest.Peer, "--initial-advertise-peer-urls", kubeadmtest.Peer,
		"--bump-revision", "1000000000", "--mark-compacted")
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := cluster.EtcdAddress{Endpoint: kubeadmtest.EtcdWithData(t, s.path(kubeadm.Folder), filepath.Join(dir, "data")), PKI: s.Etcd.PKI}
	is, err := kubeadmtest.EtcdClient(t, at.Endpoint, at.PKI).Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil || len(is.Kvs) != values {
		t.Fatalf("%d values, %v", len(is.Kvs), err)
	}
	for n := range was.Kvs {
		if a, b := was.Kvs[n], is.Kvs[n]; !bytes.Equal(a.Key, b.Key) || !bytes.Equal(a.Value, b.Value) {
			t.Errorf("%s differs from %s", a.Key, b.Key)
		}
	}
	if is.Header.Revision < was.Header.Revision+1_000_000_000 {
		t.Errorf("the revision is %d, was %d: watches would miss changes", is.Header.Revision, was.Header.Revision)
	}
}

func TestDamagedSnapshotOfEtcdIsRefused(t *testing.T) {
	at := filledEtcd(t, kubeadmtest.Folder(t))
	name := filepath.Join(t.TempDir(), "etcd.db")
	if _, err := saveEtcd(t.Context(), at, name); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := VerifyEtcd(name); !errors.Is(err, cluster.ErrEtcdSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range 20 {
		at := n * (len(whole) - 1) / 19 // the first byte, the last, and some between
		whole[at] ^= 1
		refused(fmt.Sprintf("byte %d changed", at), whole)
		whole[at] ^= 1
	}
	for _, length := range []int{0, 1, 31, 32, 33, len(whole) / 2, len(whole) - 1} {
		refused(fmt.Sprintf("cut after %d bytes", length), whole[:length])
	}
}

func TestFailedEtcdSnapshotLeavesNoFile(t *testing.T) {
	at := filledEtcd(t, kubeadmtest.Folder(t))
	full := isolation.NewDisk(t, 32<<20)
	defer full.Fill()()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, row := range []struct {
		why    string
		ctx    context.Context
		from   cluster.EtcdAddress
		folder string
		want   error
	}{
		{"full disk", t.Context(), at, full.Path(), syscall.ENOSPC},
		{"interrupted", ended, at, t.TempDir(), context.Canceled},
		{"no control plane", t.Context(), cluster.EtcdAddress{Endpoint: at.Endpoint, PKI: t.TempDir()}, t.TempDir(), fs.ErrNotExist},
	} {
		if _, err := saveEtcd(row.ctx, row.from, filepath.Join(row.folder, "etcd.db")); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v", row.why, err)
		}
		left, err := filepath.Glob(filepath.Join(row.folder, "*etcd.db*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", row.why, left, err)
		}
	}
}
