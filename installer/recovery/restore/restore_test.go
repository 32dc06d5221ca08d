package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/isolation"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// etcdHost is a control plane whose etcd has objects.
type etcdHost struct {
	host
	etcd   cluster.EtcdAddress
	client *clientv3.Client
}

func newEtcdHost(t *testing.T) etcdHost {
	t.Helper()
	folder := kubeadmtest.Folder(t)
	kubeadmtest.EtcdManifest(t, folder)
	c := etcdHost{host: host{files.Host{Rootfs: strings.TrimSuffix(folder, kubeadm.Folder)}}}
	c.etcd = cluster.EtcdAddress{Endpoint: kubeadmtest.Etcd(t, folder), PKI: filepath.Join(folder, "pki/etcd")}
	c.client = kubeadmtest.EtcdClient(t, c.etcd.Endpoint, c.etcd.PKI)
	c.put(t, "namespaces/kube-system", "uid 01234567-89ab-cdef-0123-456789abcdef")
	return c
}

func (c etcdHost) put(t *testing.T, name, value string) {
	t.Helper()
	if _, err := c.client.Put(t.Context(), objectPrefix+name, value); err != nil {
		t.Fatal(err)
	}
}

// save saves and loads a snapshot.
func (c etcdHost) save(t *testing.T) *snapshot.Content {
	t.Helper()
	fixture.Unapproved(t, fips.Snapshots)
	private, public, err := snapshot.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), private, 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := snapshot.Recipients(public)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := snapshot.Identities(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	source := snapshot.Source{Etcd: c.etcd, Rootfs: c.Rootfs, Node: kubeadmtest.Node}
	if _, err := source.Save(t.Context(), filepath.Join(dir, "snapshot"), to...); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	own, _, err := c.clusterOf()
	if err != nil {
		t.Fatal(err)
	}
	content, err := snapshot.Reader{Keys: keys, Trust: snapshot.Trust{Clusters: []string{own}}}.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = content.Close() })
	return content
}

