package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestMain lets this binary be the program.
func TestMain(m *testing.M) {
	sandbox.Main(slices.Concat(engine.Tasks(), values.Tasks(), source.Tasks())...)
	if os.Getenv("SEALIFT_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestProcessOneReapsOrphansOfHooks runs the program as process 1 of a PID namespace, as in a container.
func TestProcessOneReapsOrphansOfHooks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a PID namespace")
	}
	dir := t.TempDir()
	config, hooks, answer := filepath.Join(dir, "config"), filepath.Join(dir, "hooks"), filepath.Join(dir, "answer")
	kubeconfig := "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	hook := `#!/bin/bash
if [[ $1 == --config ]]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
(sleep 0.1 &)
sleep 1
trap 'echo stopped >> ` + answer + `; exit 1' TERM
{ echo "zombies: $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l)"; tr '\0' ' ' < /proc/1/cmdline; } > ` + answer + `.new
mv ` + answer + `.new ` + answer + `
sleep 60 & wait
`
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{config: kubeconfig, filepath.Join(hooks, "hook.sh"): hook} {
		if err := fixture.WriteProgram(name, text); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", self, "operator", "start",
		"--hooks-dir", hooks, "--kube-config", config, "--listen-address", "127.0.0.1", "--listen-port", "0", "--debug-unix-socket", "", "--tmp-dir", dir)
	cmd.Env = append(os.Environ(), "SEALIFT_TEST_MAIN=1")
	cmd.Stdout, cmd.Stderr = &log, &log
	wait, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	said := func() string { data, _ := os.ReadFile(answer); return string(data) }
	for deadline := time.Now().Add(time.Minute); said() == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = wait()
			t.Fatalf("the hook did not answer within a minute\n%s", &log)
		}
	}
	if text := said(); !strings.HasPrefix(text, "zombies: 0\n") || !strings.Contains(text, "operator start") {
		t.Errorf("the hook says %s", text)
	}
	children, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "task", strconv.Itoa(cmd.Process.Pid), "children"))
	if err != nil {
		t.Fatal(err)
	}
	one, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(one, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil || !strings.HasSuffix(said(), "stopped\n") {
		t.Errorf("after SIGTERM: %v, and the hook says %s\n%s", err, said(), &log)
	}
}
