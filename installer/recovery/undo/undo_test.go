package undo_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/testing/short"
)

// host is a host with a kubelet and an install root.
type host struct {
	undo.Store
	t *testing.T
}

func newHost(t *testing.T) host {
	t.Helper()
	dir := t.TempDir()
	h := host{undo.Store{Root: filepath.Join(dir, "root"), Rootfs: filepath.Join(dir, "host")}, t}
	h.write("/usr/local/bin/kubelet", "kubelet 1.35.4", 0o755)
	h.write("/etc/kubernetes/manifests/etcd.yaml", "etcd 3.6.6", 0o600)
	h.write("/etc/kubernetes/manifests/.kube-apiserver.yaml.123", "half", 0o600)
	h.write("/var/lib/kubelet/config.yaml", "of before", 0o644)
	h.write(node.Binary, "sealift of before", 0o755)
	h.state("state/installer.yaml", "kubernetes 1.35.4")
	h.state("state/applied/flannel.json", "flannel 1")
	h.state("state/journal.jsonl", `{"step":"made"}`+"\n")
	h.state("index.json", "index of before")
	return h
}

func place(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (h host) write(name, text string, mode os.FileMode) {
	h.t.Helper()
	place(h.t, filepath.Join(h.Rootfs, name), text, mode)
}

func (h host) state(name, text string) {
	h.t.Helper()
	place(h.t, filepath.Join(h.Root, name), text, 0o600)
}

// files lists all files of the host, except the sets.
func (h host) files() (lines []string) {
	h.t.Helper()
	for _, dir := range []string{h.Rootfs, h.Root} {
		err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(name, node.UndoDir(h.Root)) {
				return err
			}
			text, err := os.ReadFile(name)
			lines = append(lines, name+" "+info.Mode().String()+" "+string(text))
			return err
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return lines
}

const first, second, third = "0000000000000001", "0000000000000002", "0000000000000003"

func (h host) keep(upgrade string) undo.Set {
	h.t.Helper()
	set, err := h.Keep(upgrade, "1.35.4", time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	return set
}

// upgraded makes the changes of an upgrade.
func (h host) upgraded() {
	h.write("/usr/local/bin/kubelet", "kubelet 1.36.3", 0o755)
	h.write(node.Binary, "sealift", 0o755)
	h.write("/etc/kubernetes/manifests/etcd.yaml", "etcd 3.6.8", 0o600)
	h.state("state/installer.yaml", "kubernetes 1.36.3")
	h.state("state/applied/metrics.json", "new")
	h.state("state/journal.jsonl", `{"step":"made"}`+"\n"+`{"step":"upgraded"}`+"\n")
	if err := os.Remove(filepath.Join(h.Rootfs, "/var/lib/kubelet/config.yaml")); err != nil {
		h.t.Fatal(err)
	}
}

func TestReplacedFilesAreRestored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	before := h.files()
	h.keep(first)
	h.upgraded()
	set, err := h.Newest()
	if err != nil || set.Upgrade != first || set.From != "1.35.4" {
		t.Fatalf("%+v, %v", set, err)
	}
	changed, err := h.PutBack(set, false)
	if want := []string{"/etc/kubernetes/manifests/etcd.yaml", "/usr/local/bin/kubelet", "/var/lib/kubelet/config.yaml"}; err != nil || !slices.Equal(slices.Sorted(slices.Values(changed)), want) {
		t.Errorf("put back %q, %v", changed, err)
	}
	if text, err := os.ReadFile(node.InstallerFile(h.Root)); err != nil || string(text) != "kubernetes 1.36.3" {
		t.Errorf("Sealift's own state was put back with the host: %s, %v", text, err)
	}
	changed, err = h.PutBack(set, true)
	if err != nil || len(changed) < 2 || changed[len(changed)-1] != node.Binary {
		t.Errorf("the program does not go back last: %q, %v", changed, err)
	}
	if after := h.files(); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if changed, err := h.PutBack(set, false); err != nil || len(changed) > 0 {
		t.Errorf("once more: %q, %v", changed, err)
	}
}

func TestSecondUpgradeRunKeepsFirstCopies(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	before := h.files()
	h.keep(first)
	h.upgraded()
	set := h.keep(first)
	for _, own := range []bool{false, true} {
		if _, err := h.PutBack(set, own); err != nil {
			t.Fatal(err)
		}
	}
	if after := h.files(); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

func TestOneEarlierUndoSetIsKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if _, err := h.Newest(); !errors.Is(err, undo.ErrNone) {
		t.Errorf("before any upgrade: %v", err)
	}
	for _, upgrade := range []string{first, second, third} {
		h.keep(upgrade)
	}
	if _, err := h.Of(first); !errors.Is(err, undo.ErrNone) {
		t.Errorf("the oldest set: %v", err)
	}
	if _, err := h.Of(second); err != nil {
		t.Error(err)
	}
	newest, err := h.Newest()
	if err != nil || newest.Upgrade != third {
		t.Fatalf("%+v, %v", newest, err)
	}
	if err := newest.Remove(); err != nil {
		t.Fatal(err)
	}
	if newest, err = h.Newest(); err != nil || newest.Upgrade != second {
		t.Errorf("after the newest was removed: %+v, %v", newest, err)
	}
}

// TestNewestSetIsTheLastMade sets the clock ahead during the first upgrade, and back to 1970 during the third.
func TestNewestSetIsTheLastMade(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for n, upgrade := range []string{first, second, third} {
		at := []time.Time{time.Now().AddDate(1, 2, 0), time.Now(), time.Unix(0, 0)}[n]
		if _, err := h.Keep(upgrade, "1.35.4", at); err != nil {
			t.Fatal(err)
		}
		if newest, err := h.Newest(); err != nil || newest.Upgrade != upgrade {
			t.Errorf("after upgrade %s the newest is %+v, %v", upgrade, newest, err)
		}
	}
	if _, err := h.Of(second); err != nil {
		t.Errorf("the set of the upgrade before: %v", err)
	}
}

func TestDamagedCopyIsNotRestored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	set := h.keep(first)
	h.upgraded()
	now := h.files()
	copies, err := filepath.Glob(filepath.Join(node.UndoDir(h.Root), first, "files", "*"))
	if err != nil || len(copies) != len(set.Files) {
		t.Fatalf("%d copies of %d files, %v", len(copies), len(set.Files), err)
	}
	for _, name := range copies {
		if err := os.Truncate(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.PutBackHost(t.Context(), h.Store, io.Discard); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	if _, err := h.PutBack(set, true); err == nil {
		t.Error("a damaged copy was put back")
	}
	if after := h.files(); !slices.Equal(now, after) {
		t.Errorf("something was changed:\n%s", strings.Join(after, "\n"))
	}
}

// TestRestoreFollowsNoUserLink has a user who owns a folder of the host lead the files in it elsewhere.
func TestRestoreFollowsNoUserLink(t *testing.T) {
	short.AsRoot(t, "a folder of another user")
	h := newHost(t)
	set := h.keep(first)
	h.upgraded()
	folder, victim := filepath.Join(h.Rootfs, "/var/lib/kubelet"), filepath.Join(h.Rootfs, "/victim")
	place(t, filepath.Join(victim, "config.yaml"), "of root", 0o600)
	if err := errors.Join(os.Chmod(filepath.Dir(folder), 0o777), os.RemoveAll(folder), os.Symlink(victim, folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.PutBack(set, false); !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(victim, "config.yaml")); err != nil || string(text) != "of root" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestPackagedKubernetesIsRestored uses a host whose kubelet came with a package, over which the upgrade installs another.
func TestPackagedKubernetesIsRestored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, name := range []string{"/usr/local/bin/kubelet", "/var/lib/kubelet/config.yaml"} {
		if err := os.Remove(filepath.Join(h.Rootfs, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.write("/usr/bin/kubelet", "of a package", 0o755)
	h.write("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "of a package", 0o644)
	before := h.files()
	set := h.keep(first)
	for _, name := range []string{"/usr/local/bin/kubelet", "/usr/local/bin/kubectl", "/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d/99-sealift.conf"} {
		h.write(name, "of the upgrade", 0o755)
	}
	h.write("/etc/systemd/system/sealift-agent.service", "of the upgrade", 0o644)
	for range 2 {
		if _, err := h.PutBack(set, false); err != nil {
			t.Fatal(err)
		}
	}
	after := slices.DeleteFunc(h.files(), func(line string) bool { return strings.Contains(line, "sealift-agent.service") })
	if !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// TestSymlinksAreKept has a kubelet and a manifest behind links. An upgrade replaces one link by a file, removes another, and writes
// to the file behind the third.
func TestSymlinksAreKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	links := map[string]string{
		"/usr/local/bin/kubelet": "../../../opt/kubelet", "/etc/kubernetes/manifests/etcd.yaml": filepath.Join(h.Rootfs, "srv/etcd.yaml"),
		"/var/lib/kubelet/config.yaml": "kept/config.yaml",
	}
	texts := map[string]string{}
	for name, to := range links {
		texts[name] = "behind " + name
		onDisk := filepath.Join(h.Rootfs, name)
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(onDisk), to)
		}
		place(t, to, texts[name], 0o755)
		if err := os.Remove(onDisk); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(links[name], onDisk); err != nil {
			t.Fatal(err)
		}
	}
	before := h.files()
	set := h.keep(first)
	for _, name := range []string{"/usr/local/bin/kubelet", "/etc/kubernetes/manifests/etcd.yaml"} {
		if err := os.Remove(filepath.Join(h.Rootfs, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.write("/usr/local/bin/kubelet", "of the upgrade", 0o755)
	h.write("/var/lib/kubelet/config.yaml", "of the upgrade", 0o755)
	if err := os.Remove(filepath.Join(h.Rootfs, "opt/kubelet")); err != nil {
		t.Fatal(err)
	}
	for n, want := range []int{len(links), 0} {
		if changed, err := h.PutBack(set, false); err != nil || len(changed) != want {
			t.Fatalf("%d. time: put back %q, %v", n, changed, err)
		}
	}
	for name, to := range links {
		onDisk := filepath.Join(h.Rootfs, name)
		if now, err := os.Readlink(onDisk); err != nil || now != to {
			t.Errorf("%s leads to %q instead of %q, %v", name, now, to, err)
		}
		if text, err := os.ReadFile(onDisk); err != nil || string(text) != texts[name] {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	if after := h.files(); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// TestLinksOmittedByOlderSealiftAreKept uses a set without links, and a host with a linked kubelet.
func TestLinksOmittedByOlderSealiftAreKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	kubelet := filepath.Join(h.Rootfs, "/usr/local/bin/kubelet")
	place(t, filepath.Join(h.Rootfs, "opt/kubelet"), "linked", 0o755)
	if err := errors.Join(os.Remove(kubelet), os.Symlink("../../../opt/kubelet", kubelet)); err != nil {
		t.Fatal(err)
	}
	set := h.keep(first)
	set.Files, set.Links = slices.DeleteFunc(set.Files, func(f undo.File) bool { return f.Link != "" }), false
	h.write("/usr/local/bin/kubectl", "of the upgrade", 0o755)
	if changed, err := h.PutBack(set, false); err != nil || !slices.Equal(changed, []string{"/usr/local/bin/kubectl"}) {
		t.Errorf("put back %q, %v", changed, err)
	}
	if text, err := os.ReadFile(kubelet); err != nil || string(text) != "linked" {
		t.Errorf("the kubelet is %q, %v", text, err)
	}
	if set, err := h.Newest(); err != nil || !set.Links {
		t.Errorf("a new set has no mark: %v", err)
	}
}

// TestKubeletIsRestartedAfterFailure has a folder where a file belongs. Programs that replace systemctl and its kubelet record
// their calls: a real one would run the kubelet of this machine.
func TestKubeletIsRestartedAfterFailure(t *testing.T) {
	h := newHost(t)
	set := h.keep(first)
	h.upgraded()
	kubelet := filepath.Join(h.Rootfs, "/usr/local/bin/kubelet")
	if err := os.Remove(kubelet); err != nil {
		t.Fatal(err)
	}
	place(t, filepath.Join(kubelet, "in the way"), "", 0o600)
	tools := t.TempDir()
	calls := filepath.Join(tools, "calls")
	place(t, filepath.Join(tools, "systemctl"), "#!/bin/sh\necho \"$@\" >>"+calls+"\n", 0o755)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	said := func() string {
		text, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(calls); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), "\n", ", ")
	}
	broken := errors.New("the node is not Ready")
	start := func() error { return broken }

	if err := set.PutBackNode(t.Context(), h.Store, io.Discard, start); err == nil || errors.Is(err, broken) || said() != "stop kubelet, start kubelet, " {
		t.Errorf("of a node: %v", err)
	}
	if err := set.PutBackHost(t.Context(), h.Store, io.Discard); err == nil || !strings.Contains(err.Error(), "kubelet of this host is stopped") || said() != "stop kubelet, " {
		t.Errorf("of a control plane: %v", err)
	}
	if err := os.RemoveAll(kubelet); err != nil {
		t.Fatal(err)
	}
	if err := set.PutBackNode(t.Context(), h.Store, io.Discard, start); !errors.Is(err, broken) || said() != "stop kubelet, daemon-reload, start kubelet, " {
		t.Errorf("a kubelet that does not become ready: %v", err)
	}
	place(t, filepath.Join(tools, "systemctl"), "#!/bin/sh\necho \"$@\" >>"+calls+"\n[ $1 != start ]\n", 0o755)
	if err := set.PutBackNode(t.Context(), h.Store, io.Discard, start); !errors.Is(err, broken) || !strings.Contains(err.Error(), "kubelet of this host is stopped") {
		t.Errorf("a kubelet that cannot be started: %v", err)
	}
}