func contentData(t *testing.T, c *snapshot.Content) data {
	t.Helper()
	d, err := readData(fmt.Sprintf("/proc/self/fd/%d", c.Etcd.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRestoredDataMatchesSnapshot exchanges the data of an etcd that has others, and starts one with it.
func TestRestoredDataMatchesSnapshot(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	for n := range 200 {
		c.put(t, fmt.Sprintf("configmaps/default/object-%d", n), strings.Repeat("x", n))
	}
	from := c.save(t)
	was := contentData(t, from)
	c.put(t, "configmaps/default/late", "lost")
	manifest, err := c.manifest(kubeadm.EtcdManifest, from)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseMember(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if want := (member{kubeadmtest.Node, "https://" + kubeadmtest.Address + ":2380", "/var/lib/etcd", m.Image, kubeadmtest.Node + "=https://" + kubeadmtest.Address + ":2380"}); m != want || !strings.Contains(m.Image, "/etcd:") {
		t.Errorf("the manifest has %+v", m)
	}
	m.Peers = kubeadmtest.Peer
	d := dataFolder{path: filepath.Join(t.TempDir(), "etcd"), generation: "now"}
	plant(t, filepath.Join(d.member(), "old"))
	plant(t, filepath.Join(d.made(), "half")) // by a restore that was killed
	if err := d.make(t.Context(), etcdutl{kubeadmtest.Etcdutl(t), m, io.Discard}, from.Etcd, true); err != nil {
		t.Fatal(err)
	}
	if err := d.exchange(); err != nil {
		t.Fatal(err)
	}
	at := cluster.EtcdAddress{Endpoint: kubeadmtest.EtcdWithData(t, c.Path(kubeadm.Folder), d.path), PKI: c.etcd.PKI}
	is, err := askData(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was.keys, is.keys); diff != "" || is.cluster != was.cluster || is.cluster == "" {
		t.Errorf("the restored etcd differs (%s, was %s):\n%s", is.cluster, was.cluster, diff)
	}
	if is.revision < was.revision+1_000_000_000 {
		t.Errorf("the revision is %d, was %d: watches would miss changes", is.revision, was.revision)
	}
	if !exists(filepath.Join(d.old(), memberFolder, "old")) || exists(d.made()) {
		t.Error("the old data is not kept, or the restore left something")
	}
	if lost := compare(was, is); len(lost.Created)+len(lost.Changed)+len(lost.Deleted) > 0 || lost.Unknown != "" {
		t.Errorf("it lost %+v", lost)
	}
}

// TestLastMemberKeepsItsData makes data of the file of an etcd that has ended, which has no digest.
func TestLastMemberKeepsItsData(t *testing.T) {
	t.Parallel()
	folder := kubeadmtest.Folder(t)
	d := dataFolder{path: filepath.Join(t.TempDir(), "etcd"), generation: "now"}
	pki := filepath.Join(folder, "pki/etcd")
	t.Run("before", func(t *testing.T) {
		at := cluster.EtcdAddress{Endpoint: kubeadmtest.EtcdWithData(t, folder, d.path), PKI: pki}
		c := etcdHost{etcd: at, client: kubeadmtest.EtcdClient(t, at.Endpoint, at.PKI)}
		c.put(t, "configmaps/default/last", "word")
	})
	was, err := readData(d.database())
	if err != nil || len(was.keys) != 1 {
		t.Fatalf("%v, %v", was.keys, err)
	}
	f, err := os.Open(d.database())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := member{Name: kubeadmtest.Node, Peers: kubeadmtest.Peer, Data: d.path, Image: ""}
	if err := d.make(t.Context(), etcdutl{kubeadmtest.Etcdutl(t), m, io.Discard}, f, true); err == nil {
		t.Error("a file without a digest is taken for a snapshot")
	}
	if err := d.make(t.Context(), etcdutl{kubeadmtest.Etcdutl(t), m, io.Discard}, f, false); err != nil {
		t.Fatal(err)
	}
	if err := d.exchange(); err != nil {
		t.Fatal(err)
	}
	is, err := askData(t.Context(), cluster.EtcdAddress{Endpoint: kubeadmtest.EtcdWithData(t, folder, d.path), PKI: pki})
	if err != nil || !maps.Equal(was.keys, is.keys) || len(is.members) != 1 {
		t.Errorf("it has %v, had %v, %v", is.keys, was.keys, err)
	}
}

func TestDamagedSnapshotCreatesNoData(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	from := c.save(t)
	d := dataFolder{path: filepath.Join(t.TempDir(), "etcd"), generation: "now"}
	if _, err := from.Etcd.WriteAt([]byte("x"), 9000); err != nil {
		t.Fatal(err)
	}
	m := member{Name: kubeadmtest.Node, Peers: kubeadmtest.Peer, Data: "/var/lib/etcd", Image: ""}
	err := d.make(t.Context(), etcdutl{kubeadmtest.Etcdutl(t), m, io.Discard}, from.Etcd, true)
	if err == nil || exists(d.made()) || d.ready() {
		t.Errorf("it is made: %v", err)
	}
}

func plant(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestExchangeResumesWhereItStopped begins in every state that a loss of power can leave.
func TestExchangeResumesWhereItStopped(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		state func(*testing.T, dataFolder)
		kept  []string
	}{
		"not begun":      {func(t *testing.T, d dataFolder) { plant(t, d.member()+"/first") }, []string{"member/first"}},
		"no data":        {func(*testing.T, dataFolder) {}, nil},
		"old data moved": {func(t *testing.T, d dataFolder) { plant(t, d.old()+"/member/first") }, []string{"member/first"}},
		"etcd began without data then": {func(t *testing.T, d dataFolder) { plant(t, d.old()+"/member/first"); plant(t, d.member()+"/second") },
			[]string{"member/first", "member-2/second"}},
		"new data in place": {func(t *testing.T, d dataFolder) {
			plant(t, d.old()+"/member/first")
			if err := os.Rename(d.made()+"/member", d.member()); err != nil {
				t.Fatal(err)
			}
		}, []string{"member/first"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := dataFolder{path: t.TempDir(), generation: "now"}
			plant(t, filepath.Join(d.made(), memberFolder, markName))
			if err := os.WriteFile(filepath.Join(d.made(), memberFolder, markName), []byte("now"), 0o600); err != nil {
				t.Fatal(err)
			}
			row.state(t, d)
			for range 2 {
				if err := d.exchange(); err != nil {
					t.Fatal(err)
				}
				if !d.inPlace() || exists(d.made()) {
					t.Error("the new data is not in its place")
				}
				kept, err := filepath.Glob(d.old() + "/*/*")
				if err != nil {
					t.Fatal(err)
				}
				for i := range kept {
					kept[i] = strings.TrimPrefix(kept[i], d.old()+"/")
				}
				if !slices.Equal(kept, row.kept) {
					t.Errorf("kept are %v, want %v", kept, row.kept)
				}
			}
		})
	}
}

func TestObjectsNewerThanSnapshotAreNamed(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	for _, name := range []string{"same", "changed", "deleted"} {
		c.put(t, "configmaps/default/"+name, "1")
	}
	from := c.save(t)
	c.put(t, "configmaps/default/changed", "2")
	c.put(t, "configmaps/default/created", "1")
	c.put(t, "events/default/one", "1")
	c.put(t, "leases/kube-node-lease/host-1", "1")
	if _, err := c.client.Delete(t.Context(), objectPrefix+"configmaps/default/deleted"); err != nil {
		t.Fatal(err)
	}
	want := Lost{Created: []string{"configmaps/default/created"}, Changed: []string{"configmaps/default/changed"}, Deleted: []string{"configmaps/default/deleted"}}
	was := contentData(t, from)
	live, err := askData(t.Context(), c.etcd)
	if err != nil {
		t.Fatal(err)
	}
	file := contentData(t, c.save(t))
	for how, now := range map[string]data{"asked": live, "read": file} {
		if diff := cmp.Diff(want, compare(was, now)); diff != "" {
			t.Errorf("%s: %s", how, diff)
		}
		if len(now.members) != 1 || now.members[0].Name != kubeadmtest.Node {
			t.Errorf("%s: the members are %v", how, now.members)
		}
	}
	c.put(t, "namespaces/kube-system", "uid 11111111-89ab-cdef-0123-456789abcdef")
	if live, err = askData(t.Context(), c.etcd); err != nil || compare(was, live).Unknown == "" {
		t.Errorf("a new cluster on the same host: %+v, %v", compare(was, live), err)
	}
}

func TestNodesAreReadFromData(t *testing.T) {
	d := data{keys: map[string]int64{"/registry/minions/host-2": 3, "/registry/minions/host-1": 2, "/registry/pods/default/host-3": 1}}
	if got := d.nodes(); !slices.Equal(got, []string{"host-1", "host-2"}) {
		t.Errorf("got %q", got)
	}
}

// TestLiveMemberIsFoundWithoutLocalData uses a snapshot from before that member joined.
func TestLiveMemberIsFoundWithoutLocalData(t *testing.T) {
	const living = "127.0.0.94"
	l, err := net.Listen("tcp", living+":2380")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newEtcdHost(t)
	m := member{Name: kubeadmtest.Node, Known: kubeadmtest.Node + "=https://127.0.0.93:2380,host-2=https://" + living + ":2380"}
	r := &Restore{host: c.host, from: c.save(t), member: m, data: dataFolder{path: t.TempDir()}}
	if err := r.look(t.Context()); err != nil || r.Lost.Unknown == "" {
		t.Fatalf("%+v, %v", r.Lost, err)
	}
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "host-2 answers at "+living) {
		t.Errorf("got %v", err)
	}
	if names := r.Others(); slices.Contains(names, "host-2") {
		t.Errorf("removed are %v, and host-2 may be a worker by now", names)
	}
}

// TestExpiredCertificatesAreRenewedBeforeStart restores a year too late.
func TestExpiredCertificatesAreRenewedBeforeStart(t *testing.T) {
	folder := kubeadmtest.Copy(t)
	r := &Restore{host: host{files.Host{Rootfs: strings.TrimSuffix(folder, kubeadm.Folder)}}, Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Restoring, nil)}}
	defer r.Log.Close()
	file := filepath.Join(folder, "pki/apiserver.crt")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		at      time.Time
		changed bool
	}{{time.Now(), false}, {time.Now().AddDate(0, 14, 0), true}} {
		if err := r.renew(row.at); err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(file); err != nil || bytes.Equal(is, was) == row.changed {
			t.Errorf("at %v, want changed %t: %v", row.at, row.changed, err)
		}
	}
}

