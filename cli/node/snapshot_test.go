package node_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/node"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/kubeadm"
	"github.com/sealift/sealift/store"
)

// sealift runs a command of a node, and returns its exit code and output.
func sealift(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = app.Run(t.Context(), "sealift", node.Root, args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// must is sealift with success.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := sealift(t, args...)
	if code != app.ExitDone {
		t.Fatalf("sealift %s: exit code %d: %s", strings.Join(args, " "), code, errOut)
	}
	return out
}

// snapshots saves two snapshots of a control plane, and returns their store, oldest first, and the hash of the cluster's CA.
func snapshots(t *testing.T, public string) (location, hash string) {
	t.Helper()
	fixture.Unapproved(t, fips.Snapshots)
	folder := kubeadm.Folder(t)
	to, err := snapshot.Recipients(public)
	if err != nil {
		t.Fatal(err)
	}
	location = t.TempDir()
	for _, name := range []string{"host-1", "host-2"} {
		s := snapshot.Source{Rootfs: strings.TrimSuffix(folder, "/etc/kubernetes"), Node: name,
			Etcd: cluster.EtcdAddress{Endpoint: kubeadm.Etcd(t, folder), PKI: filepath.Join(folder, "pki/etcd")}}
		index, _, err := snapshot.At(location, store.Opener{}).Save(t.Context(), s, to...)
		if err != nil {
			t.Fatal(err)
		}
		hash = index.Cluster
	}
	return location, hash
}

func TestSnapshotCommandsWork(t *testing.T) {
	fixture.Unapproved(t, fips.Snapshots)
	key := filepath.Join(t.TempDir(), "snapshots.key")
	public := strings.TrimSpace(must(t, "snapshot", "key", "--out", key))
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key: %v, %v", info, err)
	}
	if code, _, errOut := sealift(t, "snapshot", "key", "--out", key); code != app.ExitFailed || !strings.Contains(errOut, "is not replaced") {
		t.Errorf("a key is replaced: %d, %s", code, errOut)
	}
	location, hash := snapshots(t, public)
	var listed []snapshot.Kept
	if err := json.Unmarshal([]byte(must(t, "snapshot", "list", "--store", location, "-o", "json")), &listed); err != nil || len(listed) != 2 || listed[1].Node != "host-2" {
		t.Fatalf("%+v, %v", listed, err)
	}
	if out := must(t, "snapshot", "list", "--store", location); !strings.Contains(out, listed[0].File) || strings.Count(out, "\n") != 3 {
		t.Error(out)
	}
	var shown struct {
		File string
		snapshot.Index
	}
	newest := must(t, "snapshot", "show", "--store", location, "--identity", key, "--ca-hash", hash, "-o", "json")
	if err := json.Unmarshal([]byte(newest), &shown); err != nil || shown.File != listed[1].File || shown.Kubernetes != releases.Current("kubernetes").Version {
		t.Errorf("%+v, %v", shown, err)
	}
	if out := must(t, "snapshot", "show", listed[0].File, "--store", location, "--identity", key, "--ca-hash", hash); !strings.Contains(out, "signed by the cluster "+hash) || !strings.Contains(out, "/etc/kubernetes/pki/ca.key") || !strings.Contains(out, "host-1") {
		t.Error(out)
	}
	file := filepath.Join(location, "snapshots", listed[0].File)
	if out := must(t, "snapshot", "verify", file, "--identity", key, "--ca-hash", hash); !strings.HasPrefix(out, file+" is whole: host-1 of ") || !strings.Contains(out, "signed by the cluster "+hash) {
		t.Error(out)
	}
	unpacked := filepath.Join(t.TempDir(), "unpacked")
	must(t, "snapshot", "unpack", file, "--identity", key, "--out", unpacked, "--ca-hash", hash)
	if err := snapshot.VerifyEtcd(filepath.Join(unpacked, "etcd.db")); err != nil {
		t.Error(err)
	}
	old := regexp.MustCompile(`\d{8}T`).ReplaceAllString(listed[0].File, "20200101T") // of the same node
	oldFile := filepath.Join(location, "snapshots", old)
	if err := os.Link(file, oldFile); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "snapshot", "list", "--store", location, "--identity", key, "--ca-hash", hash); strings.Count(out, "  yes  ") != 2 || !strings.Contains(out, "  no      "+old) {
		t.Error(out)
	}
	if out := must(t, "snapshot", "show", oldFile, "--identity", key, "--ca-hash", hash); !strings.Contains(out, oldFile+": nothing proves that your cluster made the snapshot: its name is ") {
		t.Error(out)
	}
	if out := must(t, "snapshot", "prune", "--keep", "1", "--plan", "--store", location); out != "would remove "+old+"\n" {
		t.Error(out)
	}
	if out := must(t, "snapshot", "prune", "--keep", "1", "--store", location); out != "removed "+old+"\n" {
		t.Error(out)
	}
	for _, row := range []struct {
		code int
		says string
		args []string
	}{
		{app.ExitFailed, "this host has no CA to compare with. If the join commands of your cluster have that hash, give --ca-hash " + hash, []string{"verify", file, "--identity", key}},
		{app.ExitFailed, "and not of [\"" + strings.ToLower(hash[:7]) + "0", []string{"verify", "--store", location, "--identity", key, "--ca-hash", "sha256:0" + strings.Repeat("A", 63)}},
		{app.ExitUsage, "sha256: and 64 hexadecimal digits", []string{"verify", file, "--identity", key, "--ca-hash", hash[:20]}},
		{app.ExitFailed, "no such file", []string{"verify", oldFile, "--identity", key}},
		{app.ExitFailed, "there is no snapshot", []string{"verify", old, "--store", location, "--identity", key}},
		{app.ExitUsage, "--identity FILE", []string{"verify", "--store", location}},
		{app.ExitUsage, "--out must name", []string{"unpack", "--store", location, "--identity", key}},
		{app.ExitFailed, "unpacked exists", []string{"unpack", "--store", location, "--identity", key, "--out", unpacked, "--ca-hash", hash}},
		{app.ExitUsage, "--keep must be at least 1", []string{"prune", "--store", location}},
		{app.ExitUsage, "must be encrypted", []string{"save"}},
		{app.ExitFailed, "is not one of age", []string{"save", "--key", "/none"}},
		{app.ExitUsage, "exclude each other", []string{"save", "--key", public, "--passphrase-file", "/none"}},
		{app.ExitFailed, "is not a snapshot", []string{"show", os.DevNull, "--identity", key}},
		{app.ExitFailed, "is not a snapshot: 'sealift snapshot save' makes", []string{"show", os.Args[0]}},
		{app.ExitFailed, "wrong key or passphrase", []string{"verify", "--store", location, "--identity", other(t)}},
	} {
		if code, _, errOut := sealift(t, append([]string{"snapshot"}, row.args...)...); code != row.code || !strings.Contains(errOut, row.says) {
			t.Errorf("snapshot %s: exit code %d, %s", strings.Join(row.args, " "), code, errOut)
		}
	}
}

