package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// operatorProcess is a process of this program.
type operatorProcess struct {
	cmd     *exec.Cmd
	wait    func() error
	log     *fixture.Buffer
	address string
}

// startOperator starts one of several replicas. more are its other flags.
func startOperator(t *testing.T, dir, config, address, port string, more ...string) *operatorProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &operatorProcess{log: &fixture.Buffer{}, address: net.JoinHostPort(address, port)}
	p.cmd = exec.CommandContext(t.Context(), self, append([]string{"operator", "start", "--kube-config", config, "--tmp-dir", t.TempDir(),
		"--listen-address", address, "--listen-port", port, "--debug-unix-socket", "", "--ha", "--lease-duration", "4s", "--namespace", "default",
		"--pod", "pod-" + strings.ReplaceAll(address, ".", "-")}, more...)...)
	p.cmd.Env = append(os.Environ(), "SEALIFT_TEST_MAIN=1", "TRACE="+filepath.Join(dir, "trace"))
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if p.wait, err = child.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
	})
	return p
}

func (p *operatorProcess) get(path string) (int, string) {
	resp, err := http.Get("http://" + p.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// freePort is an unused one on 127.0.0.1.
func freePort(t *testing.T) string {
	t.Helper()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	_, port, _ := net.SplitHostPort(free.Addr().String())
	return port
}

// TestStandbyTakesOver kills a leader, and lets the next one stand still for so long that it loses its Lease.
func TestStandbyTakesOver(t *testing.T) {
	dir := t.TempDir()
	config, trace := filepath.Join(dir, "config"), filepath.Join(dir, "trace")
	if err := controlplane.WriteKubeconfig(config, controlplane.ForTest(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The hook traces its parent, the operator.
	hook := `#!/bin/bash
if [[ $1 == --config ]]; then echo '{configVersion: v1, onStartup: 1, schedule: [{crontab: "* * * * * *"}]}'; exit; fi
echo "$PPID" >> "$TRACE"
`
	if err := fixture.WriteProgram(filepath.Join(dir, "hooks", "hook.sh"), hook); err != nil {
		t.Fatal(err)
	}
	port, hooks := freePort(t), []string{"--hooks-dir", filepath.Join(dir, "hooks")}
	var processes []*operatorProcess
	until := func(what string, reached func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				for _, p := range processes {
					t.Log(p.log.String())
				}
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	runners := func() (all []string) {
		text, _ := os.ReadFile(trace)
		for pid := range strings.FieldsSeq(string(text)) {
			if !slices.Contains(all, pid) {
				all = append(all, pid)
			}
		}
		return all
	}
	first := startOperator(t, dir, config, "127.0.0.1", port, hooks...)
	processes = append(processes, first)
	until("the first leads", func() bool { code, _ := first.get("/readyz"); return code == http.StatusOK })
	second := startOperator(t, dir, config, "127.0.0.2", port, hooks...)
	processes = append(processes, second)
	until("the second is ready, because the first is", func() bool { code, _ := second.get("/readyz"); return code == http.StatusOK })
	until("the second says that it stands by", func() bool {
		return strings.Contains(second.log.String(), "another operator leads; this one stands by")
	})
	if code, _ := second.get("/healthz"); code != http.StatusOK {
		t.Errorf("%d\n%s", code, second.log)
	}
	if got, want := runners(), []string{strconv.Itoa(first.cmd.Process.Pid)}; !slices.Equal(got, want) {
		t.Errorf("hooks were run by %v, not by %v alone", got, want)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = first.wait()
	if code, text := second.get("/readyz"); code != http.StatusInternalServerError || !strings.Contains(text, "its leader does not answer") {
		t.Errorf("after the kill: %d %s", code, text)
	}
	until("the second runs hooks", func() bool { return slices.Contains(runners(), strconv.Itoa(second.cmd.Process.Pid)) })
	t.Logf("the second took over %s after the kill", time.Since(killed).Round(time.Millisecond))
	until("the second is ready by itself", func() bool { code, _ := second.get("/readyz"); return code == http.StatusOK })
	third := startOperator(t, dir, config, "127.0.0.3", port, hooks...)
	processes = append(processes, third)
	until("the third stands by", func() bool { return strings.Contains(third.log.String(), "stands by") })
	if err := second.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until("the third leads", func() bool { return strings.Contains(third.log.String(), "this operator leads") })
	if err := second.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := second.wait(); err == nil || !strings.Contains(second.log.String(), "the lease was lost") {
		t.Errorf("the operator that lost the lease ended with %v\n%s", err, second.log)
	}
	if err := third.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := third.wait(); err != nil {
		t.Errorf("the third ended with %v\n%s", err, third.log)
	}
}