func TestRestoreNeedsDiskSpace(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d := dataFolder{path: filepath.Join(isolation.NewDisk(t, 64<<20).Path(), "etcd"), generation: "now"}
	if err := d.make(t.Context(), etcdutl{program: "/none", output: io.Discard}, file, true); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "MiB left") {
		t.Errorf("got %v", err)
	}
	if exists(d.path) {
		t.Error("something was made")
	}
}

// TestDamagedDatabaseIsAnError cuts a database and changes bytes of it: that must not end the process.
func TestDamagedDatabaseIsAnError(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	from := c.save(t)
	whole, err := io.ReadAll(io.NewSectionReader(from.Etcd, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "db")
	read := func(content []byte) error {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readData(name)
		return err
	}
	if err := read(whole); err != nil {
		t.Error(err)
	}
	for _, length := range []int{0, 1, 4096, 8192} {
		if err := read(whole[:length]); err == nil {
			t.Errorf("with %d bytes it is taken", length)
		}
	}
	for at := 0; at < len(whole); at += len(whole) / 20 {
		changed := bytes.Clone(whole)
		for i := range min(512, len(whole)-at) {
			changed[at+i] ^= 0xff
		}
		_ = read(changed) // unread parts may have changed
	}
	if err := read([]byte("no database")); err == nil {
		t.Error("any file is taken")
	}
}

func TestSnapshotMustFitHost(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	from := c.save(t)
	stranger := host{files.Host{Rootfs: strings.TrimSuffix(kubeadmtest.Folder(t), kubeadm.Folder)}}
	kubeadmtest.EtcdManifest(t, stranger.Path(kubeadm.Folder))
	remove := func(h host, names ...string) {
		for _, name := range names {
			if err := os.RemoveAll(h.Path(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused := func(why string, h host, want string) {
		t.Helper()
		if err := (&Restore{host: h, from: from}).fit(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", why, err, want)
		}
	}
	missing := func(why string, want ...string) {
		t.Helper()
		r := &Restore{host: c.host, from: from}
		if err := r.fit(); err != nil || !slices.Equal(r.Files(), want) {
			t.Errorf("%s: %v, want %v: %v", why, r.Files(), want, err)
		}
	}
	refused("another CA", stranger, "of another cluster")
	remove(stranger, kubeadm.PKI)
	refused("another CA in a kubeconfig", stranger, "/etc/kubernetes/kubelet.conf")
	remove(stranger, kubeadm.Folder)
	refused("nothing, and another address", stranger, kubeadmtest.Address)
	missing("all is there")
	remove(c.host, "/etc/kubernetes/super-admin.conf", "/etc/kubernetes/pki/sa.pub")
	missing("half a pair", "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub")
	if err := os.Truncate(c.Path("/etc/kubernetes/admin.conf"), 0); err != nil {
		t.Fatal(err)
	}
	missing("an empty file", "/etc/kubernetes/admin.conf", "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub")
	r := &Restore{host: c.host, from: from}
	if err := r.fit(); err != nil {
		t.Fatal(err)
	}
	if err := r.writeFiles(context.Background()); err != nil {
		t.Fatal(err)
	}
	missing("written")
	renamed := *from
	renamed.Node = "host-2"
	remove(c.host, "/etc/kubernetes/pki/sa.pub")
	if err := (&Restore{host: c.host, from: &renamed}).fit(); err == nil || !strings.Contains(err.Error(), "files of host-2") {
		t.Errorf("the files of another host: %v", err)
	}
}

func TestInterruptedRestoreIsResumed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(hours int) string { return now.Add(time.Duration(-hours) * time.Hour).Format(generationTime) }
	rec := func(step, identity string, hours int, outcome lifecycle.Outcome) lifecycle.Record {
		return lifecycle.Record{Operation: lifecycle.Restoring, Step: step, Inputs: identity + separator + at(hours), Outcome: outcome}
	}
	begun, made := rec(dataStep, "a", 1, lifecycle.Started), rec(dataStep, "a", 1, lifecycle.Finished)
	for why, row := range map[string]struct {
		records    []lifecycle.Record
		generation string
		made       bool
	}{
		"none":             {nil, "", false},
		"begun":            {[]lifecycle.Record{begun}, at(1), false},
		"made":             {[]lifecycle.Record{begun, made}, at(1), true},
		"finished":         {[]lifecycle.Record{begun, made, rec(LastStep, "a", 1, lifecycle.Finished)}, "", false},
		"failed":           {[]lifecycle.Record{begun, made, rec(LastStep, "a", 1, lifecycle.Failed)}, at(1), true},
		"another since":    {[]lifecycle.Record{begun, made, rec(dataStep, "b", 0, lifecycle.Started)}, "", false},
		"long ago":         {[]lifecycle.Record{rec(dataStep, "a", 25, lifecycle.Started)}, "", false},
		"a new beginning":  {[]lifecycle.Record{made, rec(dataStep, "a", 0, lifecycle.Started)}, at(0), false},
		"other operations": {[]lifecycle.Record{begun, {Operation: lifecycle.Renewing, Step: "certs/etcd", Inputs: at(0)}}, at(1), false},
	} {
		if generation, made := interrupted(row.records, "a", now); generation != row.generation || made != row.made {
			t.Errorf("%s: %q, %t, want %q, %t", why, generation, made, row.generation, row.made)
		}
	}
}

func TestForeignManifestIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "kind: Pod", "spec: {containers: [{image: x, command: [etcd, --name=a]}]}",
		"spec: {containers: [{image: x, command: [etcd, --name=a, '--initial-advertise-peer-urls=https://a:1', --data-dir=here]}]}"} {
		if m, err := parseMember([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}
