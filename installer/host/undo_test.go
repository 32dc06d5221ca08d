package host

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownNetwork gives the test a network of its own. The thread that has it ends with the test.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

const rulesOfTheHost = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:MINE - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "KUBE-LOOKALIKE -j KUBE-nothing" -j ACCEPT
-A FORWARD -j MINE
-A MINE -s 192.0.2.0/24 -j ACCEPT
COMMIT
`

const rulesOfTheCluster = `*filter
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
:FLANNEL-FWD - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -j KUBE-FIREWALL
-A FLANNEL-FWD -s 10.32.0.0/20 -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:CNI-0123456789abcdef - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -s 10.32.0.2/32 -m comment --comment "name: \"cbr0\" id: \"x\"" -j CNI-0123456789abcdef
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j RETURN
COMMIT
`

func TestFirewallLosesTheClustersChainsAlone(t *testing.T) {
	ownNetwork(t)
	must(t, rulesOfTheHost, "iptables-restore")
	before := FirewallRules(t.Context())
	must(t, rulesOfTheCluster, "iptables-restore", "--noflush")
	if with := FirewallRules(t.Context()); len(with) != len(before)+13 {
		t.Fatalf("%d rules and chains, want %d:\n%s", len(with), len(before)+13, strings.Join(with, "\n"))
	}
	for range 2 {
		if err := RemoveChains(t.Context(), io.Discard, []string{"KUBE-", "CNI-", "FLANNEL-"}); err != nil {
			t.Fatal(err)
		}
	}
	if after := FirewallRules(t.Context()); !slices.Equal(after, before) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

func TestNetworkLosesPodLinksAndRoutesAlone(t *testing.T) {
	ownNetwork(t)
	for _, link := range []string{"host0", "cni0", "cali1", "flannel.1", "cni-mine"} {
		must(t, "", "ip", "link", "add", link, "type", "bridge")
		must(t, "", "ip", "link", "set", link, "up")
	}
	must(t, "", "ip", "address", "add", "192.0.2.1/24", "dev", "host0")
	for _, route := range []string{"10.96.0.0/22", "10.32.1.0/24", "10.50.0.0/16", "10.96.1.0/24"} {
		must(t, "", "ip", "route", "add", route, "dev", "host0")
	}
	if err := RemoveLinks(t.Context(), io.Discard, []string{"cni-mine"}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveRoutes(t.Context(), io.Discard, []string{"10.96.1.0/24 dev host0"}, []string{"10.96.0.0/22", "10.32.0.0/20"}); err != nil {
		t.Fatal(err)
	}
	got := must(t, "", "ip", "-brief", "link") + must(t, "", "ip", "route")
	for word, want := range map[string]bool{"host0": true, "cni-mine": true, "cni0": false, "cali1": false, "flannel.1": false,
		"10.50.0.0/16": true, "10.96.1.0/24": true, "192.0.2.0/24": true, "10.96.0.0/22": false, "10.32.1.0/24": false} {
		if strings.Contains(got, word) != want {
			t.Errorf("%s there: %t, want %t\n%s", word, !want, want, got)
		}
	}
}

func TestMountsGoTheDeepestFirst(t *testing.T) {
	runtime.LockOSThread()
	dir := t.TempDir()
	for _, sub := range []string{"ours", "ours/below a space", "kept", "oursnot"} {
		name := filepath.Join(dir, sub)
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("none", name, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(name, unix.MNT_DETACH) })
	}
	busy, err := os.Open(filepath.Join(dir, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir+"/ours", link); err != nil {
		t.Fatal(err)
	}
	if err := Unmount([]string{link, dir + "/kept"}, []string{dir + "/kept"}); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for sub, want := range map[string]bool{"/ours ": false, `/ours/below\040a\040space `: false, "/kept ": true, "/oursnot ": true} {
		if bytes.Contains(mounts, []byte(dir+sub)) != want {
			t.Errorf("%s mounted: %t, want %t", sub, !want, want)
		}
	}
}

func TestCommandDoesNotWaitForWhatItLeftRunning(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if pid, err := os.ReadFile(dir + "/pid"); err == nil {
			_ = exec.Command("kill", strings.TrimSpace(string(pid))).Run()
		}
	})
	done := make(chan error, 1)
	go func() { done <- Command(t.Context(), io.Discard, "sh", "-c", "sleep 3600 & echo $! >"+dir+"/pid") }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it does not end")
	}
}

// TestContainersEndWithTheirShims starts what looks like a shim with a container in which something runs.
func TestContainersEndWithTheirShims(t *testing.T) {
	dir := t.TempDir()
	shim := filepath.Join(dir, "containerd-shim-test")
	if err := os.WriteFile(shim, []byte("#!/bin/bash\nsetsid sleep 3600 & echo $! >>"+dir+"/pids; wait\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(namespace string) *exec.Cmd {
		cmd := exec.Command("bash", "-c", `exec -a "$0" bash "$0" -namespace "$1" -id x`, shim, namespace)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	ours, others := start("sealift-test"), start("others")
	defer func() { _ = others.Process.Kill(); _ = others.Wait() }()
	var pids []string
	for len(pids) < 2 {
		data, _ := os.ReadFile(dir + "/pids")
		pids = strings.Fields(string(data))
		time.Sleep(10 * time.Millisecond)
	}
	ended := make(chan error, 1)
	go func() { ended <- ours.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := KillContainers(ctx, "sealift-test"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("it ended by itself")
	}
	alive := 0
	for _, pid := range pids {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := processes(); err == nil && list[n].args != nil {
			alive++
			defer func() { _ = unix.Kill(n, unix.SIGKILL) }()
		}
	}
	if alive != 1 {
		t.Errorf("%d containers run, want that of the other namespace alone", alive)
	}
}

// debs makes packages a and b, of which a needs b, and installs them below a root.
func debs(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for name, depends := range map[string]string{"a-tool": "Depends: b-lib\n", "b-lib": "", "c-alone": ""} {
		tree := filepath.Join(t.TempDir(), name)
		for path, text := range map[string]string{
			"DEBIAN/control":        "Package: " + name + "\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: test\n" + depends,
			"DEBIAN/conffiles":      "/etc/" + name + ".conf\n",
			"etc/" + name + ".conf": name + "\n",
		} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tree, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		must(t, "", "dpkg-deb", "--root-owner-group", "--build", tree, tree+".deb")
		files = append(files, tree+".deb")
	}
	must(t, "", "dpkg", append([]string{"--root=" + root, "--install"}, files...)...)
	return root
}

// killedDebs has c-alone as dpkg leaves it when it is killed while it unpacks.
func killedDebs(t *testing.T) (root string) {
	t.Helper()
	root = debs(t)
	name := filepath.Join(root, "var/lib/dpkg/status")
	status, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Split(string(status), "\n\n")
	for i, entry := range entries {
		if strings.HasPrefix(strings.TrimSpace(entry), "Package: c-alone\n") {
			entries[i] = strings.Replace(entry, "Status: install ok installed", "Status: install reinstreq half-installed", 1)
		}
	}
	if err := os.WriteFile(name, []byte(strings.Join(entries, "\n\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestPackagesThatOthersNeedAreKept(t *testing.T) {
	for name, row := range map[string]struct {
		installed          func(*testing.T) string
		database           func(root string) database
		remove, kept, left []string
		why                string
	}{
		"dpkg, one that is needed":             {debs, dpkgIn, []string{"b-lib", "c-alone"}, []string{"b-lib"}, []string{"a-tool", "b-lib"}, "a-tool depends on it"},
		"dpkg, all":                            {debs, dpkgIn, []string{"b-lib", "c-alone", "a-tool"}, nil, nil, ""},
		"dpkg, one whose unpacking was killed": {killedDebs, dpkgIn, []string{"c-alone"}, nil, []string{"a-tool", "b-lib"}, ""},
		"dpkg, one that is gone":               {debs, dpkgIn, []string{"never-there"}, nil, []string{"a-tool", "b-lib", "c-alone"}, ""},
		"rpm, one that is needed":              {rpms, rpmIn, []string{"libtool.noarch"}, []string{"libtool.noarch"}, []string{"libtool.noarch", "tool.noarch"}, "needs libtool"},
		"rpm, all":                             {rpms, rpmIn, []string{"libtool.noarch", "tool.noarch"}, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := row.database(row.installed(t))
			kept, err := db.remove(t.Context(), io.Discard, row.remove)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, row.kept) {
				t.Errorf("kept %v, want %v", kept, row.kept)
			}
			for _, why := range kept {
				if !strings.Contains(why, row.why) {
					t.Errorf("kept because %q, want %q", why, row.why)
				}
			}
			left, err := db.installed(t.Context())
			if got := slices.Sorted(maps.Keys(left)); err != nil || !slices.Equal(got, row.left) {
				t.Errorf("left %v, %v; want %v", left, err, row.left)
			}
		})
	}
}

func dpkgIn(root string) database { return dpkgDatabase{root} }
func rpmIn(root string) database  { return rpmDatabase{root} }

func rpms(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	d := DNF{Dir: t.TempDir(), Repositories: []string{yumRepository(t)}, Root: root, Output: io.Discard}
	if err := d.Install(t.Context(), []string{"tool"}); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestStatesAreComparedBothWays(t *testing.T) {
	before := State{Links: []string{"lo", "eth0"}, Swaps: []string{"/swap"}, Sysctls: map[string]string{"net/ipv4/ip_forward": "0", "vm/swappiness": "60"}}
	now := State{Links: []string{"lo", "eth0", "cni0"}, Sysctls: map[string]string{"net/ipv4/ip_forward": "1", "vm/swappiness": "60", "net/new": "1"}}
	var got []string
	for _, d := range now.Differences(before) {
		got = append(got, d.What+" "+d.Why)
	}
	want := []string{"swap /swap was there before", "network interface cni0 was not there before", "sysctl net.ipv4.ip_forward is 1, and was 0 before"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestThisHostsStateIsRead(t *testing.T) {
	s, err := ReadState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Links, "lo") || !slices.Contains(s.Mounts, "/proc") || s.Sysctls["vm/overcommit_memory"] == "" {
		t.Errorf("%+v", s)
	}
}

func FuzzSavedRules(f *testing.F) {
	f.Add(rulesOfTheHost)
	f.Add(rulesOfTheCluster)
	f.Add("*nat\n-A \n:\n-A x -j")
	f.Fuzz(func(t *testing.T, text string) {
		prefixes := []string{"KUBE-"}
		script := removal(parseSaved(text), prefixes)
		for line := range strings.Lines(script) {
			if chain, ok := strings.CutPrefix(line, "-F "); ok && !strings.HasPrefix(chain, "KUBE-") {
				t.Errorf("%q is flushed for\n%s", chain, text)
			}
		}
	})
}