// TestSnapshotPassphraseIsReadFromFileOrEnvironment saves with the passphrase "open sesame".
func TestSnapshotPassphraseIsReadFromFileOrEnvironment(t *testing.T) {
	fixture.Unapproved(t, fips.Snapshots)
	folder := kubeadm.Folder(t)
	to, err := snapshot.Lock([]byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot.Source{Rootfs: strings.TrimSuffix(folder, "/etc/kubernetes"), Node: "host-1",
		Etcd: cluster.EtcdAddress{Endpoint: kubeadm.Etcd(t, folder), PKI: filepath.Join(folder, "pki/etcd")}}
	dir := t.TempDir()
	file, passphrase := filepath.Join(dir, "snapshot"), filepath.Join(dir, "passphrase")
	saved, err := s.Save(t.Context(), file, to...)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEALIFT_CA_HASH", saved.Cluster)
	if err := os.WriteFile(passphrase, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "snapshot", "verify", file, "--passphrase-file", passphrase)
	if code, _, errOut := sealift(t, "snapshot", "verify", file); code != app.ExitUsage || !strings.Contains(errOut, "SEALIFT_SNAPSHOT_PASSPHRASE") {
		t.Errorf("without a passphrase: %d, %s", code, errOut)
	}
	if code, _, errOut := sealift(t, "snapshot", "verify", file, "--identity", other(t)); code != app.ExitUsage || !strings.Contains(errOut, "--passphrase-file") {
		t.Errorf("with a key: %d, %s", code, errOut)
	}
	t.Setenv("SEALIFT_SNAPSHOT_PASSPHRASE", "open sesame")
	must(t, "snapshot", "show", file)
	t.Setenv("SEALIFT_SNAPSHOT_PASSPHRASE", "Open sesame")
	if code, _, errOut := sealift(t, "snapshot", "verify", file); code != app.ExitFailed || !strings.Contains(errOut, "wrong key or passphrase") {
		t.Errorf("with a wrong one: %d, %s", code, errOut)
	}
}

// forge makes a snapshot as any holder of the public key can, with files that root should not write.
func forge(t *testing.T, public string, format int, at time.Time, cluster string) []byte {
	t.Helper()
	to, err := snapshot.Recipients(public)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct{ name, content string }
	db := strings.Repeat("x", 512)
	sum := sha256.Sum256([]byte(db))
	index := snapshot.Index{Format: format, Time: at, Node: "host-1", Cluster: cluster, Etcd: snapshot.Etcd{Size: 512 + sha256.Size}}
	entries := []entry{{"snapshot.json", ""}}
	for name, content := range map[string]string{"etc/cron.d/evil": "* * * * * root id\n", "root/.ssh/authorized_keys": "ssh-ed25519 AAAA forger\n"} {
		index.Files = append(index.Files, snapshot.File{Name: name, Mode: 0o600, Size: int64(len(content)), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(content)))})
		entries = append(entries, entry{name, content})
	}
	text, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].content = string(text)
	var b bytes.Buffer
	encrypted, err := age.Encrypt(&b, to...)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(encrypted)
	w := tar.NewWriter(packed)
	for _, e := range append(entries, entry{"etcd.db", db + string(sum[:])}) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.content))}))
		_, failed := io.WriteString(w, e.content)
		err = errors.Join(err, failed)
	}
	if err = errors.Join(err, w.Close(), packed.Close(), encrypted.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestForgedSnapshotIsRefusedByEveryCommand puts forged snapshots into a store, as the newest ones.
func TestForgedSnapshotIsRefusedByEveryCommand(t *testing.T) {
	fixture.Unapproved(t, fips.Snapshots)
	dir := t.TempDir()
	key, hash := filepath.Join(dir, "key"), "sha256:"+strings.Repeat("a", 64)
	public := strings.TrimSpace(must(t, "snapshot", "key", "--out", key))
	for format, says := range map[int]string{
		1: "nothing proves that your cluster made the snapshot: it has format 1",
		2: "nothing proves that your cluster made the snapshot: it has format 2",
		3: "the snapshot is damaged or no snapshot at all",
	} {
		at := time.Now().UTC().Truncate(time.Second)
		name := snapshot.Name{Cluster: "aaaaaaaa", Node: "host-1", Time: at}.String()
		location := filepath.Join(dir, strconv.Itoa(format))
		file := filepath.Join(location, "snapshots", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, forge(t, public, format, at, hash), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{
			{"snapshot", "verify"}, {"snapshot", "unpack", "--out", filepath.Join(dir, "unpacked")},
			{"restore", "--plan"}, {"restore", "--yes"}, {"restore", "--drill"}, {"restore", "--volumes", "--yes"}, {"restore", "--bundle", "/none", "--plan"},
		} {
			for _, which := range [][]string{{"--store", location}, {"--store", location, name}, {file}} {
				args := append(append(slices.Clone(command), which...), "--identity", key, "--ca-hash", hash)
				if command[0] == "restore" {
					args = append(args, "--root", filepath.Join(dir, "node"))
				}
				if code, out, errOut := sealift(t, args...); code != app.ExitFailed || !strings.Contains(errOut, says) && !strings.Contains(errOut, "/etc/cron.d/evil") || strings.Contains(out, "writes") {
					t.Errorf("%s: exit code %d, %s%s", strings.Join(args, " "), code, out, errOut)
				}
				if code, out, errOut := sealift(t, append(args, "--allow-unsigned")...); code != app.ExitFailed || !strings.Contains(errOut, `files that sealift does not save: ["/etc/cron.d/evil" "/root/.ssh/authorized_keys"]`) &&
					!strings.Contains(errOut, `files that sealift does not save: ["/root/.ssh/authorized_keys" "/etc/cron.d/evil"]`) {
					t.Errorf("%s --allow-unsigned: exit code %d, %s%s", strings.Join(args, " "), code, out, errOut)
				}
			}
		}
	}
}

// other makes another key.
func other(t *testing.T) string {
	t.Helper()
	fixture.Unapproved(t, fips.Snapshots)
	key := filepath.Join(t.TempDir(), "other.key")
	must(t, "snapshot", "key", "--out", key)
	return key
}
