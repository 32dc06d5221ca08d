//go:build grid

package airgap_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestKilledGridResumes kills the program that runs a test at five moments, with SIGKILL, and starts it again. In the end the report
// equals that of an undisturbed run, and this machine has nothing left of the hosts.
func TestKilledGridResumes(t *testing.T) {
	r := gridRoad(t)
	state, err := scratch.NewIn("/var/tmp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := state.Remove(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(host.StateEnv, state.Path())
	hosts := filepath.Join(r.dir(), "hosts-killed.yaml")
	place(t, hosts, []byte("systems: {debian-12: {lab: debian-12}}\n"))
	const test = "single-node-without-a-network"
	out := filepath.Join(t.TempDir(), "report")
	logs := filepath.Join(out, "results", test, "debian-12", "1")
	for _, moment := range []struct {
		name, file string
		after      time.Duration
	}{
		{"while the bundle is made", filepath.Join(out, ".bundles", "*.yaml"), 0},
		{"while the host boots", filepath.Join(state.Path(), "hosts", "*"), 500 * time.Millisecond},
		{"while the bundle is carried", filepath.Join(logs, "01-*"), 0},
		{"in the install", filepath.Join(logs, "02-*"), 15 * time.Second},
		{"in the reset", filepath.Join(logs, "*-reset.log"), 2 * time.Second},
	} {
		cmd := r.gridCommand(t.Context(), demoTests, hosts, out, "--test", test)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		appears(t, moment.file)
		time.Sleep(moment.after)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatalf("%s: the run had ended", moment.name)
		}
		t.Logf("killed %s, after %s", moment.name, time.Since(began).Round(time.Second))
		if err := os.RemoveAll(logs); err != nil { // the next moment waits for logs of its own run
			t.Fatal(err)
		}
	}
	got := r.grid(t, 0, demoTests, hosts, out, "--test", test)
	leavesNothing(t, state.Path())
	want := r.grid(t, 0, demoTests, hosts, filepath.Join(t.TempDir(), "undisturbed"), "--test", test)
	if a, b := outcome(got), outcome(want); a != b {
		t.Errorf("after five kills:\n%s\nundisturbed:\n%s", a, b)
	}
	leavesNothing(t, state.Path())
}

// appears waits for a file that a pattern matches.
func appears(t *testing.T, pattern string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if found, err := filepath.Glob(pattern); len(found) > 0 || err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in ten minutes", pattern)
		}
	}
}

// outcome is a report without times and names of hosts.
func outcome(list gridReport) string {
	var out strings.Builder
	for _, c := range list.Cells {
		fmt.Fprintf(&out, "%s on %s: %s %q %d files, %d violations, digest %s\n", c.Test, c.System, c.Verdict, c.Reason(), len(c.Attempts[0].Files), len(c.Attempts[0].Violations), c.Attempts[0].Digest)
		for _, s := range c.Attempts[0].Steps {
			fmt.Fprintf(&out, "  %s: %s\n", s.Name, s.Verdict)
		}
	}
	return out.String()
}

// leavesNothing looks for parts of a rack's hosts on this machine: folders, mounts, the bridge, rules, processes.
func leavesNothing(t *testing.T, state string) {
	t.Helper()
	sum := sha256.Sum256([]byte(state))
	rack := hex.EncodeToString(sum[:3])
	if hosts, err := filepath.Glob(filepath.Join(state, "hosts", "*")); len(hosts) > 0 || err != nil {
		t.Errorf("hosts are left: %q, %v", hosts, err)
	}
	for what, command := range map[string]string{"mounts": "cat /proc/self/mountinfo", "interfaces": "ls /sys/class/net", "rules": "nft list tables", "processes": "ps -eo args"} {
		printed, err := exec.Command("bash", "-c", command).Output()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		for line := range strings.Lines(string(printed)) {
			if strings.Contains(line, state) || strings.Contains(line, "sealift-"+rack) || strings.Contains(line, "sealift_lab_"+rack) {
				t.Errorf("%s are left: %s", what, line)
			}
		}
	}
}
