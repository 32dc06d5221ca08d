package snapshot

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/isolation"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// controlPlane makes a control plane: kubeadm's files, an Installer, and an etcd with values.
func controlPlane(t *testing.T) Source {
	t.Helper()
	folder := kubeadmtest.Folder(t)
	rootfs := strings.TrimSuffix(folder, kubeadm.Folder)
	installer := filepath.Join(rootfs, node.InstallerFile(node.DefaultRoot))
	if err := os.MkdirAll(filepath.Dir(installer), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(installer, []byte("kind: Installer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{Etcd: filledEtcd(t, folder), Rootfs: rootfs, Node: "host-1"}
}

// reader trusts the cluster of a control plane.
func (s Source) reader(t *testing.T, keys []age.Identity) Reader {
	t.Helper()
	ca, err := identity.ReadCA(s.path(kubeadm.PKI + "/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return Reader{Keys: keys, Trust: Trust{Clusters: []string{identity.CAHash(ca)}}}
}

// pair makes a key.
func pair(t *testing.T) (to []age.Recipient, keys []age.Identity) {
	t.Helper()
	fixture.Unapproved(t, fips.Snapshots)
	private, public, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	to, err = Recipients(public)
	if err == nil {
		keys, err = Identities(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to, keys
}

// weak makes a passphrase's recipient that costs no second of work.
func weak(t *testing.T, passphrase string) []age.Recipient {
	t.Helper()
	fixture.Unapproved(t, fips.Snapshots)
	to, err := Lock([]byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	to[0].(*age.ScryptRecipient).SetWorkFactor(10)
	return to
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSnapshotHasAllControlPlaneFiles(t *testing.T) {
	s := controlPlane(t)
	write := func(path, text string) {
		name := s.path(path)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("/srv/keys/encryption.yaml", "kind: EncryptionConfiguration\n")
	write("/etc/kubernetes/tmp/kubeadm-backup-etcd/db", "old")
	write("/etc/kubernetes/large", strings.Repeat("x", maxFile+1))
	manifest := s.path("/etc/kubernetes/manifests/kube-apiserver.yaml")
	text := strings.Replace(string(read(t, manifest)), "    - --allow-privileged", "    - --encryption-provider-config=/srv/keys/encryption.yaml\n    - --allow-privileged", 1)
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("admin.conf", s.path("/etc/kubernetes/link")); err != nil {
		t.Fatal(err)
	}
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	saved, err := s.Save(t.Context(), name, to...)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	index, err := s.reader(t, keys).Verify(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	if index.Kubernetes != releases.Current("kubernetes").Version || index.Node != "host-1" || !strings.HasPrefix(index.Cluster, "sha256:") || index.Etcd != saved.Etcd {
		t.Errorf("the index is %+v", index)
	}
	if want := []string{"/etc/kubernetes/large", "/etc/kubernetes/link"}; !slices.Equal(index.LeftOut, want) {
		t.Errorf("left out are %v, want %v", index.LeftOut, want)
	}
	for _, want := range []string{
		"etc/kubernetes/admin.conf", "etc/kubernetes/pki/ca.key", "etc/kubernetes/pki/etcd/ca.key", "etc/kubernetes/pki/sa.key",
		"etc/kubernetes/manifests/kube-apiserver.yaml", "srv/keys/encryption.yaml", "var/lib/sealift/state/installer.yaml",
	} {
		if !slices.ContainsFunc(index.Files, func(f File) bool { return f.Name == want }) {
			t.Errorf("the snapshot lacks %s", want)
		}
	}
	if slices.ContainsFunc(index.Files, func(f File) bool { return strings.Contains(f.Name, "/tmp/") }) {
		t.Error("the snapshot has a backup of kubeadm")
	}
	index, err = s.reader(t, keys).Index(bytes.NewReader(read(t, name)))
	if err != nil || index.Etcd != saved.Etcd {
		t.Errorf("%+v, %v", index, err)
	}
}

// TestSnapshotIsReadWithoutSealift uses only the library of age, then tar and etcd's own tool.
func TestSnapshotIsReadWithoutSealift(t *testing.T) {
	s := controlPlane(t)
	to, keys := pair(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "snapshot")
	if _, err := s.Save(t.Context(), name, to...); err != nil {
		t.Fatal(err)
	}
	decrypted, err := age.Decrypt(bytes.NewReader(read(t, name)), keys...)
	if err != nil {
		t.Fatal(err)
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-xzC", dir)
	unpack.Stdin = decrypted
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := read(t, filepath.Join(dir, "etc/kubernetes/pki/ca.key")), read(t, s.path("/etc/kubernetes/pki/ca.key")); !bytes.Equal(got, want) {
		t.Error("the CA's key differs")
	}
	restore := exec.CommandContext(t.Context(), kubeadmtest.Etcdutl(t), "snapshot", "restore", filepath.Join(dir, "etcd.db"), "--data-dir", filepath.Join(dir, "data"))
	if out, err := restore.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUnpackIsAtomic(t *testing.T) {
	s := controlPlane(t)
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Save(t.Context(), name, to...); err != nil {
		t.Fatal(err)
	}
	whole := read(t, name)
	parent := t.TempDir()
	dir := filepath.Join(parent, "unpacked")
	index, err := s.reader(t, keys).Unpack(bytes.NewReader(whole), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range index.Files {
		if info, err := os.Stat(filepath.Join(dir, f.Name)); err != nil || info.Mode() != f.Mode || !bytes.Equal(read(t, filepath.Join(dir, f.Name)), read(t, s.path("/"+f.Name))) {
			t.Errorf("%s differs: %v, %v", f.Name, info, err)
		}
	}
	if err := VerifyEtcd(filepath.Join(dir, etcdName)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	full := isolation.NewDisk(t, 32<<20)
	defer full.Fill()()
	_, stranger := pair(t)
	changed := bytes.Clone(whole)
	changed[len(changed)-1] ^= 1
	for why, row := range map[string]struct {
		content []byte
		parent  string
		keys    []age.Identity
		want    string
	}{
		"exists":        {whole, parent, keys, "exists"},
		"another key":   {whole, t.TempDir(), stranger, ErrWrongKey.Error()},
		"the last byte": {changed, t.TempDir(), keys, "damaged"},
		"cut":           {whole[:len(whole)/2], t.TempDir(), keys, "damaged"},
		"full disk":     {whole, full.Path(), keys, "no space left"},
	} {
		_, err := s.reader(t, row.keys).Unpack(bytes.NewReader(row.content), filepath.Join(row.parent, "unpacked"))
		if err == nil || !strings.Contains(err.Error(), row.want) || why == "full disk" && strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: got %v, want %q", why, err, row.want)
		}
		if left, err := filepath.Glob(filepath.Join(row.parent, "*unpacked*")); row.parent != parent && (err != nil || len(left) > 0) {
			t.Errorf("%s: left %v, %v", why, left, err)
		}
	}
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	s := controlPlane(t)
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Save(t.Context(), name, to...); err != nil {
		t.Fatal(err)
	}
	whole := read(t, name)
	for n := range 20 {
		at := n * (len(whole) - 1) / 19 // the first byte, the last, and some between
		whole[at] ^= 1
		if _, err := s.reader(t, keys).Verify(bytes.NewReader(whole)); err == nil {
			t.Errorf("with byte %d of %d changed it is taken", at, len(whole))
		}
		whole[at] ^= 1
	}
	for _, length := range []int{0, 1, 100, 200, 200 + 1<<16, len(whole) / 2, len(whole) - 1} {
		if _, err := s.reader(t, keys).Verify(bytes.NewReader(whole[:length])); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("cut after %d bytes: %v", length, err)
		}
	}
	if _, err := s.reader(t, keys).Verify(bytes.NewReader(append(bytes.Clone(whole), 0))); err == nil {
		t.Error("with a byte more it is taken")
	}
	if _, err := s.reader(t, keys).Verify(bytes.NewReader(whole)); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}

func TestSnapshotNeedsItsKey(t *testing.T) {
	s := controlPlane(t)
	to, keys := pair(t)
	_, stranger := pair(t)
	unlock := func(passphrase string) []age.Identity {
		keys, err := Unlock([]byte(passphrase))
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	for _, row := range []struct {
		why        string
		to         []age.Recipient
		right      []age.Identity
		wrong      [][]age.Identity
		passphrase bool
	}{
		{"a key", to, keys, [][]age.Identity{stranger, unlock("secret")}, false},
		{"a passphrase", weak(t, "secret"), unlock("secret"), [][]age.Identity{keys, unlock("Secret"), unlock("secret ")}, true},
	} {
		name := filepath.Join(t.TempDir(), "snapshot")
		if _, err := s.Save(t.Context(), name, row.to...); err != nil {
			t.Fatal(err)
		}
		whole := read(t, name)
		if _, err := s.reader(t, row.right).Verify(bytes.NewReader(whole)); err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
		for n, wrong := range row.wrong {
			if _, err := s.reader(t, wrong).Verify(bytes.NewReader(whole)); !errors.Is(err, ErrWrongKey) {
				t.Errorf("%s, wrong key %d: %v", row.why, n, err)
			}
		}
		if WantsPassphrase(whole[:HeadSize]) != row.passphrase {
			t.Errorf("%s: not told from its first bytes", row.why)
		}
		if bytes.Contains(whole, []byte("PRIVATE KEY")) || bytes.Contains(whole, []byte("xxxxxxxx")) {
			t.Errorf("%s: the file can be read", row.why)
		}
	}
	if _, err := Lock(nil); err == nil {
		t.Error("an empty passphrase is taken")
	}
}

func TestFailedSaveLeavesNoFile(t *testing.T) {
	s := controlPlane(t)
	to, _ := pair(t)
	full := isolation.NewDisk(t, 32<<20)
	defer full.Fill()()
	worker := s
	worker.Rootfs = t.TempDir()
	for _, row := range []struct {
		why    string
		from   Source
		folder string
		want   error
	}{
		{"full disk", s, full.Path(), syscall.ENOSPC},
		{"a worker", worker, t.TempDir(), fs.ErrNotExist},
	} {
		if _, err := row.from.Save(t.Context(), filepath.Join(row.folder, "snapshot"), to...); !errors.Is(err, row.want) {
			t.Errorf("%s: %v", row.why, err)
		}
		if left, err := filepath.Glob(filepath.Join(row.folder, "*snapshot*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", row.why, left, err)
		}
	}
}

// TestSaveThrottlesDiskUse uses a small disk, with etcd's data and without.
func TestSaveThrottlesDiskUse(t *testing.T) {
	s := controlPlane(t)
	to, _ := pair(t)
	small := isolation.NewDisk(t, 64<<20)
	file := filepath.Join(small.Path(), "snapshot")
	if _, err := s.Save(t.Context(), file, to...); err != nil {
		t.Errorf("a disk without etcd: %v", err)
	}
	if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Dir(s.path(etcdData)), 0o700), os.Symlink(small.Path(), s.path(etcdData))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), file, to...); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "MiB left") {
		t.Errorf("etcd's disk: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(small.Path(), "*snapshot*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// FuzzArchive reads any bytes as a decrypted archive.
func FuzzArchive(f *testing.F) {
	whole := func(entries ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for n := 0; n < len(entries); n += 2 {
			_ = w.WriteHeader(&tar.Header{Name: entries[n], Size: int64(len(entries[n+1])), Mode: 0o600})
			_, _ = w.Write([]byte(entries[n+1]))
		}
		_ = w.Close()
		return b.Bytes()
	}
	index := func(files string) string {
		return fmt.Sprintf(`{"format":1,"time":"2026-01-01T00:00:00Z","node":"a","cluster":"sha256:%064d","etcd":{"size":3},"files":[%s]}`, 0, files)
	}
	f.Add(whole(indexName, index(""), etcdName, "abc"))
	f.Add(whole(indexName, index(`{"name":"etc/kubernetes/a","mode":384,"size":1,"sha256":"x"}`), "etc/kubernetes/a", "b", etcdName, "abc"))
	f.Add(whole(indexName, index(`{"name":"../a"}`)))
	f.Add(whole(indexName, `{"format":4}`))
	signed := strings.Replace(index(""), `"format":1`, `"format":3`, 1)
	f.Add(whole(indexName, signed, headSealName, `{"ca":"MAA=","certificate":"MAA=","value":"MAA="}`, etcdName, "abc", sealName, "{}"))
	volumes := strings.Replace(index(""), `"format":1`, `"volumes":[{"name":"v","path":"/srv/v"}],"format":2`, 1)
	f.Add(whole(indexName, volumes, etcdName, "abc", "volumes/v.tar.00000000", "a", "volumes/v.json", `{"size":1,"sha256":"x"}`))
	f.Add(whole(indexName, volumes, etcdName, "abc", "volumes/v.json", `{}`))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := Reader{Trust: Trust{Unsigned: true}}
		index, err := r.verify(tar.NewReader(bytes.NewReader(data)), discard)
		if err == nil && (index.check() != nil || index.Signed()) {
			t.Errorf("took %+v", index)
		}
		if packed, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			_, _ = r.verify(tar.NewReader(packed), discard)
		}
	})
}
